"""One transaction: the work and its commit, or nothing."""

from collections.abc import Callable
from typing import TypeVar

import apsw

T = TypeVar("T")


def transact(connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
    """Run `work` and commit it; whatever is raised, also by the commit, rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result
