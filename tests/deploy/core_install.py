"""A fresh environment with Recapito's wheel and the packages that its core requires, copied from this environment.

It needs no package index: the requirements are followed in the metadata of the installed packages, as pip would.
"""

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120


class FreshEnvironment:
    """A virtual environment without pip."""

    def __init__(self, folder: Path) -> None:
        _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")

    def install_wheel(self, wheel: Path) -> None:
        """Install a wheel by pip, without its requirements."""
        target = ["--python", str(self.python), "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        _run(sys.executable, "-m", "pip", *target, str(wheel))

    def copy(self, *names: str) -> None:
        """Copy installed packages with everything that they require."""
        copy_packages(self.packages, *names)

    def size(self) -> int:
        """The bytes of all packages."""
        return sum(path.stat().st_size for path in self.packages.rglob("*") if path.is_file())

    def names(self) -> set[str]:
        """The names of the packages."""
        found = (Distribution.at(path).metadata["Name"] for path in self.packages.glob("*.dist-info"))
        return {canonicalize_name(name) for name in found}


def copy_packages(folder: Path, *names: str, compiled: bool = False) -> None:
    """Copy installed packages, with everything that they require, into a folder of packages.

    compiled: with their bytecode, which the times of the files keep valid.
    """
    for name in closure(*names):
        for file in distribution(name).files or ():
            source = Path(str(file.locate()))
            if file.parts[0] != ".." and (compiled or "__pycache__" not in file.parts) and source.is_file():
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


def build(folder: Path) -> Path:
    """Build the wheel and the source distribution in a folder; the wheel."""
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def core_requirements(packages: Path) -> list[str]:
    """The names that Recapito, installed in a folder of packages, requires without extras."""
    (metadata,) = packages.glob("recapito-*.dist-info")
    wanted = map(Requirement, Distribution.at(metadata).requires or ())
    return [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]


def closure(*names: str) -> set[str]:
    """These packages and all that they require, extras that they ask for included."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in names]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for one in map(Requirement, distribution(name).requires or ()):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(one.name), part) for part in ("", *one.extras)]
    return {name for name, _ in seen}


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE_S, capture_output=True)
