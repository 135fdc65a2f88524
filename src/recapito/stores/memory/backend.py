"""The backend in memory: both roles in one process, and nothing is kept when it ends."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from recapito.clock import Clock, SystemClock
from recapito.contracts.backend import PreparedState, Stores
from recapito.contracts.history import HistoryBounds
from recapito.errors import SettingsError
from recapito.stores.memory.disk import MemoryDisk
from recapito.stores.memory.history import MemoryHistory
from recapito.stores.memory.ledger import MemoryLedger
from recapito.stores.memory.log import MemoryLog


class MemoryBackend:
    """Stores on a MemoryDisk of its own. `keep` bounds the history; None: none is kept."""

    def __init__(self, keep: HistoryBounds | None) -> None:
        self._keep = keep
        self._disk = MemoryDisk()
        self._open = False

    def __repr__(self) -> str:
        return f"<MemoryBackend{', open' if self._open else ''}>"

    async def prepare(self) -> PreparedState:
        return PreparedState(0, doubtful=False)

    @asynccontextmanager
    async def open_both(self, clock: Clock) -> AsyncIterator[Stores]:
        if self._open:
            raise SettingsError("server.store: the store in memory is open already.")
        self._open = True
        log, history = MemoryLog(self._disk), self._history(clock)
        try:
            yield Stores(log, log, MemoryLedger(self._disk), history, history)
        finally:
            self._open = False

    def open_intake(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        raise _not_shared()

    def open_dispatch(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        raise _not_shared()

    async def inspect(self) -> None:
        """Memory is not inspected."""

    def _history(self, clock: Clock) -> MemoryHistory | None:
        if self._keep is None:
            return None
        return MemoryHistory(self._keep, clock.now, first_mark=SystemClock().now() // 1000)


def _not_shared() -> SettingsError:
    return SettingsError("server.store: two processes cannot share a store in memory; run both roles in one process.")
