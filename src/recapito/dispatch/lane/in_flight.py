"""A flight: one request on its way, and the deliveries it carries.

Deliveries of fresh events are made from the segments only when the request fails: a success needs their number alone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

import msgspec

from recapito.contracts.sender import Exchange
from recapito.dispatch.lane.delivery_format import Presentation
from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Range
from recapito.domain.delivery.delivery import Delivery, Identity
from recapito.domain.events.segment import Segment, id_of


class Piece(msgspec.Struct, frozen=True, gc=False):
    """Events of one segment that go into a batch."""

    position: int
    segment: Segment
    offsets: Sequence[int]

    def body(self) -> memoryview | bytes:
        """The events, joined by commas; neighbours are one slice of the segment, of which no copy is made."""
        first, last = self.offsets[0], self.offsets[-1]
        if last - first + 1 == len(self.offsets):
            return memoryview(self.segment.body)[self.segment.start(first) : self.segment.ends[last]]
        return b",".join([self.segment.event(i) for i in self.offsets])

    def delivery(self, i: int) -> Delivery:
        """The delivery of one of the events, before its first attempt."""
        segment = self.segment
        trace = segment.traces.get(i, "")
        return Delivery(Identity(self.position, i), segment.published_at[i], segment.stored(i), trace=trace)

    def ids(self) -> Sequence[str]:
        """The ids of the events."""
        first, last = self.offsets[0], self.offsets[-1]
        if self.segment.ids and last - first + 1 == len(self.offsets):
            return self.segment.ids[first : last + 1]
        return [self.segment.id(i) for i in self.offsets]

    def versions(self) -> set[str]:
        """The distinct data versions of the events."""
        if len(self.segment.versions) == 1:
            return {self.segment.versions[0]}
        return {self.segment.versions[self.segment.version_of[i]] for i in self.offsets}


# The events of a load in columns, as an Attempt has them: ids, runs of positions, offsets, numbers of attempts.
Manifest = tuple[Sequence[str], Sequence[tuple[int, int]], Sequence[int], Sequence[int]]


class Load(msgspec.Struct, eq=False):
    """What a flight carries: either ranges of the log, ascending, or deliveries that were parked.

    There is more than one range where events with other headers, or what is taken already, lie between. `fresh`: the
    ledger has no rows of these deliveries yet; `expired`: they are past their time to live. The segments of its pieces
    are in the schema that is sent; the deliveries have the events as they are stored. A load of `damaged` events has
    nothing else: they are the first ones of its range.
    """

    pieces: Sequence[Piece]
    parked: Sequence[Delivery]
    ranges: Sequence[Range]
    events: int
    headers: tuple[Header, ...] = ()
    unmatched: int = 0
    expired: bool = False
    evaluated: int = 0
    damaged: int = 0

    @property
    def fresh(self) -> bool:
        """True when it is of the log."""
        return bool(self.ranges)

    @property
    def first_attempts(self) -> int:
        """How many of its events were never tried before."""
        return self.events if self.fresh else sum(not delivery.attempts for delivery in self.parked)

    def deliveries(self) -> list[Delivery]:
        """The deliveries, as they are before this attempt."""
        if self.parked:
            return list(self.parked)
        return [piece.delivery(i) for piece in self.pieces for i in piece.offsets]

    def manifest(self) -> Manifest:
        """Which events these are, and which attempt this is of each."""
        if self.parked:
            return (
                [id_of(delivery.body) for delivery in self.parked],
                [(1, delivery.identity.position) for delivery in self.parked],
                [delivery.identity.offset for delivery in self.parked],
                [delivery.attempts + 1 for delivery in self.parked],
            )
        if self.events == 1:
            piece = self.pieces[0]
            return (piece.segment.id(piece.offsets[0]),), ((1, piece.position),), piece.offsets, ()
        return (
            [id for piece in self.pieces for id in piece.ids()],
            [(len(piece.offsets), piece.position) for piece in self.pieces],
            [offset for piece in self.pieces for offset in piece.offsets],
            (),
        )

    def batch(self, presentation: Presentation, origin: str) -> Batch:
        """The request's content; `origin` begins the output id of every event of the topic."""
        if self.parked:
            return self._parked_batch(presentation, origin)
        if self.events == 1:
            return self._single(presentation, origin)
        versions = set().union(*(piece.versions() for piece in self.pieces))
        return Batch(
            presentation.subscription,
            _array([piece.body() for piece in self.pieces]),
            self.events,
            0,
            versions.pop() if presentation.versioned and len(versions) == 1 else None,
            None,
            presentation.form,
            self.headers,
            self._traces(),
        )

    def _single(self, presentation: Presentation, origin: str) -> Batch:
        """The content of most requests: one fresh event."""
        piece = self.pieces[0]
        offset, segment = piece.offsets[0], piece.segment
        body = segment.event(offset)
        return Batch(
            presentation.subscription,
            body if presentation.bare else b"[%b]" % body,
            1,
            0,
            segment.versions[segment.version_of[offset]] if presentation.versioned else None,
            output_id(origin, piece.position, offset),
            presentation.form,
            self.headers,
            (segment.traces[offset],) if offset in segment.traces else (),
        )

    def _traces(self) -> tuple[str, ...]:
        """The traceparents of fresh events that are traced, few of them."""
        for piece in self.pieces:
            if piece.segment.traces:
                break
        else:
            return ()
        found = (piece.segment.traces.get(i, "") for piece in self.pieces for i in piece.offsets)
        return tuple(islice(filter(None, found), limits.TRACED_EVENTS))

    def _parked_batch(self, presentation: Presentation, origin: str) -> Batch:
        body = b",".join([presentation.body(delivery.body) for delivery in self.parked])
        versions: set[str] = set()
        if presentation.versioned:
            versions = {_data_version(delivery.body) for delivery in self.parked}
        return Batch(
            presentation.subscription,
            body if presentation.bare else b"[%b]" % body,
            self.events,
            min(delivery.attempts for delivery in self.parked),
            versions.pop() if len(versions) == 1 else None,
            output_id(origin, *self.parked[0].identity) if self.events == 1 else None,
            presentation.form,
            self.headers,
            tuple(islice((delivery.trace for delivery in self.parked if delivery.trace), limits.TRACED_EVENTS)),
        )


def _array(parts: Sequence[memoryview | bytes]) -> bytes:
    """A JSON array of what is in the parts, copied but once."""
    pieces: list[memoryview | bytes] = [b","] * (2 * len(parts) + 1)
    pieces[0], pieces[1::2], pieces[-1] = b"[", parts, b"]"
    return b"".join(pieces)


class Flight(msgspec.Struct, eq=False):
    """One request on its way. `settled` are deliveries that an earlier attempt's late answer settled meanwhile."""

    load: Load
    size: int
    sent_at: int
    probe: bool
    late: bool = False
    settled: set[Identity] = msgspec.field(default_factory=set)
    exchange: Exchange | None = None

    def __repr__(self) -> str:
        return f"<Flight of {self.load.events} events, {self.size} bytes, sent at {self.sent_at}>"


class _Versioned(msgspec.Struct):
    dataVersion: str = ""  # the wire's name


_decode_version = msgspec.json.Decoder(_Versioned).decode


def _data_version(body: bytes) -> str:
    return _decode_version(body).dataVersion


def id_origin(log_id: str, topic: int) -> str:
    """What the output ids of a topic's events begin with: three groups of a GUID."""
    hex = blake2b(f"{log_id}/{topic}".encode(), digest_size=8).hexdigest()
    return f"{hex[:8]}-{hex[8:12]}-{hex[12:]}"


def output_id(origin: str, position: int, offset: int) -> str:
    """A GUID that stays with the event through all its attempts: the origin and the event's place."""
    return f"{origin}-{offset:04x}-{position:012x}"
