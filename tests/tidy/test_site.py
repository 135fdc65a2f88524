"""The site of the documentation has every page in its navigation, and loads no asset from outside."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs import site

ROOT = Path(__file__).parents[2]
_ASSET = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=["'](?:https?:)?//[^"']+""")


def test_the_site_is_built_and_loads_nothing_from_outside() -> None:
    """No link or anchor is broken: the builder takes each warning as an error."""
    done = subprocess.run([sys.executable, "-m", "docs.site"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((ROOT / "build" / "site").rglob("*.html"))
    outside = {f"{page.name}: {found}" for page in pages for found in _ASSET.findall(page.read_text("utf-8"))}
    shutil.rmtree(ROOT / "build" / "site-source")
    assert len(pages) > 50 and not outside


def test_the_navigation_has_every_guide() -> None:
    """A page without a place in the navigation would be found by its readers only by chance."""
    placed = {entry for entries in site.NAVIGATION.values() for entry in entries}
    written = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for folder in ("guides", "tutorials", "reference")
        for path in (ROOT / "docs" / folder).glob("*.md")
    }
    assert not written - placed
