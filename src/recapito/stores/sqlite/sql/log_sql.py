"""The log's verbs as functions of a connection to log.db: one row per segment, one statement for many rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from recapito.contracts.damage import Damage
from recapito.contracts.log import Entry, EntryKind, News, NewSegment, SearchPage
from recapito.domain import limits
from recapito.stores.sqlite.files.pages import Pages, is_record_damaged
from recapito.stores.sqlite.sql.rows import DamagedRecord, checksum, is_sound
from recapito.stores.sqlite.sql_files import load

SQL = load("log")
ROWS_PER_INSERT = 1000  # seven variables each, of the 32,766 that a statement may have
EVERYTHING = 1 << 62  # above every position
TOPIC_ITSELF = 0  # stands for a subscription's id where a change is about the topic

UNREADABLE = (apsw.CorruptError, UnicodeDecodeError)  # a damaged page, and a damaged type of a column

Row = tuple[int, int, int, int, int, bytes, bytes]
_json = msgspec.json.Encoder().encode


def id(connection: apsw.Connection) -> str:
    return str(connection.execute(SQL["id"]).get)


def append(connection: apsw.Connection, segments: Sequence[NewSegment]) -> list[int]:
    ends = _living_ends(connection, {segment.topic for segment in segments})
    rows: list[Row] = []
    for topic, events, columns, body in segments:
        ends[topic] += 1
        rows.append(_row(topic, ends[topic], EntryKind.SEGMENT, events, columns, body))
    _insert(connection, rows)
    _grow(connection, mark(connection) + 1, ends)
    return [row[1] for row in rows]


def mark_change(connection: apsw.Connection, topic: int, changed: Iterable[int]) -> int:
    """Leave a change mark in a topic's log, about these subscriptions and perhaps the topic; return its position."""
    position, at = end(connection, topic) + 1, mark(connection) + 1
    _insert(connection, [_row(topic, position, EntryKind.CHANGE, 0, b"", b"")])
    _grow(connection, at, {topic: position})
    connection.execute(SQL["change"], (at, topic, _text(list(changed))))
    return position


def read(connection: apsw.Connection, topic: int, position: int, limit_bytes: int) -> list[Entry]:
    """Entries from a position on. A missing one ends the list; it is an error if it is the first."""
    last = connection.execute(SQL["end"], (topic,)).get
    if last is None or not 1 <= position <= last + 1:
        raise LookupError(f"topic {topic} has no position {position}; its last is {last}")
    if position == last + 1:
        return []
    found: list[Entry] = []
    until = last if position == last else _last_that_fits(connection, topic, position, limit_bytes)
    for row in connection.execute(SQL["entries"], (topic, position, until)):
        if row[0] != position + len(found):
            break
        found.append(_entry(topic, *row))
    if not found:
        raise LookupError(f"position {position} of topic {topic} was trimmed away")
    return found


def read_apart(connection: apsw.Connection, topic: int, position: int) -> list[Entry]:
    """The entry at a position alone, where SQLite cannot read it or one of its neighbours."""
    try:
        return read(connection, topic, position, 0)
    except UNREADABLE:
        return [Entry(position, EntryKind.DAMAGED, b"", b"", _events_at(connection, topic, position))]


def look_closely(connection: apsw.Connection, path: Path, topic: int, entries: Sequence[Entry]) -> list[Entry]:
    """The entries, each that seems damaged as its own record shows it, up to the first that is only out of reach."""
    found: list[Entry] = []
    for seen in entries:
        entry = _seen_closely(connection, path, topic, seen) if seen.kind is EntryKind.DAMAGED else seen
        if entry is None:
            break
        found.append(entry)
    return found


def _seen_closely(connection: apsw.Connection, path: Path, topic: int, seen: Entry) -> Entry | None:
    """An entry that seems damaged, sound or damaged as its record is; None if the way to the record is damaged."""
    try:
        rowid = connection.execute(SQL["rowid"], (topic, seen.position)).get
    except apsw.CorruptError:
        return None
    if rowid is None:
        return None
    try:
        row: Any = connection.execute(SQL["row"], (rowid,)).fetchone()
    except UnicodeDecodeError:
        return seen
    except apsw.CorruptError:
        row = None
    if row is None:
        pages = Pages(path)
        damaged = is_record_damaged(pages, int(connection.execute(SQL["root"]).get), rowid)
        return seen if damaged and pages.unchanged else None
    entry = _entry(*row)
    if row[:2] == (topic, seen.position):
        return entry
    return seen if entry.kind is EntryKind.DAMAGED else None  # another sound entry: the index is wrong


def _events_at(connection: apsw.Connection, topic: int, position: int) -> int:
    """The number of events of an entry; its column is before the blobs and may be readable when they are not."""
    try:
        return _plausible(connection.execute(SQL["events"], (topic, position)).get)
    except UNREADABLE:
        return 1


def _entry(topic: int, at: int, kind: Any, events: Any, stored: Any, columns: Any, body: Any) -> Entry:
    """An entry as it was stored, or a damaged one; a damaged row may hold values of any type."""
    whole = isinstance(kind, int) and isinstance(columns, bytes) and isinstance(body, bytes)
    if whole and is_sound(stored, (topic, at, kind, len(columns)), columns, body):
        return Entry(at, EntryKind(kind), columns, body, events)
    return Entry(at, EntryKind.DAMAGED, _bytes(columns), _bytes(body), _plausible(events))


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _plausible(events: object) -> int:
    """The number of events of a damaged entry, which the checksum does not cover: one, if it cannot be right."""
    return events if isinstance(events, int) and 0 <= events <= limits.SEGMENT_EVENTS else 1


def news(connection: apsw.Connection, since: int) -> News:
    """The commits after a mark; cheap if there are none."""
    now = mark(connection)
    if since > now:
        raise LookupError(f"mark {since} is not of this log, which is at {now}")
    if since == now:
        return News(now, {}, frozenset(), frozenset())
    ends: dict[int, int] = dict(connection.execute(SQL["grown_since"], (since,)))
    if since == 0:
        topics = frozenset(id for (id,) in connection.execute(SQL["all_topics"]))
        return News(now, ends, topics, frozenset(id for (id,) in connection.execute(SQL["all_subscriptions"])))
    changes: list[Any] = connection.execute(SQL["changed_since"], (since,)).fetchall()
    topics = frozenset(topic for topic, subscription in changes if subscription == TOPIC_ITSELF)
    return News(now, ends, topics, frozenset(id for _, id in changes if id != TOPIC_ITSELF))


def mark(connection: apsw.Connection) -> int:
    """The mark of the last commit: each has the next number."""
    return int(connection.execute(SQL["mark"]).get)


def end(connection: apsw.Connection, topic: int) -> int:
    return int(connection.execute(SQL["end"], (topic,)).get or 0)


def first(connection: apsw.Connection, topic: int) -> int:
    """The first position that a topic's log still has; of an empty log, the next one."""
    return int(connection.execute(SQL["first"], (topic,)).get or end(connection, topic) + 1)


def search(connection: apsw.Connection, topic: int, text: bytes, below: int, count: int) -> SearchPage:
    """Search for bytes in the columns of a slice of entries."""
    rows: list[Any] = connection.execute(SQL["search"], (text, topic, below, count)).fetchall()
    positions = [position for position, place in rows if place]
    return SearchPage(positions, rows[-1][0] if len(rows) == count else None)


def size(connection: apsw.Connection, topic: int, first: int, below: int) -> int:
    """The bytes of some entries, without reading them."""
    return int(connection.execute(SQL["size"], (topic, first, below)).get)


def events(connection: apsw.Connection, topic: int, first: int, below: int) -> int:
    """The number of events in some entries."""
    return int(connection.execute(SQL["events_between"], (topic, first, below, limits.COUNTED_ENTRIES)).get)


def trim(connection: apsw.Connection, topic: int, below: int) -> int:
    """Remove a slice of entries below a position; return their number."""
    return _cut(connection, topic, below) if end(connection, topic) else 0


def sweep(connection: apsw.Connection) -> bool:
    """Remove a slice of the entries of deleted topics; return whether there may be more."""
    topic = connection.execute(SQL["gone"]).get
    if topic is not None and _cut(connection, topic, EVERYTHING) == 0:
        connection.execute(SQL["swept"], (topic,))
    return topic is not None


def _cut(connection: apsw.Connection, topic: int, below: int) -> int:
    connection.execute(SQL["trim"], (topic, below, limits.TRIM_SLICE))
    return connection.changes()


def _living_ends(connection: apsw.Connection, topics: set[int]) -> dict[int, int]:
    ends: dict[int, int] = {}
    rows: list[Any] = connection.execute(SQL["living_ends"], (_text(list(topics)),)).fetchall()
    for topic, end, last in rows:
        if last not in (None, end):  # None: the whole log is trimmed
            what = f"the log ends at {end} by its topic, at {last} by its entries"
            raise DamagedRecord(Damage("topic", topic, content=what.encode()))
        ends[topic] = end
    for gone in topics - ends.keys():
        raise KeyError(gone)
    return ends


def _row(topic: int, position: int, kind: EntryKind, events: int, columns: bytes, body: bytes) -> Row:
    # The checksum covers the length of the columns too: otherwise bytes could move between them and the body unnoticed.
    return topic, position, kind, events, checksum((topic, position, kind, len(columns)), columns, body), columns, body


def _insert(connection: apsw.Connection, rows: list[Row]) -> None:
    """Insert many rows by one statement of many VALUES: segments are few and large, and JSON would copy them."""
    for start in range(0, len(rows), ROWS_PER_INSERT):
        part = rows[start : start + ROWS_PER_INSERT]
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(part))
        connection.execute(f"INSERT INTO entry VALUES {values}", [field for row in part for field in row])


def _grow(connection: apsw.Connection, at: int, ends: dict[int, int]) -> None:
    connection.execute(SQL["grow"], (at, _text(list(ends.items()))))


def _last_that_fits(connection: apsw.Connection, topic: int, position: int, limit_bytes: int) -> int:
    """The position up to which entries fit. Sizes are read without the bodies."""
    total, last = 0, position
    for at, size in connection.execute(SQL["sizes"], (topic, position)):
        total += size
        if total > limit_bytes:
            break
        last = at
    return max(last, position)


def _text(value: object) -> str:
    return _json(value).decode()
