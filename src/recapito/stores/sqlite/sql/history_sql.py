"""The verbs of history as functions of a connection to history.db: one row per chunk, found by searching its texts."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from recapito.contracts.history import AttemptPage, HistoryBounds, HistoryExtent, KeptAttempt, SeriesPage
from recapito.domain import limits
from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.domain.history.chunk import Chunk, Unpacked, count, pack, search_for
from recapito.domain.history.series import Series
from recapito.stores.sqlite.sql_files import load

SQL = load("history")
END = 1 << 62  # above every mark
REMOVED_AT_ONCE = 64


class ChunkTotals(NamedTuple):
    """The bytes of all chunks, and the newest mark."""

    size: int
    newest: int


def bounds(connection: apsw.Connection) -> ChunkTotals:
    found: Any = connection.execute(SQL["bounds"]).fetchone()
    return ChunkTotals(*found)


def extent(connection: apsw.Connection) -> HistoryExtent:
    found: Any = connection.execute(SQL["extent"]).fetchone()
    return HistoryExtent(*found)


def write(
    connection: apsw.Connection,
    attempts: Sequence[Attempt],
    omitted: int,
    before: ChunkTotals,
    keep: HistoryBounds,
    now: int,
) -> ChunkTotals:
    """Store attempts in chunks, and remove those that are too old or too many."""
    size, newest = before
    for part in _parts(attempts):
        chunk = pack(part)
        length = _size(chunk)
        head = newest + 1, chunk.attempts, chunk.first_at, chunk.last_at, length
        connection.execute(SQL["insert"], (*head, chunk.outcomes, chunk.labels, chunk.ids, chunk.packed))
        size, newest = size + length, newest + chunk.attempts
    if omitted:
        connection.execute(SQL["omit"], (omitted,))
    return ChunkTotals(size - _remove(connection, size - keep.size, now - keep.age_ns), newest)


def newest_first(connection: apsw.Connection, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
    """A page back in time."""
    newest = bounds(connection).newest
    edge = END if before is None else before
    found: list[KeptAttempt] = []
    for n, (first, attempts, ids, packed) in enumerate(_chunks(connection, "newest_first", selection, before=edge)):
        if n >= limits.HISTORY_CHUNKS:
            return AttemptPage(found, first + attempts, newest)
        places = range(min(attempts, edge - first) - 1, -1, -1)
        for place, attempt in Unpacked(ids, packed).select(selection, places):
            if len(found) == limit:
                return AttemptPage(found, found[-1].mark, newest)
            found.append(KeptAttempt(first + place, attempt))
    return AttemptPage(found, None, newest)


def oldest_first(connection: apsw.Connection, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
    """A page forward in time."""
    newest = bounds(connection).newest
    found: list[KeptAttempt] = []
    for n, (first, attempts, ids, packed) in enumerate(_chunks(connection, "oldest_first", selection, after=after)):
        if n >= limits.HISTORY_CHUNKS:
            return AttemptPage(found, first - 1, first - 1)
        places = range(max(after + 1 - first, 0), attempts)
        for place, attempt in Unpacked(ids, packed).select(selection, places):
            if len(found) == limit:
                return AttemptPage(found, found[-1].mark, found[-1].mark)
            found.append(KeptAttempt(first + place, attempt))
    return AttemptPage(found, None, newest)


def series(
    connection: apsw.Connection, selection: AttemptQuery, width: int, after: int, before: int | None
) -> SeriesPage:
    """A slice of the attempts between two marks, counted."""
    newest = bounds(connection).newest
    edge = END if before is None else before
    counted = Series(width)
    for n, (first, attempts, ids, packed) in enumerate(_chunks(connection, "newest_first", selection, before=edge)):
        if first + attempts - 1 <= after:
            break
        if n >= limits.SERIES_CHUNKS:
            return SeriesPage(counted, first + attempts, newest)
        indexes = range(max(after + 1 - first, 0), min(attempts, edge - first))
        if selection.event is None and selection.search is None:
            count(packed, selection, indexes, counted)
        else:
            for _, attempt in Unpacked(ids, packed).select(selection, indexes):
                counted.add(attempt)
    return SeriesPage(counted, None, newest)


def _chunks(
    connection: apsw.Connection, statement: str, selection: AttemptQuery, **edge: int
) -> Iterator[tuple[int, int, bytes, bytes]]:
    wanted = {"since": selection.since, "until": selection.until, **search_for(selection)._asdict(), **edge}
    rows: Any = connection.execute(SQL[statement], wanted)
    yield from rows


def _parts(attempts: Sequence[Attempt]) -> Iterator[Sequence[Attempt]]:
    """Runs of attempts with as many events as a chunk should have."""
    start = events = 0
    for n, attempt in enumerate(attempts):
        if n > start and events + len(attempt.ids) > limits.HISTORY_CHUNK_EVENTS:
            yield attempts[start:n]
            start, events = n, 0
        events += len(attempt.ids) or 1
    if attempts:
        yield attempts[start:]


def _size(chunk: Chunk) -> int:
    return len(chunk.ids) + len(chunk.packed) + len(chunk.labels) + len(chunk.outcomes)


def _remove(connection: apsw.Connection, surplus: int, oldest_at: int) -> int:
    """Remove the oldest chunks while there are too many bytes or they are too old; return the bytes removed."""
    removed = 0
    last: int | None = None
    oldest: list[Any] = connection.execute(SQL["oldest"], (REMOVED_AT_ONCE,)).fetchall()
    for first, size, last_at in oldest:
        if removed >= surplus and last_at >= oldest_at:
            break
        removed += size
        last = first
    if last is not None:
        connection.execute(SQL["remove"], (last,))
    return removed
