"""The contract of the Log: segments of events and change marks, in one order per topic. Intake writes it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from recapito.contracts.registry import Document


class EntryKind(IntEnum):
    """The kind of entry at a position: events, or the mark of a change to the topic or to a subscription.

    DAMAGED is never stored. A read returns it for an entry that differs from the one that was stored, or that cannot
    be read at all.
    """

    SEGMENT = 1
    CHANGE = 2
    DAMAGED = 3


class NewSegment(NamedTuple):
    """Events to be appended to one topic, packed by `domain.events.segment.pack`."""

    topic: int
    events: int
    columns: bytes
    body: bytes


class Entry(NamedTuple):
    """One entry of a topic's log; a change has neither columns nor body.

    A damaged entry has the remains of both, and the number of events that were stored; 1 if that number cannot be read.
    """

    position: int
    kind: EntryKind
    columns: bytes
    body: bytes
    events: int = 0


class News(NamedTuple):
    """The changes of the log since a mark: the last position of each topic that grew, and the changed resources."""

    mark: int
    ends: dict[int, int]  # topic -> its last position
    topics: frozenset[int]  # topics put or deleted
    subscriptions: frozenset[int]  # subscriptions put, deleted or forgotten


class SearchPage(NamedTuple):
    """The positions that a search found, newest first. A further search goes on below `below`; None: it is complete."""

    positions: list[int]
    below: int | None


class Log(Protocol):
    """The logs of all topics."""

    @property
    def id(self) -> str:
        """A random name, given when the log was made; cursors carry it."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        """Append all segments in one commit and return their positions.

        If a topic does not exist: KeyError, and nothing is appended.
        """

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        """Append all segments and put documents of this kind in one commit.

        A document that is found afterwards proves that its segments were appended.
        """

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        """Entries from `position` on, in order and without a gap: at least one if there is one, then while they fit.

        A position that was trimmed, or one beyond the end + 1: LookupError; another position's entries are never
        returned. A damaged entry is returned as one of kind DAMAGED; it does not affect the entries after it.
        """

    async def news(self, mark: int) -> News:
        """Everything committed after `mark`; 0 is the beginning. The new mark is the argument of the next call."""

    async def end(self, topic: int) -> int:
        """The last position of a topic, 0 if it has none."""

    async def first(self, topic: int) -> int:
        """The first position that the log of a topic still has; for an empty log, the position of its next entry."""

    async def search(self, topic: int, text: bytes, below: int, count: int) -> SearchPage:
        """The positions of segments whose columns contain `text`, among the last `count` entries under `below`."""

    async def size(self, topic: int, first: int, below: int) -> int:
        """The bytes of the entries from `first` up to, not including, `below`."""

    async def events(self, topic: int, first: int, below: int) -> int:
        """The number of events in the entries from `first` up to, not including, `below`.

        Only the first limits.COUNTED_ENTRIES of them are counted.
        """

    async def trim(self, topic: int, below: int) -> int:
        """Remove entries at positions under `below`, at most limits.TRIM_SLICE, and return their number.

        The remaining entries keep their positions.
        """
