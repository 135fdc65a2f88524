"""The sample project: its own tests pass with the plugin of the installed package."""

import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "examples" / "orders-service"
PATIENCE_S = 300.0


def test_the_sample_project() -> None:
    """All tests of the sample pass, and each is named in its README."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"],
        cwd=SAMPLE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line.split("::")[1].split()[0] for line in done.stdout.splitlines() if " PASSED " in line]
    readme = (SAMPLE / "README.md").read_text("utf-8")
    assert passed and all(f"`{name}`" in readme for name in passed)
