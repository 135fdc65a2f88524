"""The habits that matter are tests: layers, small modules that introduce themselves, no patching, no sleeping."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST_MODULE = 600
MOST_MODULES = 350  # lines that nine modules in ten stay under
PLUGIN = {"Topic", "Subscription"}  # the pytest plugin shows tests the resources under their own names


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_layers() -> None:
    """Imports point down, and the domain is pure."""
    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_module_introduces_itself_and_is_short(path: Path) -> None:
    """Every module opens with a docstring and can be read in one sitting."""
    text = path.read_text("utf-8")
    assert ast.get_docstring(ast.parse(text)), "no docstring"
    assert len(text.splitlines()) <= LONGEST_MODULE


def test_most_modules_are_short() -> None:
    """A long chapter is an exception: nine modules in ten are short."""
    lengths = sorted(len(path.read_text("utf-8").splitlines()) for path in SOURCES)
    assert lengths[len(lengths) * 9 // 10] < MOST_MODULES


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_domain_has_no_await(path: Path) -> None:
    """The domain's rules are synchronous."""
    if path.is_relative_to(ROOT / "src" / "recapito" / "domain"):
        assert not any(
            isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(ast.parse(path.read_text()))
        )


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_tests_neither_patch_nor_sleep(path: Path) -> None:
    """Fakes stand at our contracts, and time is virtual."""
    forbidden = ["mock" + ".patch", "monkeypatch" + ".setattr", "time" + ".sleep("]
    text = path.read_text("utf-8")
    assert not [word for word in forbidden if word in text]


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_test_module_is_imported(path: Path) -> None:
    """A test module can be deleted without breaking another: shared things stand in `tests/kit` or beside it."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            imported += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    modules = [module for module in imported if module.startswith("tests.")]
    assert not [module for module in modules if re.search(r"\.test_\w+$", module) and _is_module(module)]


def _is_module(name: str) -> bool:
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_each_test_says_what_it_proves(path: Path) -> None:
    """Every test has a one-line docstring."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_a_class_name_means_one_thing() -> None:
    """No two modules of the source and of the kit define a class of the same name."""
    seen: dict[str, str] = {}
    for path in (*SOURCES, *sorted((ROOT / "tests" / "kit").rglob("*.py"))):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name not in PLUGIN:
                assert node.name not in seen, f"{name(path)} and {seen[node.name]} define {node.name}"
                seen[node.name] = name(path)


def test_nothing_is_left_undone() -> None:
    """No note to do it later is committed."""
    undone = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = [name(path) for path in (*SOURCES, *TESTS) if undone.search(path.read_text("utf-8"))]
    assert not found
