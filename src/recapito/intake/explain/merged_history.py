"""The history of a cluster: each node keeps the attempts that it made while it owned.

The law: every attempt is shown once, in the order of marks. Marks grow from owner to owner, because a history begins
above the time at which it is opened for writing; with clocks that differ by less than a hand-over takes, so do theirs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from recapito.contracts.history import AttemptPage, HistoryExtent, HistoryReader, SeriesPage
from recapito.domain import limits
from recapito.domain.history.attempt import AttemptQuery
from recapito.errors import StoreFailed

T = TypeVar("T")


class MergedHistory:
    """Reads its own history and those of others, by the names of their nodes; a page names those that do not answer."""

    def __init__(self, own: HistoryReader, others: Callable[[], Mapping[str, HistoryReader]]) -> None:
        self._own = own
        self._others = others

    def __repr__(self) -> str:
        return f"<MergedHistory of {self._own!r} and {len(self._others())} others>"

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        pages, silent = await self._ask(lambda history: history.newest_first(selection, before, limit))
        edge = max((page.next for page in pages if page.next is not None), default=None)  # all above it is known
        known = [kept for page in pages for kept in page.value if edge is None or kept.mark >= edge]
        known.sort(key=lambda kept: kept.mark, reverse=True)
        following = known[limit - 1].mark if len(known) > limit else edge
        return AttemptPage(known[:limit], following, max(page.newest for page in pages), silent)

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        pages, silent = await self._ask(lambda history: history.oldest_first(selection, after, limit))
        edge = min((page.next for page in pages if page.next is not None), default=None)  # all up to it is known
        known = [kept for page in pages for kept in page.value if edge is None or kept.mark <= edge]
        known.sort(key=lambda kept: kept.mark)
        following = known[limit - 1].mark if len(known) > limit else edge
        newest = max(page.newest for page in pages) if following is None else following
        return AttemptPage(known[:limit], following, newest, silent)

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        """The first page has everything that the others count; the further ones are of this node alone."""
        if before is not None:
            return await self._own.series(selection, width, after, before)

        async def whole(history: HistoryReader) -> SeriesPage:
            page = await history.series(selection, width, after, None)
            if history is self._own:
                return page
            series, following = page.series, page.next
            for _ in range(limits.SERIES_SLICES):
                if following is None:
                    return page
                more = await history.series(selection, width, after, following)
                series.merge(more.series)
                following = more.next
            raise StoreFailed("it has more attempts than are counted")

        (own, *others), silent = await self._ask(whole)
        for page in others:
            own.series.merge(page.series)
        return SeriesPage(own.series, own.next, max(page.newest for page in (own, *others)), silent)

    async def extent(self) -> HistoryExtent:
        found, _ = await self._ask(lambda history: history.extent())
        since = min((extent.since for extent in found if extent.since is not None), default=None)
        return HistoryExtent(since, sum(extent.attempts for extent in found), sum(extent.not_kept for extent in found))

    async def close(self) -> None:
        await self._own.close()

    async def _ask(self, verb: Callable[[HistoryReader], Awaitable[T]]) -> tuple[Sequence[T], tuple[str, ...]]:
        """The answers, this node's own first, and the names of those that did not answer."""
        others = self._others()

        async def ask(history: HistoryReader) -> T | None:
            try:
                return await verb(history)
            except StoreFailed:
                return None

        own, told = await asyncio.gather(verb(self._own), asyncio.gather(*map(ask, others.values())))
        silent = tuple(sorted(name for name, answer in zip(others, told, strict=True) if answer is None))
        return [own, *(answer for answer in told if answer is not None)], silent
