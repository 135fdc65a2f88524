"""Builds the site of the documentation: `make site`, into build/site.

A page reads the same on a code host and on the site: its links are relative to its place in the project. The site has
`docs/` at its root and the pages from outside it in `project/`; links to other files of the project become downloads.
Every warning of the builder is an error, broken links and anchors among them. A page loads no asset from outside.
"""

import posixpath
import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).parents[1]
OUTSIDE = ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/orders-service/README.md")
NAVIGATION = {
    "Tutorials": (
        "tutorials/first-event",
        "tutorials/test-suite",
        "project/examples/orders-service/README",
        "tutorials/server",
    ),
    "Use it": (
        "guides/azure-clients",
        "guides/your-language",
        "guides/command-line",
        "guides/portal",
        "guides/explain",
        "guides/estate-files",
        "guides/testing-in-ci",
        "guides/functions",
        "guides/blob-events",
        "guides/aspire",
    ),
    "Run it": (
        "guides/run-on-a-server",
        "guides/containers",
        "guides/run-a-cluster",
        "guides/access",
        "guides/connections",
        "guides/to-the-cloud",
        "guides/beyond-event-grid",
        "guides/dead-letters",
        "guides/monitoring",
        "guides/sizing",
        "guides/capacity",
        "guides/move-from-azure",
    ),
    "Help": ("guides/troubleshooting", "guides/faq"),
    "Trust it": ("guides/promises", "compatibility", "reliability", "benchmarks", "project/SECURITY"),
    "Look it up": ("reference/settings", "reference/cli", "reference/metrics"),
    "Change it": ("architecture", "glossary", "project/CONTRIBUTING", "project/CHANGELOG", "decisions/README"),
}
_FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def assemble(source: Path) -> None:
    """Write the sources of the site into the empty folder `source`, with the links of each page adjusted."""
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "docs" / "site_settings.py", source / "conf.py")
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    for page in [*pages, *OUTSIDE]:
        target = source / _place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_adjusted(page, source), "utf-8")

    with (source / "index.md").open("a", encoding="utf-8") as index:
        for title, entries in NAVIGATION.items():
            index.write(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(entries) + "\n```\n")
    with (source / "decisions" / "README.md").open("a", encoding="utf-8") as decisions:
        decisions.write("\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n")


def _adjusted(page: str, source: Path) -> str:
    """The text of a page whose links lead to the places that their targets have on the site."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
        if (ROOT / target / "README.md").is_file():
            target += "/README.md"
        if not (ROOT / target).is_file():
            raise SystemExit(f"{page} links to {link[1]}, which is no file of the project")
        place = source / _place(target)
        if not place.exists() and target not in OUTSIDE:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / target, place)
        return posixpath.relpath(_place(target), posixpath.dirname(_place(page)) or ".")

    text = (ROOT / page).read_text("utf-8")
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in _FENCE.split(text))


def _place(path: str) -> str:
    """The place on the site of a file of the project."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"project/{path}"


def main() -> int:
    """Build the site anew; the builder's exit code."""
    build = ROOT / "build"
    for folder in ("site-source", "site"):
        shutil.rmtree(build / folder, ignore_errors=True)
    assemble(build / "site-source")
    code = build_main(["-q", "-W", "--keep-going", "-n", "-E", str(build / "site-source"), str(build / "site")])
    if not code:
        print("Open build/site/index.html.")
    return code


if __name__ == "__main__":
    sys.exit(main())
