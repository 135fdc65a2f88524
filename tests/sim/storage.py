"""The disk that outlives a crash: in memory, SQLite files, or copies of streams. Each life opens its own stores."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, FileKind
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog
from tests.kit.fake_stream import FakeServer, FakeStream
from tests.kit.replicated import COPY, CompactingDatabase
from tests.stores.spoil import FileSpoiler, MemorySpoiler


class Storage(Protocol):
    """Opens stores on one disk. Intake writes the log, dispatch writes the ledger, and each may read the other's."""

    def open_log(self, write: bool) -> Any:
        """The Log and Registry."""

    def open_ledger(self, write: bool) -> Any:
        """The Ledger."""

    @property
    def spoil(self) -> Any:
        """Damages rows behind the stores' backs."""

    def close(self, store: Any) -> None:
        """The process that had it open is gone."""


class MemoryStorage:
    """A disk in memory."""

    def __init__(self) -> None:
        self._disk = MemoryDisk(log_id="sim")
        self.spoil = MemorySpoiler(self._disk)

    def open_log(self, write: bool) -> Any:
        return MemoryLog(self._disk)

    def open_ledger(self, write: bool) -> Any:
        return MemoryLedger(self._disk)

    def close(self, store: Any) -> None:
        """Nothing is open."""


class SmallPagesLog(SqliteLog):
    """A log whose trees are deep though it has few entries."""

    KIND = SqliteLog.KIND._replace(page_bytes=512)


class SmallPagesLedger(SqliteLedger):
    """A ledger whose trees are deep though it has few rows."""

    KIND = SqliteLedger.KIND._replace(page_bytes=512)


class SqliteStorage:
    """Two real files. Calls are made directly: there are no threads in the simulation.

    `at_rest` is done once neither file is open, before either is opened again.
    """

    def __init__(self, directory: Path, small_pages: bool = False) -> None:
        self.directory = self._directory = directory
        self.small_pages = small_pages
        self.at_rest: Callable[[], None] | None = None
        self._open: set[int] = set()
        self._log = SmallPagesLog if small_pages else SqliteLog
        self._ledger = SmallPagesLedger if small_pages else SqliteLedger
        self.spoil = FileSpoiler(directory)
        for store in (self.open_log(True), self.open_ledger(True)):
            self.close(store)  # they exist from now on, so that either role may start first

    def open_log(self, write: bool) -> Any:
        self._rest()
        directory = self._directory
        return self._opened(self._log.open(directory, threaded=False) if write else self._log.open_reader(directory))

    def open_ledger(self, write: bool) -> Any:
        self._rest()
        directory = self._directory
        return self._opened(
            self._ledger.open(directory, threaded=False) if write else self._ledger.open_reader(directory)
        )

    def close(self, store: Any) -> None:
        self._open.discard(id(store))
        store.database.close()

    def _opened(self, store: Any) -> Any:
        self._open.add(id(store))
        return store

    def _rest(self) -> None:
        if self.at_rest is not None and not self._open:
            act, self.at_rest = self.at_rest, None
            act()


class Unspoilt:
    """Copies are not damaged here: a node would throw them away."""

    def __getattr__(self, verb: str) -> Any:
        return lambda *_: False


class ReplicatedStorage:
    """Copies of streams in memory. A life that writes takes over from another node, which has claimed in between."""

    spoil = Unspoilt()

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers = {LOG: FakeServer("LOG"), DISPATCH: FakeServer("LANES")}
        for name in ("here", "there"):
            (directory / name).mkdir()
        for kind in self._servers:
            database = self._open(kind, "here", founding=True)
            database.found()
            database.close()

    def open_log(self, write: bool) -> Any:
        if write:
            return SqliteLog(self._take_over(LOG), threaded=False)
        return SqliteLog.open_reader(self._directory / "here")

    def open_ledger(self, write: bool) -> Any:
        if write:
            return SqliteLedger(self._take_over(DISPATCH), threaded=False)
        return SqliteLedger.open_reader(self._directory / "here")

    def close(self, store: Any) -> None:
        store.database.close()

    def _take_over(self, kind: FileKind) -> CompactingDatabase:
        rival = self._open(kind, "there")
        rival.claim()
        rival.close()
        database = self._open(kind, "here")
        database.claim()
        return database

    def _open(self, kind: FileKind, name: str, founding: bool = False) -> CompactingDatabase:
        path, stream = self._directory / name / kind.file, FakeStream(self._servers[kind])
        return CompactingDatabase(path, kind, stream, name, COPY, threaded=False, founding=founding)
