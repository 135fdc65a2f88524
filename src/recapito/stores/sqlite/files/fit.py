"""Whether log.db and dispatch.db belong together: every lane must be at a position that its topic's log has.

A log that ends before a lane's cursor is an old one, or lost its last commits. It would use positions again that the
lane has passed, and the lane would skip the new events there.
"""

from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

from recapito.domain.delivery.cursor import Cursor
from recapito.errors import SettingsError
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, open_reader
from recapito.stores.sqlite.sql import ledger_sql, log_sql

_cursor = msgspec.json.Decoder(Cursor).decode


def find_misfit(data: Path) -> str:
    """The reason why the files of a data directory do not belong together; empty if they do, or cannot be read."""
    try:
        with (
            closing(open_reader(data / LOG.file, LOG)) as log,
            closing(open_reader(data / DISPATCH.file, DISPATCH)) as dispatch,
        ):
            return misfit(log, dispatch)
    except (SettingsError, apsw.Error, UnicodeDecodeError):
        return ""


def misfit(log: apsw.Connection, dispatch: apsw.Connection) -> str:
    """The same, of open files. A lane whose topic is gone needs no log, and one with a damaged row begins again."""
    log_id = log_sql.id(log).encode()
    first, end = cache(partial(log_sql.first, log)), cache(partial(log_sql.end, log))
    rows: list[Any] = dispatch.execute(
        "SELECT id, topic, CAST(log_id AS BLOB), CAST(cursor AS BLOB) FROM lane WHERE NOT ended ORDER BY id"
    ).fetchall()
    for id, topic, read_from, text in rows:
        if not end(topic):
            continue
        found = ""
        cursor = _read(text)
        if read_from != log_id:
            found = f"lane {id} reads another log"
        elif cursor and not first(topic) <= cursor.low[0] <= _highest(cursor) <= end(topic) + 1:
            place = f"lane {id} is at position {cursor.low[0]} to {_highest(cursor)}"
            found = f"{place} of topic {topic}, whose log has {first(topic)} to {end(topic)}"
        if found and not _is_damaged(dispatch, id):
            return found
    return ""


def _read(text: bytes) -> Cursor | None:
    try:
        return _cursor(text)
    except ValueError:
        return None


def _highest(cursor: Cursor) -> int:
    """The first position of which a lane has finished nothing, nor of any after it."""
    position, offset = max((cursor.low, *(end for _, end in cursor.finished)))
    return position + (offset > 0)


def _is_damaged(dispatch: apsw.Connection, id: int) -> bool:
    try:
        lane = ledger_sql.lane(dispatch, id)
    except apsw.SQLError:  # the file has an older schema, whose lanes have no checksums
        return False
    return lane is None or lane.damaged
