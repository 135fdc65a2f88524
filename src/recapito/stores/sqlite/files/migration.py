"""The schema, by numbered migrations: `schema/<kind>/NNNN_….sql`, each applied in one transaction with its number.

A crash inside a migration leaves the file at the version before it.
"""

from collections.abc import Sequence
from functools import cache, partial
from importlib import resources

import apsw

from recapito.stores.sqlite.files.transaction import transact


@cache
def migrations(kind: str) -> tuple[str, ...]:
    """The migrations of one kind of file, in their order; the first makes version 1."""
    files = sorted((resources.files(__package__) / "schema" / kind).iterdir(), key=lambda file: file.name)
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
