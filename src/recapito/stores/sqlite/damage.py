"""Rows that bit rot has reached: found when they are read, never delivered, never in the way of the others.

The read that meets some raises Damaged; they are then moved aside, counted as dropped for CORRUPT, and read around.
"""

import apsw

from recapito.domain.delivery import Identity
from recapito.stores.sqlite.query import load
from recapito.stores.sqlite.row import text

SQL = load("damage")
CORRUPT = "CorruptRecord"


class Damaged(Exception):
    """These parked deliveries or dead letters of a lane do not have the checksum that they were stored with."""

    def __init__(self, lane: int, parked: list[Identity], burials: list[Identity]) -> None:
        super().__init__(f"lane {lane} has damaged rows: parked {parked}, dead letters {burials}")
        self.lane = lane
        self.parked = parked
        self.burials = burials


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
