"""The contract of History: the attempts of the last hours, for people who ask why.

Promises, for every implementation: `record` never raises and never waits, and what it can not take is counted; attempts
get marks that grow, also over a restart, in the order in which they were recorded; what is kept is bounded in time and
in size, and the oldest goes first. History is no part of the promise that no event is lost: what a crash takes from
its end is gone, and a damaged history is set aside and begun anew.
"""

from typing import NamedTuple, Protocol

from recapito.domain.history.attempt import Attempt, AttemptQuery


class Keep(NamedTuple):
    """How much is kept: attempts that are no older, in no more bytes."""

    age_ns: int
    size: int


class Kept(NamedTuple):
    """One attempt and its mark."""

    mark: int
    attempt: Attempt


class Page(NamedTuple):
    """Some attempts. `next` is the mark from which a further page goes on, in the same direction; None: no more.

    `newest` is up to where this page has seen everything that is newer: who follows what happens goes on from there.
    """

    value: list[Kept]
    next: int | None
    newest: int


class Extent(NamedTuple):
    """What is kept: since when, how many attempts, and how many were recorded but not kept."""

    since: int | None
    attempts: int
    not_kept: int


class HistoryReader(Protocol):
    """What may be asked. A store that can not be read raises StoreFailed."""

    async def newest_first(self, selection: AttemptQuery, before: int | None, limit: int) -> Page:
        """At most `limit` of the selected attempts whose mark is less than `before`, the newest first.

        A page may be short, even empty, and have a next one: what is looked through at once is bounded.
        """

    async def oldest_first(self, selection: AttemptQuery, after: int, limit: int) -> Page:
        """At most `limit` of the selected attempts whose mark is greater than `after`, the oldest first."""

    async def extent(self) -> Extent:
        """What is kept."""

    async def close(self) -> None:
        """Let go of everything."""


class History(HistoryReader, Protocol):
    """Written by dispatch alone. What it wrote it also reads at once."""

    def record(self, attempt: Attempt) -> None:
        """Keep an attempt."""

    async def flush(self) -> None:
        """Store what was recorded, so that others can read it. What can not be stored is counted as not kept."""
