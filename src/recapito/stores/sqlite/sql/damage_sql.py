"""Damaged rows: found when they are read, never delivered, and no obstacle to the others.

A read that meets damaged rows raises Damaged; they are then set aside, counted as dropped for CORRUPT, and skipped.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw

from recapito.contracts.damage import Damage
from recapito.domain.delivery.delivery import CORRUPT, DeliveryId
from recapito.stores.sqlite.files.connection import DISPATCH, open_reader
from recapito.stores.sqlite.sql.rows import text
from recapito.stores.sqlite.sql_files import load

SQL = load("damage")


class Misnamed(Exception):
    """The path of a dead letter or of a group is damaged: without the other it would wait forever."""

    def __init__(self) -> None:
        super().__init__("dead letters and their groups have different paths")


class Damaged(Exception):
    """These parked deliveries or dead letters of a lane do not have the checksum that they were stored with."""

    def __init__(self, lane: int, parked: list[DeliveryId], burials: list[DeliveryId]) -> None:
        found = [f"parked at {_place(key)}" for key in parked] + [f"dead letter of {_place(key)}" for key in burials]
        super().__init__(f"lane {lane} has damaged rows: {', '.join(found)}")
        self.lane = lane
        self.parked = parked
        self.burials = burials


def _place(key: DeliveryId) -> str:
    return f"{key.position}.{key.offset}"


def set_aside(connection: apsw.Connection, damage: Damaged) -> None:
    """Move damaged rows aside and count them."""
    lane, parked, burials = damage.lane, text(damage.parked), text(damage.burials)
    connection.execute(SQL["keep_parked"], (lane, parked))
    connection.execute(SQL["remove_parked"], (lane, parked))
    connection.execute(SQL["keep_burials"], (lane, burials))
    connection.execute(SQL["remove_burials"], (lane, burials))
    connection.execute(SQL["remove_empty_groups"], (lane,))
    connection.execute(SQL["count"], (lane, len(damage.parked), len(damage.burials)))
    connection.execute(SQL["drop"], (lane, CORRUPT, len(damage.parked) + len(damage.burials)))


def keep_entry(connection: apsw.Connection, damage: Damage) -> bool:
    """Keep a damaged entry of the log, if it is not kept already."""
    connection.execute(SQL["keep_entry"], damage[:-1])
    return bool(connection.changes())


def damaged(connection: apsw.Connection, after: int, limit: int) -> list[Damage]:
    return [Damage(*row) for row in connection.execute(SQL["damaged"], (after, limit))]


def counts(connection: apsw.Connection, after: int) -> dict[str, int]:
    return dict(Counter(table for (table,) in connection.execute(SQL["counts"], (after,))))


def read_all(directory: Path) -> Iterator[Damage]:
    """All rows that were set aside in a data directory, read one by one."""
    with closing(open_reader(directory / DISPATCH.file, DISPATCH)) as connection:
        after = 0
        while page := damaged(connection, after, 1):
            yield from page
            after = page[-1].number
