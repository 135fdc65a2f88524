"""History on SQLite: it may be lost, but it never gets in the way, and what was stored is found again and fast."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.clock import ManualClock
from recapito.contracts.history import HistoryBounds, KeptAttempt
from recapito.domain import limits
from recapito.domain.history.attempt import AttemptQuery
from recapito.domain.instant import HOUR, SECOND
from recapito.errors import StoreFailed
from recapito.stores.sqlite import SqliteHistory, SqliteHistoryReader
from recapito.stores.sqlite.files.connection import HISTORY
from recapito.stores.sqlite.history import FLUSH_EVERY_NS
from tests.intake.doubles import StillClock
from tests.stores.attempts import KEEP, NOON, attempt

ALL = AttemptQuery()


class Told:
    """A journal that remembers the names of what happened."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, event: str, **fields: object) -> None:
        self.events.append(event)


def writer(directory: Path, told: Told | None = None, wall: int = NOON, keep: HistoryBounds = KEEP) -> SqliteHistory:
    """A history that stores when it is told."""
    journal: Any = told or Told()
    return SqliteHistory(directory, keep, lambda: NOON, StillClock(wall), threaded=False, journal=journal)


async def ids(history: SqliteHistoryReader) -> list[str]:
    return [kept.attempt.ids[0] for kept in (await history.oldest_first(ALL, 0, 1000)).value]


def test_it_outlives_a_restart(tmp_path: Path) -> None:
    """Stored attempts are there again, attempts only recorded are lost, and marks go on."""

    async def main() -> None:
        first = writer(tmp_path)
        first.record(attempt("stored"))
        await first.flush()
        marks = [kept.mark for kept in (await first.oldest_first(ALL, 0, 10)).value]
        first.record(attempt("lost"))
        second = writer(tmp_path, wall=0)  # as after a crash: the first was not closed
        second.record(attempt("new"))
        assert await ids(second) == ["stored", "new"]
        assert (await second.oldest_first(ALL, marks[-1], 10)).value[0].mark > marks[-1]
        await second.close()

    asyncio.run(main())


def test_closing_stores_what_was_recorded(tmp_path: Path) -> None:
    """A clean stop loses nothing."""

    async def main() -> None:
        first = writer(tmp_path)
        first.record(attempt("last"))
        await first.close()
        second = writer(tmp_path)
        assert await ids(second) == ["last"]
        await second.close()

    asyncio.run(main())


def test_its_wal_is_copied_into_the_file(tmp_path: Path) -> None:
    """Otherwise the WAL would grow for as long as the server runs."""

    async def main() -> None:
        history = writer(tmp_path)
        await history.flush()
        database = history._database
        assert database is not None
        database._medium = database._medium._replace(checkpoint_bytes=1)
        history.record(attempt("one"))
        await history.flush()
        assert database.uncopied > 0
        await history.flush()  # the worker copies after each call, at the latest before the next
        assert database.uncopied == 0
        await history.close()

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"not a database at all" * 1000, b"\0" * 8192])
def test_a_file_that_is_none_is_set_aside(tmp_path: Path, content: bytes) -> None:
    """It keeps its bytes under another name, a new one is begun, and this is told."""
    (tmp_path / HISTORY.file).write_bytes(content)
    told = Told()

    async def main() -> None:
        history = writer(tmp_path, told)
        history.record(attempt("new"))
        assert await ids(history) == ["new"]
        await history.close()

    asyncio.run(main())
    assert (tmp_path / "history.db.damaged").read_bytes() == content
    assert "history.set_aside" in told.events


def test_a_newer_file_is_set_aside(tmp_path: Path) -> None:
    """A file of a later version is not understood and not destroyed."""

    async def main() -> None:
        first = writer(tmp_path)
        await first.flush()
        await first.close()
        with closing(apsw.Connection(str(tmp_path / HISTORY.file))) as connection:
            connection.pragma("user_version", 99)
        second = writer(tmp_path)
        second.record(attempt("new"))
        assert await ids(second) == ["new"]
        await second.close()

    asyncio.run(main())
    assert (tmp_path / "history.db.damaged").exists()


def test_damage_while_it_runs(tmp_path: Path) -> None:
    """The attempts at hand are counted as not kept, the file is begun anew, readers follow, and marks only grow."""
    told = Told()

    async def main() -> None:
        wall = StillClock(NOON)
        history = SqliteHistory(tmp_path, KEEP, wall.now, wall, threaded=False, journal=told)
        reader = SqliteHistoryReader(tmp_path, threaded=False)
        history.record(attempt("before"))
        await history.flush()
        (before,) = (await reader.oldest_first(ALL, 0, 10)).value
        with closing(apsw.Connection(str(tmp_path / HISTORY.file))) as connection:
            connection.execute("DROP TABLE chunk")  # what a wild write may leave
        wall.instant += SECOND
        history.record(attempt("lost"))
        await history.flush()
        history.record(attempt("after"))
        await history.flush()
        (after,) = (await reader.oldest_first(ALL, 0, 10)).value
        assert after.attempt.ids == ["after"] and after.mark > before.mark
        assert (await reader.extent()).not_kept == 1
        await reader.close()
        await history.close()

    asyncio.run(main())
    assert {"history.failed", "history.set_aside"} <= set(told.events)


def test_a_reader_without_a_file(tmp_path: Path) -> None:
    """It says that it cannot read, and reads as soon as there is something."""

    async def main() -> None:
        reader = SqliteHistoryReader(tmp_path, threaded=False)
        with pytest.raises(StoreFailed):
            await reader.extent()
        history = writer(tmp_path)
        history.record(attempt("a"))
        await history.flush()
        assert await ids(reader) == ["a"]
        history.record(attempt("b"))
        assert await ids(reader) == ["a"]
        await history.flush()
        assert await ids(reader) == ["a", "b"]
        await reader.close()
        await history.close()

    asyncio.run(main())


def test_a_directory_that_can_not_be_written(tmp_path: Path) -> None:
    """Nothing is raised; what could not be stored is counted."""
    told = Told()

    async def main() -> None:
        history = writer(tmp_path / "missing", told)
        history.record(attempt("a"))
        await history.flush()
        with pytest.raises(StoreFailed):
            await history.extent()
        (tmp_path / "missing").mkdir()
        history.record(attempt("b"))
        assert await ids(history) == ["b"]
        assert (await history.extent()).not_kept == 1
        await history.close()

    asyncio.run(main())
    assert "history.failed" in told.events


def test_the_last_of_a_disk_is_not_for_history(tmp_path: Path) -> None:
    """While the disk is nearly full attempts are counted and not stored."""

    async def main() -> None:
        room = [True]
        history = SqliteHistory(
            tmp_path, KEEP, lambda: NOON, StillClock(NOON), threaded=False, has_room=lambda: room[0]
        )
        for id, there in (("a", True), ("b", False), ("c", True)):
            room[0] = there
            history.record(attempt(id))
            await history.flush()
        assert await ids(history) == ["a", "c"]
        assert (await history.extent()).not_kept == 1
        await history.close()

    asyncio.run(main())


def test_it_is_bounded_in_bytes(tmp_path: Path) -> None:
    """However much is recorded, the file stays within what is kept and a little, and the newest is there."""

    async def main() -> None:
        history = writer(tmp_path, keep=HistoryBounds(HOUR, 1 << 20))
        for n in range(100):
            for m in range(200):
                history.record(attempt(*(f"{n:04}-{m:04}-{k:04}" + "x" * 40 for k in range(10))))
            await history.flush()
        extent = await history.extent()
        assert 0 < extent.attempts < 20_000 and extent.not_kept == 0
        assert (await history.newest_first(ALL, None, 1)).value[0].attempt.ids[0].startswith("0099-0199")
        await history.close()
        assert (tmp_path / HISTORY.file).stat().st_size < 4 << 20

    asyncio.run(main())


def test_it_stores_by_itself(tmp_path: Path) -> None:
    """Twice a second what was recorded is stored, by the housekeeping clock."""

    async def main() -> None:
        wall = ManualClock(NOON)
        history = SqliteHistory(tmp_path, KEEP, wall.now, wall, threaded=False)
        await history.flush()
        reader = SqliteHistoryReader(tmp_path, threaded=False)
        storing = asyncio.create_task(history.run())
        for n in range(3):
            history.record(attempt(str(n)))
            await asyncio.sleep(0)
            wall.move_to(wall.now() + FLUSH_EVERY_NS)
            for _ in range(5):
                await asyncio.sleep(0)
            assert len(await ids(reader)) == n + 1
        storing.cancel()
        await reader.close()
        await history.close()

    asyncio.run(main())


def test_no_attempt_is_kept_when_exactly_as_many_wait_as_may(tmp_path: Path) -> None:
    """An attempt counts one more than its events; the one that finds no room left is counted, and not kept."""

    async def main() -> tuple[int, int]:
        history = writer(tmp_path)
        history.record(attempt(*map(str, range(limits.HISTORY_WAITING_EVENTS - 1))))
        history.record(attempt("too many"))
        extent = await history.extent()
        await history.close()
        return extent.attempts, extent.not_kept

    assert asyncio.run(main()) == (1, 1)


def test_an_event_is_found_among_many(tmp_path: Path) -> None:
    """One of 100,000 attempts is found by its id without unpacking the others."""

    async def main() -> KeptAttempt:
        history = writer(tmp_path)
        for n in range(100_000):
            history.record(attempt(f"event-{n:06}", at=n // 1000, position=n))
            if n % 20_000 == 0:
                await history.flush()
        (found,) = (await history.newest_first(AttemptQuery(event="event-012345"), None, 10)).value
        await history.close()
        return found

    found = asyncio.run(main())
    assert (found.attempt.at, found.attempt.positions) == (NOON + 12 * SECOND, [(1, 12345)])
