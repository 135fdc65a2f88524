"""The verbs of dead letters that wait, as functions of a connection to dispatch.db."""

from collections.abc import Iterable, Mapping
from typing import Any

import apsw

from recapito.contracts.ledger import Burial, DeadLetterGroup, Notice, SkippedDeadLetters, WaitingDeadLetter
from recapito.domain.delivery.delivery import DeliveryId
from recapito.stores.sqlite.sql import rows as row
from recapito.stores.sqlite.sql.damage_sql import SQL as DAMAGE
from recapito.stores.sqlite.sql.damage_sql import Damaged, Misnamed
from recapito.stores.sqlite.sql_files import load

SQL = load("burial")
EVERY = -1  # as a limit of SQL


def next_burial_at(connection: apsw.Connection) -> int | None:
    at: int | None = connection.execute(SQL["next_at"]).get
    return at


def burials_due(
    connection: apsw.Connection, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
) -> DeadLetterGroup | None:
    over = row.text(list(passed.containers)), row.text(list(passed.places))
    named = connection.execute(SQL["named_group"], over).fetchone()
    if named is not None:
        lane, container, path, first_tried_at = named
        burials = _read(lane, connection.execute(SQL["of_group"], (lane, path)))
        if not burials:
            raise Misnamed
        return DeadLetterGroup(lane, container, path, first_tried_at, burials)
    oldest = connection.execute(SQL["oldest_unnamed"], (*over, now)).fetchone()
    if oldest is None:
        if connection.execute(SQL["misnamed"]).get:
            raise Misnamed
        return None
    lane, container, _ = oldest
    burials = _read(lane, connection.execute(SQL["unnamed"], (lane, container, now, limit)), limit_bytes)
    return DeadLetterGroup(lane, container, None, None, burials)


def mend_names(connection: apsw.Connection) -> None:
    """Remove the path of dead letters without a group, so that they get another, and groups without dead letters."""
    connection.execute(SQL["unname"])
    connection.execute(SQL["remove_empty_groups"])


def find(connection: apsw.Connection, lane: int, identity: DeliveryId) -> WaitingDeadLetter | None:
    stored: Any = connection.execute(SQL["find"], (lane, *identity)).fetchone()
    if stored is None:
        return None
    *rest, path = stored
    return WaitingDeadLetter(_read(lane, [tuple(rest)])[0], path)


def name_group(connection: apsw.Connection, group: DeadLetterGroup, path: str, tried_at: int) -> None:
    """Give a group its path, without those of its dead letters that were delivered meanwhile."""
    keys = [(group.lane, *burial.identity) for burial in group.burials]
    connection.execute(SQL["name"], (row.text(keys), path))
    if connection.changes():
        connection.execute(SQL["insert_group"], (group.lane, path, group.container, tried_at))


def written(
    connection: apsw.Connection, lane: int, path: str, notice: bytes | None, taken: int, reasons: Mapping[str, int]
) -> None:
    """Remove a group, count it as dead-lettered, and keep its notice."""
    count = _remove_group(connection, lane, path)
    if count:
        connection.execute(SQL["count_written"], (lane, count))
    if reasons and sum(reasons.values()) <= count:
        connection.execute(SQL["count_reasons"], (lane, row.text(dict(reasons))))
    if count and notice is not None:
        number = max(taken, connection.execute(SQL["last_notice"]).get or 0) + 1
        connection.execute(SQL["keep_notice"], (number, notice, row.notice_checksum(number, notice)))
        keep_damaged_notices(connection)
        connection.execute(SQL["forget_notices"], (taken,))


def notices(connection: apsw.Connection, after: int, limit: int) -> list[Notice]:
    """Notices after a number."""
    return [row.read_notice(stored) for stored in connection.execute(SQL["notices"], (after, limit))]


def keep_damaged_notices(connection: apsw.Connection) -> None:
    """Keep copies of damaged notices, each once. They stay until intake has passed them: their numbers are taken."""
    for number, content, damaged in notices(connection, 0, EVERY):
        if damaged:
            connection.execute(DAMAGE["keep_notice"], (number, content))


def abandon(connection: apsw.Connection, lane: int, path: str, reason: str) -> None:
    """Remove a group, and count it as dropped."""
    count = _remove_group(connection, lane, path)
    if count:
        connection.execute(SQL["count_abandoned"], (lane, count))
        connection.execute(DAMAGE["drop"], (lane, reason, count))


def _remove_group(connection: apsw.Connection, lane: int, path: str) -> int:
    connection.execute(SQL["remove_burials"], (lane, path))
    count = connection.changes()
    connection.execute(SQL["remove_group"], (lane, path))
    return count


def _read(lane: int, rows: Iterable[tuple[Any, ...]], limit_bytes: int | None = None) -> list[Burial]:
    """The dead letters of these rows: at least one, then while they fit."""
    found: list[Burial] = []
    damaged: list[DeliveryId] = []
    size = 0
    for stored in rows:
        burial = row.read_burial(lane, stored)
        if burial is None:
            damaged.append(DeliveryId(stored[0], stored[1]))
            continue
        size += len(burial.record)
        if found and limit_bytes is not None and size > limit_bytes:
            break
        found.append(burial)
    if damaged:
        raise Damaged(lane, [], damaged)
    return found
