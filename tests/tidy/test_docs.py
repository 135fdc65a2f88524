"""Docs are tested: what they name exists, and what is generated is not stale."""

import re
import tomllib
from pathlib import Path

from docs import generate
from recapito.settings.settings import defaults_text

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


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


def test_reference_is_fresh() -> None:
    """The generated pages are what the code says now."""
    for path, text in generate.pages().items():
        assert (ROOT / path).read_text("utf-8") == text, f"{path} is stale: run make docs"


def test_every_part_has_its_layer() -> None:
    """The architecture's table of layers names each module and package at the top of the source, and nothing else."""
    table = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## Layers")[2].partition("\n## ")[0]
    parts = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`(\w+\.py|\w+/)`", " ".join(parts)))
    source = ROOT / "src" / "recapito"
    there = {path.name for path in source.glob("*.py")} | {
        f"{path.parent.name}/" for path in source.glob("*/__init__.py")
    }
    assert named == there - {"__init__.py"}


def test_every_setting_is_explained() -> None:
    """Each key of the defaults file has a comment above it."""
    lines = defaults_text().splitlines()
    tree = tomllib.loads(defaults_text())
    for keys in tree.values():
        for key in keys:
            at = next(n for n, line in enumerate(lines) if line.startswith(f"{key} ="))
            above = [line for line in lines[max(0, at - 2) : at] if line.startswith("#")]
            assert above, f"{key} has no comment"
