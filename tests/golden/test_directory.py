"""A data directory of today can be opened and served tomorrow, and tomorrow's has the same rows."""

import asyncio
import difflib
from pathlib import Path

import pytest

from tests.golden import directory
from tests.golden.files import FILES
from tests.golden.golden import TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_shown_is_as_ever(name: str, tmp_path: Path) -> None:
    """The schema, the data directory, what is served of it, the journal, the flags and the API are as written down."""
    expect((FILES / name).read_text("utf-8"), asyncio.run(TEXTS[name](tmp_path)), name)


def test_the_same_rows_are_written(tmp_path: Path) -> None:
    """A server writes the same rows for the same values, byte for byte, as the one that wrote the kept directory."""
    kept, new = tmp_path / "kept", tmp_path / "new"
    new.mkdir()
    directory.unpack_fixture(kept)
    asyncio.run(directory.write(new, keys=kept))
    expect(directory.rows(kept), directory.rows(new), "rows")
    assert _files(new) == _files(kept)


def test_the_kept_directory_has_the_schema(tmp_path: Path) -> None:
    """The kept directory was written under the schema of new files: nothing is migrated."""
    expect((FILES / "schema.sql").read_text("utf-8"), directory.schema(directory.unpack_fixture(tmp_path)), "schema")


def _files(data: Path) -> dict[str, tuple[int, bytes]]:
    """Each file that is no database, with its mode and its content."""
    paths = [path for path in data.rglob("*") if path.is_file() and ".db" not in path.name]
    return {str(path.relative_to(data)): (path.stat().st_mode & 0o777, path.read_bytes()) for path in paths}


def expect(golden: str, found: str, name: str) -> None:
    """Fail with the lines that differ, which pytest would seek for minutes in a long text."""
    if golden != found:
        lines = difflib.unified_diff(golden.splitlines(), found.splitlines(), f"golden {name}", f"{name} now", n=1)
        pytest.fail("\n".join(lines) + "\nIf this is meant: python -m tests.golden --write", pytrace=False)
