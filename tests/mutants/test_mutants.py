"""The tool that plants bugs is tested itself: what it plants, that tests notice, and that the tree stays as it is."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import PLACES, WITHOUT
from tests.mutants.explained import Explanations
from tests.mutants.hunt import Fate, Mutant, draw, hunt
from tests.mutants.mutations import Mutation, mutations
from tests.mutants.reach import Part, Reach, sources
from tests.mutants.sandbox import ROOT, Sandbox

CURSOR = "src/recapito/domain/delivery/cursor.py"


def changes(text: str) -> set[tuple[str, str]]:
    """The mutations of a module."""
    return {(mutation.before, mutation.after) for mutation in mutations(text)}


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("def f():\n    return a < b\n", "a < b", "(a <= b)"),
        ("def f():\n    return a < b <= c\n", "a < b <= c", "(a < b < c)"),
        ("x = a and b\n", "a and b", "(a or b)"),
        ("x = a and b\n", "a and b", "(b)"),
        ("x = not a\n", "not a", "(a)"),
        ("x = a + b\n", "a + b", "(a - b)"),
        ("x = min(a, b)\n", "min(a, b)", "(max(a, b))"),
        ("x = True\n", "True", "False"),
        ("def f():\n    return g(3)\n", "3", "4"),
        ("def f() -> bool:\n    return g()\n", "g()", "(not g())"),
        ("def f() -> int | None:\n    return g()\n", "g()", "None"),
        ("if a:\n    f()\n", "a", "(not a)"),
        ("if a:\n    f()\n", "f()", "pass"),
        ("async def f():\n    await g()\n", "await g()", "pass"),
        ("x = [y for y in z if y]\n", "y", "True"),
        ("a.b = c\n", "a.b = c", "pass"),
        ("a += 1\n", "a += 1", "a -= 1"),
        ("raise A\n", "raise A", "pass"),
        ("del a[b]\n", "del a[b]", "pass"),
        ("for a in b:\n    break\n", "break", "continue"),
    ],
)
def test_a_mutation_is_found(text: str, before: str, after: str) -> None:
    """Each kind of mistake is made where it can be made."""
    assert (before, after) in changes(text)


@pytest.mark.parametrize(
    "text",
    [
        '"""A text with 1 < 2."""\n',
        "x: int | None\n",
        "def f(a: int | None) -> int | None: ...\n",
        "def __repr__(self):\n    return f() + 1\n",
        "assert a < b\n",
        'x = f"{a + 1}"\n',
        "LIMIT = 17\n",
        "import a\n",
        "a = b\n",
    ],
)
def test_what_is_not_mutated(text: str) -> None:
    """Texts, types, production assertions and a module's own figures stay."""
    assert not changes(text)


def test_each_mutation_is_another_module_that_compiles() -> None:
    """Every mutation of real modules changes the text in one place, letters beyond ASCII included."""
    for path in (CURSOR, "src/recapito/domain/delivery/hold.py", "src/recapito/dispatch/lane/due_queue.py"):
        text = (ROOT / path).read_text("utf-8")
        found = mutations(text)
        assert len(found) > 10
        for mutation in found:
            mutated = mutation.apply(text)
            assert mutated != text
            compile(mutated, path, "exec")
    assert mutations("x = 'é' if a else b; f()\n")[-1].apply("x = 'é' if a else b; f()\n").endswith("; pass\n")


def test_a_mutation_knows_the_lines_that_reach_it() -> None:
    """A statement's own lines without its body: of a condition, those of its head."""
    text = "def f():\n    if (a and\n            b):\n        g(\n            1)\n"
    by_kind = {mutation.kind: mutation.lines for mutation in mutations(text)}
    assert by_kind["and/or"] == range(2, 4)
    assert by_kind["constant"] == range(4, 6)


def test_a_sample_is_the_same_for_a_seed() -> None:
    """Nothing but the seed and the modules decides; the core is large enough for a sample of 500."""
    paths = sources(PLACES, WITHOUT)
    assert CURSOR in paths and not set(WITHOUT) & set(paths)
    first, known = draw(paths, 20, 7)
    assert (first, known) == draw(paths, 20, 7) and known > 5000
    assert first != draw(paths, 20, 8)[0]


def test_tests_are_chosen_by_what_they_reach(tmp_path: Path) -> None:
    """The quick ones first, within a time; for code that runs at import, each test that reaches the module."""
    took = {"slow": 5.0, "quick": 0.1, "other": 1.0}
    reach = Reach([Part({"m.py": {"2": "0x3", "9": "0x4"}}, took)])
    assert reach.tests("m.py", Mutation("", 0, 0, "", "", range(2, 3)), 100) == ["quick", "slow"]
    assert reach.tests("m.py", Mutation("", 0, 0, "", "", range(2, 3)), 1) == ["quick"]
    assert reach.tests("m.py", Mutation("", 0, 0, "", "", range(1, 2)), 100) == ["quick", "other", "slow"]
    assert reach.tests("n.py", Mutation("", 0, 0, "", "", range(1, 2)), 100) == []


def test_a_hunt_tells_killed_from_survived_and_changes_nothing(tmp_path: Path) -> None:
    """A real bug in a copy is noticed by a real test; a harmless one, and one that no test reaches, are listed."""
    before = subprocess.check_output(["git", "status", "--porcelain", "src"], cwd=ROOT)
    text = (ROOT / CURSOR).read_text("utf-8")
    start = text.index("return")
    bug = Mutation("test", start, start + len("return"), "return", "raise KeyError;return", range(1, 2))
    harmless = Mutation("test", start, start + len("return"), "return", "1 + 1;return", range(1, 2))
    explained = Mutation("test", start, start + len("return"), "return", "2 + 2;return", range(1, 2))
    mutants = [Mutant(CURSOR, mutation) for mutation in (bug, harmless, explained)]
    mutants.append(Mutant("src/recapito/domain/access/sas.py", bug))
    tests = ["tests/domain/test_limits.py::" + name for name in _names("tests/domain/test_limits.py")]
    tests += [
        "tests/domain/delivery/test_cursor.py::" + name for name in _names("tests/domain/delivery/test_cursor.py")
    ]
    reach = Reach([Part({CURSOR: {"1": hex((1 << len(tests)) - 1)}}, dict.fromkeys(tests, 0.001))])
    reasons = tmp_path / "explained.toml"
    reasons.write_text(
        f'[[mutant]]\npath = "{CURSOR}"\nwithin = ""\nbefore = "return"\nafter = "2 + 2;return"\n'
        'why = "it has no effect"\n'
    )
    told: list[Mutant] = []
    sandbox = Sandbox(tmp_path / "tree")
    hunt(mutants, [sandbox], reach, Explanations(reasons), told.append)
    fates = [mutant.fate for mutant in mutants]
    assert fates == [Fate.KILLED, Fate.SURVIVED, Fate.EXPLAINED, Fate.UNREACHED]
    endless = Mutant(CURSOR, Mutation("test", 0, 0, "", "while True: pass\n", range(1, 2)))
    hunt([endless], [sandbox], reach, Explanations(reasons), told.append, starting_s=1)
    assert endless.fate is Fate.TIMED_OUT
    assert told[:-1] == mutants and mutants[2].why == "it has no effect"
    assert (tmp_path / "tree" / CURSOR).read_text("utf-8") == text
    assert subprocess.check_output(["git", "status", "--porcelain", "src"], cwd=ROOT) == before


def _names(path: str) -> list[str]:
    lines = (ROOT / path).read_text("utf-8").splitlines()
    return [line.split("(")[0].removeprefix("def ") for line in lines if line.startswith("def test_")]


def test_each_explanation_is_about_a_mutant_that_exists() -> None:
    """An explanation whose mutant is gone is removed, so that none is believed for something else."""
    known = {
        (path, mutation.within, mutation.before, mutation.after)
        for path in {change[0] for change in Explanations().changes}
        for mutation in mutations((ROOT / path).read_text("utf-8"))
    }
    assert set(Explanations().changes) <= known
