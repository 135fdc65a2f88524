"""The SQL of the store lives in .sql files: `schema/<kind>/NNNN_….sql` has migrations, `queries/` has statements.

Each migration is applied in one transaction with its number, so a crash leaves the file at the version before it.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeVar

import apsw

T = TypeVar("T")

HERE: Traversable = resources.files(__package__)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")


@cache
def load(file: str) -> dict[str, str]:
    """The statements of `queries/<file>.sql` by their names; each begins with a line `-- name: …`.

    `{name}` stands for the statement of that name, which comes before.
    """
    _, *parts = _NAME.split((HERE / "queries" / f"{file}.sql").read_text("utf-8"))
    found: dict[str, str] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        found[name] = _PART.sub(lambda part: found[part[1]], text.strip())
    return found


@cache
def migrations(kind: str) -> tuple[str, ...]:
    """The migrations of one kind of file, in their order; the first makes version 1."""
    files = sorted((HERE / "schema" / kind).iterdir(), key=lambda file: file.name)
    numbers = [int(file.name[:4]) for file in files]
    assert numbers == list(range(1, len(files) + 1)), f"the migrations of {kind} have the numbers {numbers}"
    return tuple(file.read_text("utf-8") for file in files)


def migrate(connection: apsw.Connection, application_id: int, steps: Sequence[str]) -> None:
    """Bring a file from its version to that of the last step."""
    for number in range(version(connection) + 1, len(steps) + 1):
        transact(connection, partial(_step, application_id=application_id, number=number, sql=steps[number - 1]))


def _step(connection: apsw.Connection, application_id: int, number: int, sql: str) -> None:
    connection.execute(sql)
    connection.pragma("application_id", application_id)
    connection.pragma("user_version", number)


def version(connection: apsw.Connection) -> int:
    """The version of a file's schema; 0 is an empty file."""
    return int(connection.pragma("user_version"))


def transact(connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
    """Run `work` and commit it; any error, also one of the commit, rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result
