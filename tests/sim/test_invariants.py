"""The README's table of invariants is what the checkers report, no more and no less."""

import ast
import re
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
REPORTING = ("fail", "_fail", "Violation")
ROW = re.compile(r"\| (\w+) \| .+ \| (`.+`) \| (.+) \|")


def reported() -> dict[str, set[str]]:
    """The ids that the code reports, each with the functions that do."""
    ids: dict[str, set[str]] = defaultdict(set)
    for path in set(HERE.glob("*.py")) - set(HERE.glob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for id in _reported_in(function):
                    ids[id].add(f"{path.stem}.{function.name}")
    return ids


def _reported_in(function: ast.AST) -> list[str]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args]
    named = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) in REPORTING]
    return [id.value for call in named if isinstance(id := call.args[0], ast.Constant)]


def table() -> dict[str, tuple[set[str], str]]:
    """The rows of the README: the functions that check an id, and a planted bug that it finds."""
    rows = ROW.findall((HERE / "README.md").read_text("utf-8").partition("## The invariants")[2])
    return {id: (set(re.findall(r"`([\w.]+)`", functions)), bug) for id, functions, bug in rows}


def planted() -> dict[str, set[str]]:
    """All planted bugs, each with the invariants that may find it, as the tables of the tests here have them."""
    bugs: dict[str, set[str]] = {}
    for path in HERE.glob("test_*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id in ("BUGS", "PLANTED"):
                bugs |= {
                    key.value: _strings(value.elts[-1])
                    for key, value in zip(node.value.keys, node.value.values, strict=True)
                }
    return bugs


def _strings(node: ast.AST) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def test_every_invariant_is_in_the_table() -> None:
    """Each id that a checker can report has a row, and each row an id that is reported."""
    assert set(table()) == set(reported())


def test_the_table_names_the_checkers() -> None:
    """A row names exactly the functions that report its id."""
    assert {id: functions for id, (functions, _) in table().items()} == reported()


def test_the_table_names_planted_bugs() -> None:
    """A row names a planted bug that its id may find; a dash says that no planted bug is found by it."""
    bugs = planted()
    findable = set().union(*bugs.values())
    for id, (_, bug) in table().items():
        if bug == "—":
            assert id not in findable
        else:
            assert id in bugs[bug]
