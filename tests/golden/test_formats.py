"""Stored and sent bytes stay as they are: each value of the table becomes its golden bytes, and is read from them."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

from tests.golden import imports as it
from tests.golden import outside
from tests.golden.files import FILES, read
from tests.golden.values import OLD, SUBJECTS, kinds_in

CASES = [(subject, name) for subject, cases in SUBJECTS.items() for name in cases]
NEVER_STORED = {
    it.DestinationBase: "the parent of the destinations; no value is of it",
    it.CountedChunkColumns: "a part of a chunk's columns, as a count reads it",
}


@pytest.fixture(scope="session")
def golden() -> dict[str, dict[str, bytes]]:
    """The golden bytes, by subject and name."""
    return {subject: read((FILES / f"{subject}.toml").read_text("utf-8")) for subject in SUBJECTS}


@pytest.mark.parametrize(("subject", "name"), CASES)
def test_a_value_is_written_as_ever(subject: str, name: str, golden: dict[str, dict[str, bytes]]) -> None:
    """A value becomes the same bytes as before, so an older version can read them."""
    case = SUBJECTS[subject][name]
    assert case.encode(case.value) == golden[subject][name]


@pytest.mark.parametrize(("subject", "name"), [key for key in CASES if SUBJECTS[key[0]][key[1]].decode])
def test_bytes_are_read_as_ever(subject: str, name: str, golden: dict[str, dict[str, bytes]]) -> None:
    """Bytes that an older version wrote are read as the value that it wrote."""
    case = SUBJECTS[subject][name]
    assert case.decode is not None
    assert case.decode(golden[subject][name]) == case.value


@pytest.mark.parametrize("name", OLD)
def test_bytes_without_later_fields_are_read(name: str) -> None:
    """Bytes from before a field was there are read with its default of then."""
    stored, decode, value = OLD[name]
    assert decode(stored) == value


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_golden_bytes_are_left_over(subject: str, golden: dict[str, dict[str, bytes]]) -> None:
    """The file of a subject has the names of the table, and no others."""
    assert list(golden[subject]) == list(SUBJECTS[subject])


def test_every_struct_that_is_stored_by_place_or_tag_is_pinned() -> None:
    """A struct whose fields have no names in its bytes, or that is told by a tag, cannot be left out of the table."""
    pinned = {kind for cases in SUBJECTS.values() for case in cases.values() for kind in kinds_in(case.value)}
    assert set(_by_place_or_tag()) - pinned == set(NEVER_STORED)


def _by_place_or_tag() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.walk_packages(it.package.__path__, f"{it.package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting: list[type[msgspec.Struct]] = [msgspec.Struct]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        for kind in kinds:
            config = kind.__struct_config__
            if kind.__module__.startswith(it.package.__name__) and (config.array_like or config.tag is not None):
                yield kind


def test_one_file_names_the_source() -> None:
    """Of the golden tests only `imports.py` imports recapito, so that a rename touches it alone."""
    texts = {path.name: path.read_text("utf-8") for path in FILES.parent.glob("*.py")}
    named = [name for name, text in texts.items() if f"from {it.package.__name__}" in text]
    assert named == ["imports.py"]


def test_no_field_of_the_journal_replaces_the_time_of_its_line() -> None:
    """Every line has `at` and `event` from the journal itself; a field of that name would take their place."""
    named = [line.split() for line in outside.journal().splitlines()]
    assert [line[0] for line in named if {"at", "event"} & set(line[1:])] == []
