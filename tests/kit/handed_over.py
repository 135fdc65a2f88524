"""A history of two nodes: the first made the first attempts and answers by the wire, the second owns now."""

from recapito.api.router.histories import HistoryDesk, RemoteHistory
from recapito.contracts.history import AttemptPage, HistoryExtent, HistoryReader, SeriesPage
from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.intake.explain.merged_history import MergedHistory
from recapito.stores.memory import MemoryHistory

BEFORE = 3  # attempts of the first node


class HandedOverHistory:
    """Implements History; the node changes after some attempts."""

    def __init__(self, first: MemoryHistory, second: MemoryHistory) -> None:
        self._first, self._second = first, second
        self._recorded = 0
        desk = HistoryDesk({0: first}.get, 1)
        self._merged = MergedHistory(second, lambda: {"one": RemoteHistory(0, desk.answer)})

    @property
    def _reader(self) -> HistoryReader:
        return self._first if self._recorded <= BEFORE else self._merged

    def record(self, attempt: Attempt) -> None:
        self._recorded += 1
        (self._first if self._recorded <= BEFORE else self._second).record(attempt)

    async def flush(self) -> None:
        """Attempts are recorded at once."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        return await self._reader.newest_first(selection, before, limit)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        return await self._reader.oldest_first(selection, after, limit)

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        return await self._reader.series(selection, width, after, before)

    async def extent(self) -> HistoryExtent:
        return await self._reader.extent()

    async def close(self) -> None:
        await self._reader.close()
