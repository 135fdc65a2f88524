"""History in memory: the newest attempts in a ring; the reference model."""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from recapito.contracts.history import AttemptPage, HistoryBounds, HistoryExtent, KeptAttempt, SeriesPage
from recapito.domain import limits
from recapito.domain.delivery.kept_headers import text_of
from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.domain.history.series import Series


class MemoryHistory:
    """Attempts in a ring of `capacity` events. `now` is the clock of the attempts; marks start at `first_mark`."""

    def __init__(
        self,
        keep: HistoryBounds,
        now: Callable[[], int],
        first_mark: int = 1,
        capacity: int = limits.HISTORY_MEMORY_EVENTS,
    ) -> None:
        self._keep = keep
        self._now = now
        self._capacity = capacity
        self._ring: deque[KeptAttempt] = deque()
        self._events = 0
        self._newest = first_mark - 1
        self._not_kept = 0

    def __repr__(self) -> str:
        return f"<MemoryHistory of {len(self._ring)} attempts>"

    def record(self, attempt: Attempt) -> None:
        if _weight(attempt) > self._capacity:
            self._not_kept += 1
            return
        self._newest += 1
        if attempt.headers is not None:  # equal texts are one object, so they take less memory than the lines
            attempt = replace(attempt, headers=text_of(attempt.headers))
        self._ring.append(KeptAttempt(self._newest, attempt))
        self._events += _weight(attempt)
        while self._events > self._capacity:
            self._events -= _weight(self._ring.popleft().attempt)

    async def flush(self) -> None:
        """Attempts are recorded at once."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        older = [kept for kept in reversed(self._recent()) if before is None or kept.mark < before]
        return self._page(older, selection, limit)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        page = self._page([kept for kept in self._recent() if kept.mark > after], selection, limit)
        return page if page.next is None else page._replace(newest=page.next)

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        series = Series(width)
        for mark, attempt in self._recent():
            if mark > after and (before is None or mark < before) and selection.takes(attempt):
                series.add(attempt)
        return SeriesPage(series, None, self._newest)

    async def extent(self) -> HistoryExtent:
        recent = self._recent()
        since = min((kept.attempt.at for kept in recent), default=None)
        return HistoryExtent(since, len(recent), self._not_kept)

    async def close(self) -> None:
        """There is nothing to release."""

    def _recent(self) -> list[KeptAttempt]:
        oldest = self._now() - self._keep.age_ns
        while self._ring and self._ring[0].attempt.at < oldest:
            self._events -= _weight(self._ring.popleft().attempt)
        return list(self._ring)

    def _page(self, attempts: Iterable[KeptAttempt], selection: AttemptQuery, limit: int) -> AttemptPage:
        selected = [kept for kept in attempts if selection.takes(kept.attempt)]
        return AttemptPage(selected[:limit], selected[limit - 1].mark if len(selected) > limit else None, self._newest)


def _weight(attempt: Attempt) -> int:
    return len(attempt.ids) + 1
