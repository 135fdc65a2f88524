"""The SQL of the embedded store: every statement compiles, and none reads a whole table to find a few rows."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import pytest

from recapito.stores.sqlite.files.connection import DISPATCH, HISTORY, LOG, open_writer
from recapito.stores.sqlite.sql_files import load

FILES = {"log": LOG, "registry": LOG, "ledger": DISPATCH, "burial": DISPATCH, "damage": DISPATCH, "history": HISTORY}
STATEMENTS = [(file, name) for file in FILES for name in load(file)]
READS_ALL = {
    ("log", "all_topics"),
    ("log", "all_subscriptions"),
    ("registry", "topics_without_checksum"),
    ("registry", "subscriptions_without_checksum"),
    ("registry", "documents_without_checksum"),
    ("ledger", "lane_states"),
    ("ledger", "lanes"),
    ("ledger", "lane_versions"),
    ("history", "bounds"),
    ("history", "extent"),
    ("history", "oldest"),
    ("history", "omit"),
}
SMALL = (
    "SCAN CONSTANT ROW",
    "SCAN sqlite_schema",
    "SCAN (subquery-",  # its own SEARCH has found the rows
    "SCAN log",
    "SCAN gone",
    "SCAN burial_group",
    "SCAN place",
    "SCAN lane USING INDEX lane_with_burials",
)


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, apsw.Connection]]:
    """All files, new."""
    directory: Path = tmp_path_factory.mktemp("queries")
    with ExitStack() as stack:
        yield {
            kind.name: stack.enter_context(closing(open_writer(directory / kind.file, kind)))
            for kind in (LOG, DISPATCH, HISTORY)
        }


@pytest.mark.parametrize(("file", "name"), STATEMENTS)
def test_no_statement_scans(connections: dict[str, apsw.Connection], file: str, name: str) -> None:
    """Rows are found by an index, but where all of them are asked for."""
    connection = connections[FILES[file].name]
    sql = load(file)[name]
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", _nothing(sql))]
    scans = [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]
    scans = [step for step in scans if not step.startswith(SMALL) and "USING COVERING INDEX" not in step]
    sorts = [step for step in plan if step.startswith("USE TEMP B-TREE")]
    assert not scans or (file, name) in READS_ALL, plan
    assert not sorts or name in {"named_group", "oldest_unnamed"}, plan


def _nothing(sql: str) -> dict[str, None] | tuple[None, ...]:
    """No value for each variable."""
    if named := re.findall(r":(\w+)", sql):
        return dict.fromkeys(named)
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return (None,) * (max(numbered) if numbered else sql.count("?"))
