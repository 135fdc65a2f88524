"""The contract of History: the attempts of the last hours, for explanations.

Promises, for every implementation: `record` never raises and never waits, and counts the attempts that it cannot keep;
attempts get marks that grow, also over a restart, in the order in which they were recorded; history is bounded in time
and in size, and the oldest attempts go first. History is no part of the promise that no event is lost: a crash may take
its last attempts, and a damaged history is set aside and begun anew.
"""

from typing import NamedTuple, Protocol

from recapito.domain.history.attempt import Attempt, AttemptQuery
from recapito.domain.history.series import Series


class HistoryBounds(NamedTuple):
    """The bounds of a history: the age of its oldest attempt, and its size in bytes."""

    age_ns: int
    size: int


class KeptAttempt(NamedTuple):
    """One attempt and its mark."""

    mark: int
    attempt: Attempt


class AttemptPage(NamedTuple):
    """Some attempts. `next` is the mark from which a further page goes on, in the same direction; None: no more.

    No attempt up to the mark `newest` is left for later: a reader that follows new attempts continues from there.
    `missing` names the nodes of a cluster whose attempts are left out, because they did not answer.
    """

    value: list[KeptAttempt]
    next: int | None
    newest: int
    missing: tuple[str, ...] = ()


class SeriesPage(NamedTuple):
    """Some attempts, counted. `next` is the mark below which a further page goes on; None: no more.

    A reader that follows continues from the mark `newest`; `missing` is that of an `AttemptPage`.
    """

    series: Series
    next: int | None
    newest: int
    missing: tuple[str, ...] = ()


class HistoryExtent(NamedTuple):
    """The instant of the oldest attempt, the number of attempts, and the number of those recorded but not kept."""

    since: int | None
    attempts: int
    not_kept: int


class HistoryReader(Protocol):
    """Reads attempts. A store that cannot be read raises StoreFailed."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> AttemptPage:
        """At most `limit` of the selected attempts whose mark is less than `before`, the newest first.

        A page may be short, even empty, and have a next one: each call searches a bounded part of the history.
        """

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> AttemptPage:
        """At most `limit` of the selected attempts whose mark is greater than `after`, the oldest first."""

    async def series(self, selection: AttemptQuery, width: int, after: int, before: int | None) -> SeriesPage:
        """The selected attempts whose mark is between `after` and `before`, counted, the newest first.

        Each call counts a bounded part of the history.
        """

    async def extent(self) -> HistoryExtent:
        """The extent of the attempts that are kept now."""

    async def close(self) -> None:
        """Release all resources."""


class History(HistoryReader, Protocol):
    """Written by dispatch alone. The writer reads its own attempts at once."""

    def record(self, attempt: Attempt) -> None:
        """Keep an attempt."""

    async def flush(self) -> None:
        """Store the recorded attempts, so that other processes can read them; count those that cannot be stored."""
