"""Plain English, as far as a test can check it: spelling, openings of docstrings, sentences a line, headings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "deploy/**/*.md", "examples/*/*.md", "tests/*/*.md")
    for path in ROOT.glob(pattern)
    if "reference" not in path.parts and "node_modules" not in path.parts
)
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts)
MISSPELT = re.compile(r"\b(can\s+not|for\s+ever)\b", re.IGNORECASE)
ACTORLESS = re.compile(r"\b(somebody|nobody|whoever|so\s+many)\b", re.IGNORECASE)
TWO_SENTENCES = re.compile(r"""[a-z)`\]"]\. [A-Z*`]""")
HEADINGS = ["Status", "Context", "Decision", "Consequences"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def help_texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages_spell_cannot_and_forever(path: Path) -> None:
    """A page has "cannot" and "forever", each as one word."""
    wrong = MISSPELT.findall(path.read_text("utf-8"))
    assert not wrong


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages_have_one_sentence_a_line(path: Path) -> None:
    """A line of prose ends with its sentence, so that a diff shows the sentence that changed; tables are exempt."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "    ", ">"))]
    wrong = [line for line in prose if TWO_SENTENCES.search(line)]
    assert not wrong


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name)
def test_modules_spell_cannot_and_forever(path: Path) -> None:
    """Docstrings of tests, and all texts and comments of the source, have "cannot" and "forever" as one word."""
    text = path.read_text("utf-8")
    if name(path).startswith("tests"):
        text = "\n".join(docstrings(ast.parse(text)))
    wrong = MISSPELT.findall(text)
    assert not wrong


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name)
def test_docstrings_and_help_name_things_and_actors(path: Path) -> None:
    """No docstring and no help text begins with a clause with "what", or has a person or a number without a name."""
    tree = ast.parse(path.read_text("utf-8"))
    texts = (*docstrings(tree), *help_texts(tree))
    assert not [text for text in texts if text.startswith("What ") or ACTORLESS.search(text)]


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")), ids=name)
def test_decision_records_have_four_headings(path: Path) -> None:
    """A decision record has a numbered title, then status, context, decision and consequences, in this order."""
    text = path.read_text("utf-8")
    assert text.startswith(f"# {int(path.name[:4])}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
