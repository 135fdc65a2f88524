"""Docs are tested: the files that they name exist, and generated pages are not stale."""

import re
import tomllib
from pathlib import Path

from docs import generate
from recapito.settings.settings import defaults_text

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "recapito"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/*.md")])
QUOTED = re.compile(r"`([\w./-]+)`")
FILES = (".py", ".toml", ".sql", ".service", ".yaml", ".yml", ".json")
FOLDERS = ("src/", "tests/", "docs/", "deploy/", "examples/", "bench/")


def test_named_tests_exist() -> None:
    """Every test that a page cites as proof is there."""
    missing = []
    for page in PAGES:
        for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text("utf-8")):
            path = ROOT / file
            if not path.is_file() or (test and f"def {test}(" not in path.read_text("utf-8")):
                missing.append(f"{page.name}: {file}::{test}")
    assert not missing


def test_links_lead_somewhere() -> None:
    """Every relative link of a page leads to a file."""
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    lines = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_anchors_lead_to_headings() -> None:
    """Every link to a heading leads to one."""
    broken = [
        f"{page.name}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#]*)#([^)]+)\)", page.read_text("utf-8"))
        if anchor not in headings(page.parent / target if target else page)
    ]
    assert not broken


def test_named_files_exist() -> None:
    """Every path of a file in backticks exists, from the root of the project or from the source's."""
    missing = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for path in QUOTED.findall(text):
            meant = "/" in path[1:] and path[0] != "/" and (path.endswith(FILES) or path.startswith(FOLDERS))
            if meant and not any((root / path).exists() for root in (ROOT, SOURCE)):
                missing.append(f"{page.name}: {path}")
    assert not missing


def test_named_decisions_exist() -> None:
    """Every decision record that the source mentions exists under that name."""
    missing = [
        f"{module.name}: {path}"
        for module in SOURCE.rglob("*.py")
        for path in re.findall(r"docs/decisions/[\w-]+\.md", module.read_text("utf-8"))
        if not (ROOT / path).is_file()
    ]
    assert not missing


def test_every_decision_is_listed() -> None:
    """The list of decisions has each record once, under its title."""
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"^\| \[(.+?)\]\((\S+)\)", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    records = [(path.read_text("utf-8").splitlines()[0], path.name) for path in sorted(folder.glob("[0-9]*.md"))]
    assert [(f"# {title}", file) for title, file in listed] == records


def test_the_tree_exists() -> None:
    """Each line of the architecture's tree names a folder or a module of the source."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## The tree")[2].partition("\n## ")[0]
    missing, package = [], ""
    for indent, part in re.findall(r"^ {4}( {2}| {4})(\w[\w./]*)", page, re.MULTILINE):
        package = part if len(indent) == 2 else package
        path = SOURCE / part if len(indent) == 2 else SOURCE / package / part
        if not path.exists() and not path.with_suffix(".py").exists():
            missing.append(str(path.relative_to(SOURCE)))
    assert package and not missing


def test_reference_is_fresh() -> None:
    """The generated pages are those that the code makes now."""
    for path, text in generate.pages().items():
        assert (ROOT / path).read_text("utf-8") == text, f"{path} is stale: run make docs"


def test_every_part_has_its_layer() -> None:
    """The architecture's table of layers names each module and package at the top of the source, and nothing else."""
    table = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## Layers")[2].partition("\n## ")[0]
    parts = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`(\w+\.py|\w+/)`", " ".join(parts)))
    modules = {path.name for path in SOURCE.glob("*.py")}
    packages = {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}
    assert named == (modules | packages) - {"__init__.py"}


def test_every_setting_is_explained() -> None:
    """Each key of the defaults file has a comment above it."""
    lines = defaults_text().splitlines()
    tree = tomllib.loads(defaults_text())
    for keys in tree.values():
        for key in keys:
            at = next(n for n, line in enumerate(lines) if line.startswith(f"{key} ="))
            above = [line for line in lines[max(0, at - 2) : at] if line.startswith("#")]
            assert above, f"{key} has no comment"
