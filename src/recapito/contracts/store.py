"""The contracts of the store: the Log and the Registry are intake's to write, the Ledger is dispatch's.

Promises, for every implementation (tests/contracts holds them to it): what a verb wrote is durable when it returns; a
verb writes all or nothing; a commit that fails raises StoreFailed, what it wrote is then unknown, and the
implementation has put itself back on what is really stored before it serves the next call; reading never blocks
writing. Positions of a topic are dense, start at 1 and are never used twice.
"""

from collections.abc import Container, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind


class EntryKind(IntEnum):
    """What lies at a position of a topic's log: events, or the mark of a change to the topic or a subscription.

    DAMAGED is never stored: it is how an entry is read that is not what was stored, or cannot be read at all.
    """

    SEGMENT = 1
    CHANGE = 2
    DAMAGED = 3


class NewSegment(NamedTuple):
    """Events to be appended to one topic, packed by `domain.segment.pack`."""

    topic: int
    events: int
    columns: bytes
    body: bytes


class Entry(NamedTuple):
    """One entry of a topic's log; a change has neither columns nor body.

    A damaged one has what is left of both, and the number of events that were stored; 1 if even that is unreadable.
    """

    position: int
    kind: EntryKind
    columns: bytes
    body: bytes
    events: int = 0


class News(NamedTuple):
    """What happened in the log since a mark: the last position of each topic that grew, and what changed."""

    mark: int
    ends: dict[int, int]  # topic -> its last position
    topics: frozenset[int]  # topics put or deleted
    subscriptions: frozenset[int]  # subscriptions put, deleted or forgotten


class Document(NamedTuple):
    """A resource that no lane needs to know of, as its owner wrote it."""

    key: str
    content: bytes


class Damage(NamedTuple):
    """A stored row that is not what was written, set aside for a person. `content` and `columns` are its bytes.

    `number` is given by the ledger, in the order of finding; a lane has version and books in its content.
    """

    table: str  # entry, parked, burial, lane, notice; topic, subscription, document
    topic: int = 0
    lane: int = 0
    position: int = 0
    offset: int = 0
    events: int = 1
    content: bytes = b""
    columns: bytes = b""
    number: int = 0


class SearchPage(NamedTuple):
    """Where something was found, newest first, and below which position to go on; None: there is no more."""

    positions: list[int]
    below: int | None


class Log(Protocol):
    """The topics' logs: segments and change marks, in one order per topic."""

    @property
    def id(self) -> str:
        """A random name, given when the log was made; cursors carry it."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        """Append all segments in one commit; the position of each. A topic that is gone: KeyError, nothing done."""

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        """Append all segments and put documents, in one commit: they say, for good, that this was done."""

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        """Entries from `position` on, in order, without a gap; at least one if there is one, then while they fit.

        A position that was trimmed away or is beyond the end + 1: LookupError, never something else's entries. A
        damaged entry is read as one of kind DAMAGED, and the entries after it as they are.
        """

    async def news(self, mark: int) -> News:
        """What was committed after `mark`; 0 is the beginning. The new mark is the argument for the next call."""

    async def end(self, topic: int) -> int:
        """The last position of a topic, 0 if it has none."""

    async def first(self, topic: int) -> int:
        """The first position that the log of a topic still has, or would have next."""

    async def search(self, topic: int, text: bytes, below: int, count: int) -> SearchPage:
        """The positions of segments whose columns hold these bytes, among the last `count` entries under `below`."""

    async def size(self, topic: int, first: int, below: int) -> int:
        """How many bytes the entries from `first` up to, not including, `below` have."""

    async def trim(self, topic: int, below: int) -> int:
        """Remove entries at positions under `below`, at most limits.TRIM_SLICE; how many went. Positions stay."""


class Registry(Protocol):
    """Topics and subscriptions. Each put, delete and forget leaves a change mark in the topic's log, in one commit.

    Documents are all other resources; they leave no mark. A record that is damaged is left out of lists; a verb that
    needs it, or would change it, raises RecordDamaged; an append needs where the log of its topic ends.
    """

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""

    async def topic_by_id(self, id: int) -> Topic | None:
        """The topic of that id; a deleted one is gone."""

    async def topics(self, after: str, limit: int) -> list[Topic]:
        """Topics of all kinds in the order of their keys, from the first key after `after` on."""

    async def put_topic(self, topic: Topic) -> Topic:
        """Create (id 0: a new id is given; Conflict if the name is taken) or replace; `version` grows by one.

        Replacing with another `version` than the stored one: Conflict.
        """

    async def delete_topic(self, id: int) -> None:
        """Delete a topic and mark its subscriptions deleted. Its log stays readable until they are forgotten."""

    async def subscription(self, topic: int, name: str, domain_topic: str | None = None) -> Subscription | None:
        """The living subscription of that name, without regard to case."""

    async def subscription_by_id(self, id: int) -> Subscription | None:
        """The subscription of that id, a deleted one included, a forgotten one not."""

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        """Subscriptions in the order of their ids, from the first id after `after` on, deleted ones included."""

    async def subscription_counts(self, topics: Sequence[int]) -> dict[int, int]:
        """How many living subscriptions each of these topics has, those of domain topics included; none is left out."""

    async def domain_topic_subscriptions(
        self, topic: int, domain_topic: str, after: str, limit: int
    ) -> list[Subscription]:
        """The living subscriptions of one domain topic in the order of their lower-cased names, after a name."""

    async def put_subscription(self, subscription: Subscription) -> Subscription:
        """Create (id 0) or replace a subscription; its position in the log is that of the change mark.

        Creating gives a new id and sets `created_position` and the position of its one filter. Replacing keeps both
        and, if `filters[-1].filter` of the argument differs from the stored one, adds it in force from the mark on. A
        taken name or another `version` than the stored one: Conflict. A topic that is gone: KeyError.
        """

    async def delete_subscription(self, id: int) -> None:
        """Mark a subscription deleted at the position of its change mark; its name is free again."""

    async def forget(self, id: int) -> None:
        """Remove a deleted subscription for good; a deleted topic goes, with its log, after its last one."""

    async def document(self, kind: str, key: str) -> bytes | None:
        """The content of a document."""

    async def documents(self, kind: str, after: str, limit: int) -> list[Document]:
        """Documents of a kind in the order of their keys, from the first key after `after` on."""

    async def put_document(self, kind: str, key: str, content: bytes) -> None:
        """Create or replace a document."""

    async def delete_document(self, kind: str, key: str) -> bool:
        """Remove a document; whether it was there."""

    async def damaged_records(self) -> list[Damage]:
        """Topics, subscriptions and documents that a read found damaged and that are damaged still.

        `topic` is the topic of both; `lane` is the id of a subscription. They stay where they are.
        """


class LaneCounts(msgspec.Struct, frozen=True):
    """The books of one lane: matched = delivered + dead-lettered + dropped + pending, in every commit.

    `unmatched` counts the events that the cursor passed and the filter did not take. Parked and buried are the
    rows that wait, and together are what is pending. `evaluated` counts events that the filter's conditions looked
    at; `reasons` says why dead letters were given up, as far as that is known.
    """

    matched: int = 0
    unmatched: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    dropped: dict[str, int] = {}
    parked: int = 0
    buried: int = 0
    evaluated: int = 0
    reasons: dict[str, int] = {}

    @property
    def pending(self) -> int:
        """Matched, and not yet delivered, dead-lettered or dropped."""
        return self.matched - self.delivered - self.dead_lettered - sum(self.dropped.values())


class AttemptTotals(msgspec.Struct, frozen=True):
    """What a lane asked of its endpoint: requests that were answered or given up, and how long they took together.

    `failed` counts the attempts that failed, one for each event of a request, by the name of their result.
    """

    answers: int = 0
    took_ns: int = 0
    failed: dict[str, int] = {}


class LaneRow(msgspec.Struct, frozen=True):
    """The durable state of one subscription's lane. `next_due_at` is the least due time of what is parked.

    Of a `damaged` row nothing is known but its id: cursor and books are blank.
    """

    id: int
    topic: int
    log_id: str
    version: int
    cursor: Cursor
    hold: Hold
    counts: LaneCounts
    ended: bool = False
    next_due_at: int | None = None
    attempts: AttemptTotals = AttemptTotals()
    damaged: bool = False


class Burial(NamedTuple):
    """A dead letter that waits to be written: not before `write_at`, into `container`."""

    identity: DeliveryId
    write_at: int
    container: str
    record: bytes


class Drop(NamedTuple):
    """A delivery that is given up without a dead letter, and why."""

    identity: DeliveryId
    reason: str


class Settlement(NamedTuple):
    """What one lane did since its last settlement; applied whole, if `version` is still the lane's.

    In this order: the cursor is replaced and `matched`, `unmatched`, `delivered` (first attempts that succeeded),
    `attempts` and `evaluated` are added; `finish` removes what is parked, or buried and not yet named, under each
    identity and counts each one found as delivered, others not at all; `park` inserts or replaces; `bury` and `drop`
    remove what is parked under the identity, then insert or count. The version grows by one.
    """

    lane: int
    version: int
    cursor: Cursor
    hold: Hold
    matched: int = 0
    unmatched: int = 0
    delivered: int = 0
    finish: Sequence[DeliveryId] = ()
    park: Sequence[Parked] = ()
    bury: Sequence[Burial] = ()
    drop: Sequence[Drop] = ()
    ended: bool = False
    attempts: AttemptTotals = AttemptTotals()
    evaluated: int = 0

    def without(self, identities: Container[DeliveryId]) -> "Settlement":
        """The same, but for the rows of these deliveries."""
        return self._replace(
            park=[row for row in self.park if row.delivery.identity not in identities],
            bury=[row for row in self.bury if row.identity not in identities],
            drop=[row for row in self.drop if row.identity not in identities],
        )


class Due(NamedTuple):
    """The parked deliveries of a lane that have come due, earliest first, and when the next one after them does."""

    parked: list[Parked]
    next_at: int | None


class DeadLetterGroup(NamedTuple):
    """Dead letters of one lane that go into one file. Without a path the group has not been named yet."""

    lane: int
    container: str
    path: str | None
    first_tried_at: int | None
    burials: list[Burial]


class Notice(NamedTuple):
    """That a file is in its vault, for whoever wants to hear of it; kept until intake has taken it over."""

    number: int
    content: bytes
    damaged: bool = False


class WaitingDeadLetter(NamedTuple):
    """A dead letter that waits, and the path of its group, once that is named."""

    burial: Burial
    path: str | None


class SkippedDeadLetters(NamedTuple):
    """Dead letters to pass over: in containers being written to, or of a (lane, container) out of reach or at rest."""

    containers: frozenset[str] = frozenset()
    places: frozenset[tuple[int, str]] = frozenset()


class Ledger(Protocol):
    """Lanes, parked deliveries and dead letters that wait.

    A parked delivery or a dead letter that is damaged is set aside by the verb that meets it, and counted as dropped
    for CORRUPT, for good: a settlement that names it afterwards does nothing about it. To a reader that may not write
    it is StoreFailed until then.
    """

    async def lanes(self) -> list[LaneRow]:
        """All lanes, in the order of their ids."""

    async def lane(self, id: int) -> LaneRow | None:
        """One lane."""

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        """The lanes of these ids, as far as they are there, in the order of their ids."""

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        """Make the lane of a new subscription, its cursor at (position, 0); or the one that is there already."""

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        """Begin the row of a damaged lane anew, its cursor at (position, 0); the damaged one is set aside.

        What waits from that position on is removed, for it is read again; what waits before it stays, and with it the
        books begin: matched is what stays, all else is zero.
        """

    async def close_lane(self, id: int) -> None:
        """Remove an ended lane that has nothing pending; otherwise nothing happens."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Apply all settlements, of different lanes, in one commit.

        A version that is not the lane's: StoreStale. Books that would not balance: ValueError. Nothing is done then.
        """

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> Due:
        """At most `limit` parked deliveries with a due time up to `now`.

        After the first `at_least` of them, no more than limits.PARKED_SLICE_BYTES of events.
        """

    async def parked(self, lane: int, limit: int) -> list[Parked]:
        """At most `limit` parked deliveries, earliest due first, whether due or not."""

    async def find(self, lane: int, identity: DeliveryId) -> Parked | WaitingDeadLetter | None:
        """What waits of one delivery, parked or buried."""

    async def next_burial_at(self) -> int | None:
        """The earliest `write_at` of all dead letters that wait."""

    async def burials_due(
        self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
    ) -> DeadLetterGroup | None:
        """The group to write next: a named one first, else the oldest due ones of one lane and container."""

    async def name_group(self, group: DeadLetterGroup, path: str, tried_at: int) -> None:
        """Give an unnamed group its path, before it is written: a repeated write overwrites itself."""

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        """The group under this path is in the vault: its dead letters are removed and counted, once.

        `reasons`, with the number of each, are counted unless they are more than it had. A notice is kept under a
        number greater than `taken` and than any before; notices up to `taken`, which intake wrote down, are removed.
        """

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Notices in the order of their numbers, from the first after a number on; a damaged one is said to be.

        Who may write keeps a copy of a damaged one, when it opens the ledger and before notices are removed.
        """

    async def abandon(self, lane: int, path: str, reason: str) -> None:
        """The group under this path is given up: removed and counted as dropped for this reason, once."""

    async def set_aside(self, damage: Damage) -> bool:
        """Keep a damaged entry of the log, once; whether it was not kept before. No books change."""

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        """What was set aside, in the order of finding, from the first after a number on."""

    async def damaged_counts(self, after: int) -> dict[str, int]:
        """How many were set aside after a number, by table."""
