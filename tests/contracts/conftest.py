"""The stores that the contract suites are run on: in memory, on SQLite with and without its thread, and replicated."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from tests.kit.fake_stream import FakeServer, FakeStreams
from tests.kit.replicated import ReplicatedStores
from tests.stores.spoil import FileSpoiler, MemorySpoiler

T = TypeVar("T")
Run = Callable[[Awaitable[T]], T]
NATS = pytest.param("nats", marks=pytest.mark.xdist_group("nats"))


class LogAndRegistry(Log, Registry, Protocol):
    """Both contracts of intake."""


class Stores(Protocol):
    """One store, which can be closed and opened again on what it kept."""

    log: LogAndRegistry
    ledger: Ledger
    spoil: Any

    async def reopen(self) -> None:
        """Forget everything that is not stored."""

    async def close(self) -> None:
        """Let go of everything."""


class MemoryStores:
    """The reference model."""

    def __init__(self) -> None:
        self._disk = MemoryDisk()
        self.spoil = MemorySpoiler(self._disk)
        self.log = MemoryLog(self._disk)
        self.ledger = MemoryLedger(self._disk)

    async def reopen(self) -> None:
        self.log = MemoryLog(self._disk)
        self.ledger = MemoryLedger(self._disk)

    async def close(self) -> None:
        return None


class SqliteStores:
    """The embedded store."""

    def __init__(self, directory: Path, threaded: bool) -> None:
        self._directory = directory
        self._threaded = threaded
        self.spoil = FileSpoiler(directory)
        self.log = SqliteLog.open(directory, threaded=threaded)
        self.ledger = SqliteLedger.open(directory, threaded=threaded)

    async def reopen(self) -> None:
        await self.close()
        self.log = SqliteLog.open(self._directory, threaded=self._threaded)
        self.ledger = SqliteLedger.open(self._directory, threaded=self._threaded)

    async def close(self) -> None:
        await self.log.close()
        await self.ledger.close()


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Wait for something on an event loop that lasts as long as the test."""
    with asyncio.Runner() as runner:
        yield lambda awaitable: runner.run(_wait(awaitable))


async def _wait(awaitable: Awaitable[T]) -> T:
    return await awaitable


@pytest.fixture(params=["memory", "sqlite-inline", "sqlite-thread", "replicated", NATS])
def stores(request: pytest.FixtureRequest, tmp_path: Path, run: Run[Any]) -> Iterator[Stores]:
    """A new, empty store of each kind."""
    opened: Stores
    if request.param == "memory":
        opened = MemoryStores()
    elif request.param == "replicated":
        servers = FakeServer("LOG", max_body=4096), FakeServer("LANES", max_body=4096)
        opened = ReplicatedStores(tmp_path, FakeStreams(*servers))
    elif request.param == "nats":
        opened = ReplicatedStores(tmp_path, request.getfixturevalue("nats").emptied_streams(), threaded=True)
    else:
        opened = SqliteStores(tmp_path, request.param == "sqlite-thread")
    yield opened
    run(opened.close())


@pytest.fixture
def log(stores: Stores) -> LogAndRegistry:
    """The log and registry of a new store."""
    return stores.log


@pytest.fixture
def ledger(stores: Stores) -> Ledger:
    """The ledger of a new store."""
    return stores.ledger
