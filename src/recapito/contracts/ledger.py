"""The contract of the Ledger: lanes, parked deliveries and dead letters that wait. Dispatch writes it."""

from collections.abc import Container, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import msgspec

from recapito.contracts.damage import Damage
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import Hold

ParkedKey = tuple[int, DeliveryId]
"""The place of a parked delivery among those of its lane: its due time, then its id."""


class LaneCounts(msgspec.Struct, frozen=True):
    """The books of one lane: matched = delivered + dead-lettered + dropped + pending, in every commit.

    `unmatched` counts the events that the cursor passed and the filter did not match. `parked` and `buried` count the
    rows that wait; together they are `pending`. `evaluated` counts the events that were evaluated against the filter's
    conditions; `reasons` counts dead letters by reason, as far as it is known.
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
    """The requests of a lane that were answered or given up, and the time that they took together.

    `failed` counts failed attempts by the name of their result; a request is one attempt for each of its events.
    """

    answers: int = 0
    took_ns: int = 0
    failed: dict[str, int] = {}


class LaneRow(msgspec.Struct, frozen=True):
    """The durable state of one subscription's lane. `next_due_at` is the earliest due time of its parked deliveries.

    Of a `damaged` row only the id is known: cursor and books are blank.
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


class LaneVersions(NamedTuple):
    """The number of lanes, the sum of their versions, and the newest id: versions grow, and ids are never reused."""

    lanes: int
    versions: float
    newest: int


class Burial(NamedTuple):
    """A dead letter that waits to be written: not before `write_at`, into `container`."""

    identity: DeliveryId
    write_at: int
    container: str
    record: bytes


class Drop(NamedTuple):
    """A delivery that is given up without a dead letter."""

    identity: DeliveryId
    reason: str


class Settlement(NamedTuple):
    """The work of one lane since its last settlement; applied as a whole, if `version` is still the lane's.

    In this order: the cursor is replaced, and `matched`, `unmatched`, `delivered` (first attempts that succeeded),
    `attempts` and `evaluated` are added; `finish` removes each delivery that is parked, or buried and not yet named,
    and counts those that it found as delivered, others not at all; `park` inserts or replaces; `bury` and `drop`
    remove the parked row of the delivery, then insert or count. The version grows by one.
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
        """The same settlement without the `park`, `bury` and `drop` rows of these deliveries."""
        return self._replace(
            park=[row for row in self.park if row.delivery.identity not in identities],
            bury=[row for row in self.bury if row.identity not in identities],
            drop=[row for row in self.drop if row.identity not in identities],
        )


ADDED = ("matched", "unmatched", "delivered", "evaluated")
"""The counts of a settlement that a store adds to the counts of the same name. SQL has their places: append only."""

counts_added = attrgetter(*ADDED)


class DueDeliveries(NamedTuple):
    """Parked deliveries of a lane that are due, earliest first, and the due time of the next one after them."""

    parked: list[Parked]
    next_at: int | None


class DeadLetterGroup(NamedTuple):
    """Dead letters of one lane that go into one file. `path` is None until the group is named."""

    lane: int
    container: str
    path: str | None
    first_tried_at: int | None
    burials: list[Burial]


class Notice(NamedTuple):
    """A dead-letter file that is in its vault; kept until intake has published it (see `registry.TAKEN`)."""

    number: int
    content: bytes
    damaged: bool = False


class WaitingDeadLetter(NamedTuple):
    """A dead letter that waits, and the path of its group; None until the group is named."""

    burial: Burial
    path: str | None


class SkippedDeadLetters(NamedTuple):
    """Dead letters to skip: in containers being written to, or of an unreachable or resting (lane, container)."""

    containers: frozenset[str] = frozenset()
    places: frozenset[tuple[int, str]] = frozenset()


class Ledger(Protocol):
    """Lanes, parked deliveries and dead letters that wait.

    A verb that meets a damaged parked delivery or dead letter sets it aside and counts it as dropped for CORRUPT, for
    good: a settlement that names it afterwards does not change it. A reader that may not write raises StoreFailed until
    then.
    """

    async def lanes(self) -> list[LaneRow]:
        """All lanes, in the order of their ids."""

    async def lane(self, id: int) -> LaneRow | None:
        """A lane by its id."""

    async def some_lanes(self, ids: Sequence[int]) -> list[LaneRow]:
        """The lanes of these ids that exist, in the order of their ids."""

    async def lanes_after(self, after: int, limit: int) -> list[LaneRow]:
        """Lanes in the order of their ids, from the first id after `after` on."""

    async def troubled_lanes(self, after: int, limit: int) -> list[LaneRow]:
        """Lanes with parked deliveries or a hold other than CLEAR, in the order of their ids, after `after`.

        Damaged lanes may be among them. The cost does not grow with the lanes that are well, but for a glance at each.
        """

    async def lane_versions(self) -> LaneVersions:
        """Sums over all lanes. While none is renewed, they differ after each commit that changes a lane.

        The cost is a glance at each lane.
        """

    async def open_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        """Make the lane of a new subscription, its cursor at (position, 0), or return the one that exists already."""

    async def renew_lane(self, id: int, topic: int, log_id: str, position: int) -> LaneRow:
        """Replace the row of a damaged lane by a new one, its cursor at (position, 0); set the damaged one aside.

        Rows that wait from that position on are removed, for their events are read again; those before it stay. The new
        books count the rows that stay as matched; all else is zero.
        """

    async def close_lane(self, id: int) -> None:
        """Remove an ended lane that has nothing pending; any other lane stays.

        Of a damaged lane the waiting rows alone count; its row is set aside.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Apply all settlements, of different lanes, in one commit.

        A version that is not the lane's: StoreStale. Books that would not balance: ValueError. Nothing is written then.
        """

    async def due(self, lane: int, now: int, limit: int, at_least: int = 1) -> DueDeliveries:
        """At most `limit` parked deliveries with a due time up to `now`.

        After the first `at_least` of them, no more than limits.PARKED_SLICE_BYTES of events.
        """

    async def parked(self, lane: int, limit: int, after: ParkedKey | None = None) -> list[Parked]:
        """At most `limit` parked deliveries behind a key, earliest due first, whether due or not.

        After the first of them, no more than limits.PARKED_SLICE_BYTES of events.
        """

    async def find(self, lane: int, identity: DeliveryId) -> Parked | WaitingDeadLetter | None:
        """One delivery that waits, parked or buried."""

    async def next_burial_at(self) -> int | None:
        """The earliest `write_at` of all dead letters that wait."""

    async def burials_due(
        self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters
    ) -> DeadLetterGroup | None:
        """The group to write next: a named one first, else the oldest due dead letters of one lane and container."""

    async def name_group(self, group: DeadLetterGroup, path: str, tried_at: int) -> None:
        """Give an unnamed group its path, before it is written: a repeated write overwrites itself."""

    async def written(
        self, lane: int, path: str, notice: bytes | None = None, taken: int = 0, reasons: Mapping[str, int] = {}
    ) -> None:
        """Remove and count, once, the dead letters of the group under this path, which is in the vault.

        `reasons` are counted unless their sum exceeds the number of these dead letters. A notice is kept under a number
        greater than `taken` and than any before; notices up to `taken`, which intake has published, are removed.
        """

    async def notices(self, after: int, limit: int) -> list[Notice]:
        """Notices in the order of their numbers, from the first number after `after` on; a damaged one is marked so.

        A ledger that may write keeps a copy of a damaged one, when it is opened and before notices are removed.
        """

    async def abandon(self, lane: int, path: str, reason: str) -> None:
        """Give up the group under this path: remove its dead letters and count them, once, as dropped."""

    async def set_aside(self, damage: Damage) -> bool:
        """Keep a damaged entry of the log, once, and return whether it is new. No books change."""

    async def damaged(self, after: int, limit: int) -> list[Damage]:
        """The rows that were set aside, in the order of their numbers, from the first number after `after` on."""

    async def damaged_counts(self, after: int) -> dict[str, int]:
        """The number of rows set aside after a number, by table."""
