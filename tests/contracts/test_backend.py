"""The contract of a backend: which stores a role gets, which of them it may write, and who may open them."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from recapito.clock import ManualClock
from recapito.contracts.backend import Backend, PreparedState, Stores
from recapito.contracts.history import HistoryBounds
from recapito.domain.history.attempt import AttemptQuery
from recapito.errors import SettingsError
from recapito.stores.memory.backend import MemoryBackend
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions
from tests.kit.fake_stream import FakeServer, FakeStreams
from tests.stores.attempts import KEEP, NOON, attempt
from tests.stores.values import new_topic

CLOCK = ManualClock(NOON)
Make = Callable[[HistoryBounds | None], Backend]


class OwningBackend(ReplicatedBackend):
    """A node of a cluster that founds the streams and owns them."""

    async def prepare(self) -> PreparedState:
        if not self._streams.log.state().last:
            await self.found()
            return PreparedState(0, doubtful=False)
        prepared = await super().prepare()
        await self.claim()
        return prepared


@pytest.fixture(params=["memory", "sqlite", "replicated"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a backend of each kind for a new server."""
    if request.param == "memory":
        return MemoryBackend
    return _in_files(request.param, tmp_path / "data")


def _in_files(kind: str, data: Path) -> Make:
    if kind == "sqlite":
        return lambda keep: SqliteBackend(SqliteOptions(data, keep))
    servers = FakeServer("LOG"), FakeServer("LANES")
    return lambda keep: OwningBackend(SqliteOptions(data, keep), FakeStreams(*servers), "node")


@pytest.fixture
def backend(make: Make) -> Backend:
    """A backend that keeps history."""
    return make(KEEP)


@pytest.fixture(params=["sqlite", "replicated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a backend that two processes may open; each call makes another one of the same server."""
    return _in_files(request.param, tmp_path / "data")


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(_wait(story()))


async def _wait(story: Awaitable[None]) -> None:
    await story


async def write(stores: Stores) -> None:
    """A topic by intake, and a lane by dispatch."""
    await stores.registry.put_topic(new_topic("orders"))
    await stores.ledger.open_lane(1, 1, stores.log.id, 1)


async def content(stores: Stores) -> tuple[list[str], list[int]]:
    topics, lanes = await stores.registry.topics("", 10), await stores.ledger.lanes()
    return [topic.name for topic in topics], [lane.id for lane in lanes]


def test_making_a_backend_touches_nothing(make: Make, tmp_path: Path) -> None:
    """Only `prepare` makes files."""
    make(KEEP)
    assert not list(tmp_path.iterdir())


def test_a_new_server_has_empty_stores(backend: Backend) -> None:
    """There was no write, and no crash after it."""

    async def story() -> None:
        assert await backend.prepare() == PreparedState(0, doubtful=False)
        async with backend.open_both(CLOCK) as stores:
            assert await content(stores) == ([], [])
            assert stores.damage() == ""

    run(story)


def test_reopened_stores_have_what_was_written(backend: Backend) -> None:
    """Closing loses nothing, the log keeps its id, and preparing again changes nothing."""

    async def story() -> None:
        await backend.prepare()
        async with backend.open_both(CLOCK) as stores:
            await write(stores)
            id = stores.log.id
        assert not (await backend.prepare()).doubtful
        async with backend.open_both(CLOCK) as stores:
            assert await content(stores) == (["orders"], [1])
            assert stores.log.id == id

    run(story)


def test_stores_are_open_once_at_a_time(backend: Backend) -> None:
    """Opening them again is refused until they are closed, and the first opening is not disturbed."""

    async def story() -> None:
        await backend.prepare()
        async with backend.open_both(CLOCK) as stores:
            with pytest.raises(SettingsError, match=r"open already|in use"):
                async with backend.open_both(CLOCK):
                    pass
            await write(stores)
        async with backend.open_both(CLOCK) as stores:
            assert await content(stores) == (["orders"], [1])

    run(story)


def test_a_failure_inside_frees_the_roles(backend: Backend) -> None:
    """However the context is left, the stores can be opened again."""

    async def story() -> None:
        await backend.prepare()
        with pytest.raises(ZeroDivisionError):
            async with backend.open_both(CLOCK):
                raise ZeroDivisionError
        async with backend.open_both(CLOCK) as stores:
            assert await content(stores) == ([], [])

    run(story)


def test_history_is_kept_if_it_is_wanted(make: Make) -> None:
    """The one process records and reads the same history; without bounds there is none."""

    async def story() -> None:
        backend = make(KEEP)
        await backend.prepare()
        async with backend.open_both(CLOCK) as stores:
            assert stores.history is not None and stores.recording is not None
            stores.recording.record(attempt("a"))
            await stores.recording.flush()
            page = await stores.history.newest_first(AttemptQuery(), None, 10)
            assert [kept.attempt.ids for kept in page.value] == [["a"]]
        async with make(None).open_both(CLOCK) as stores:
            assert (stores.history, stores.recording) == (None, None)

    run(story)


def test_the_room_of_a_volume_is_measured(backend: Backend) -> None:
    """A store with a volume reports the room of both roles; one without reports none. Trimming is allowed."""

    async def story() -> None:
        await backend.prepare()
        async with backend.open_both(CLOCK) as stores:
            measured = [stores.space is None, stores.measure is None, stores.room is None]
            assert measured in ([True] * 3, [False] * 3)
            if stores.space is not None and stores.room is not None:
                assert 0 < stores.space().free <= stores.space().total
                assert stores.room().free > 0
            with stores.trimming() as allowed:
                assert allowed

    run(story)


def test_sound_stores_pass_their_inspection(backend: Backend) -> None:
    """They may be open meanwhile, and nothing is reported."""

    async def story() -> None:
        await backend.prepare()
        async with backend.open_both(CLOCK) as stores:
            await write(stores)
            await backend.inspect()
            assert stores.damage() == ""

    run(story)


def test_memory_is_not_shared_by_two_processes() -> None:
    """A backend that lives in one process refuses to open one role alone."""
    backend = MemoryBackend(KEEP)
    for opening in (backend.open_intake, backend.open_dispatch):
        with pytest.raises(SettingsError, match=r"server\.store: two processes cannot share"):
            opening(CLOCK)


def test_each_role_writes_its_own_stores_and_reads_the_others(files: Make) -> None:
    """Both are open at the same time, by backends of their own; a verb that writes another role's store is refused."""

    async def story() -> None:
        await files(KEEP).prepare()
        async with files(KEEP).open_intake(CLOCK) as intake, files(KEEP).open_dispatch(CLOCK) as dispatch:
            await intake.registry.put_topic(new_topic("orders"))
            await dispatch.ledger.open_lane(1, 1, dispatch.log.id, 1)
            assert await content(intake) == await content(dispatch) == (["orders"], [1])
            with pytest.raises(io.UnsupportedOperation):
                await intake.ledger.open_lane(2, 1, intake.log.id, 1)
            with pytest.raises(io.UnsupportedOperation):
                await dispatch.registry.put_topic(new_topic("bills"))
            with pytest.raises(io.UnsupportedOperation):
                await dispatch.log.append([])
            assert await content(intake) == await content(dispatch) == (["orders"], [1])

    run(story)


def test_dispatch_records_and_intake_reads_history(files: Make) -> None:
    """Attempts that dispatch has flushed are read by intake, which cannot record."""

    async def story() -> None:
        await files(KEEP).prepare()
        async with files(KEEP).open_intake(CLOCK) as intake, files(KEEP).open_dispatch(CLOCK) as dispatch:
            assert intake.recording is None and intake.history is not None and dispatch.recording is not None
            dispatch.recording.record(attempt("a"))
            await dispatch.recording.flush()
            page = await intake.history.newest_first(AttemptQuery(), None, 10)
            assert [kept.attempt.ids for kept in page.value] == [["a"]]

    run(story)


def test_a_role_is_open_once_at_a_time(files: Make) -> None:
    """Each role refuses a second opening of itself, and `open_both` needs both roles to be free."""

    async def story() -> None:
        await files(None).prepare()
        async with files(None).open_intake(CLOCK), files(None).open_dispatch(CLOCK):
            for opening in (files(None).open_intake, files(None).open_dispatch, files(None).open_both):
                with pytest.raises(SettingsError, match="in use by process"):
                    async with opening(CLOCK):
                        pass
        async with files(None).open_both(CLOCK) as stores:
            assert await content(stores) == ([], [])

    run(story)


def test_stores_are_prepared_before_a_role_opens_them(files: Make, tmp_path: Path) -> None:
    """Stores that nothing has made are refused by name."""

    async def story() -> None:
        await files(None).prepare()
        (tmp_path / "data" / "dispatch.db").unlink()
        with pytest.raises(SettingsError, match=r"dispatch\.db does not exist"):
            async with files(None).open_intake(CLOCK):
                pass

    run(story)
