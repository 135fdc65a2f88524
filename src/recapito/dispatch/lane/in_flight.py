"""A flight: one request on its way, and the deliveries it carries.

Deliveries of fresh events are made from the segments only when the request fails: a success needs their number alone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

import msgspec

from recapito.contracts.sender import Exchange
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Range
from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.events.segment import Segment, id_of


class SegmentSlice(msgspec.Struct, frozen=True, gc=False):
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
        return Delivery(DeliveryId(self.position, i), segment.published_at[i], segment.stored(i), trace=trace)

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
EventColumns = tuple[Sequence[str], Sequence[tuple[int, int]], Sequence[int], Sequence[int]]


class PendingBatch(msgspec.Struct, eq=False):
    """What a flight carries: either ranges of the log, ascending, or deliveries that were parked.

    There is more than one range where events with other headers, or what is taken already, lie between. `fresh`: the
    ledger has no rows of these deliveries yet; `expired`: they are past their time to live. The segments of its pieces
    are in the schema that is sent; the deliveries have the events as they are stored. A load of `damaged` events has
    nothing else: they are the first ones of its range.
    """

    slices: Sequence[SegmentSlice]
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
        return [segment_slice.delivery(i) for segment_slice in self.slices for i in segment_slice.offsets]

    def manifest(self) -> EventColumns:
        """Which events these are, and which attempt this is of each."""
        if self.parked:
            return (
                [id_of(delivery.body) for delivery in self.parked],
                [(1, delivery.identity.position) for delivery in self.parked],
                [delivery.identity.offset for delivery in self.parked],
                [delivery.attempts + 1 for delivery in self.parked],
            )
        if self.events == 1:
            segment_slice = self.slices[0]
            return (
                (segment_slice.segment.id(segment_slice.offsets[0]),),
                ((1, segment_slice.position),),
                segment_slice.offsets,
                (),
            )
        return (
            [id for segment_slice in self.slices for id in segment_slice.ids()],
            [(len(segment_slice.offsets), segment_slice.position) for segment_slice in self.slices],
            [offset for segment_slice in self.slices for offset in segment_slice.offsets],
            (),
        )

    def batch(self, delivery_format: DeliveryFormat, origin: str) -> Batch:
        """The request's content; `origin` begins the output id of every event of the topic."""
        if self.parked:
            return self._parked_batch(delivery_format, origin)
        if self.events == 1:
            return self._single(delivery_format, origin)
        versions = set().union(*(segment_slice.versions() for segment_slice in self.slices))
        return Batch(
            delivery_format.subscription,
            _array([segment_slice.body() for segment_slice in self.slices]),
            self.events,
            0,
            versions.pop() if delivery_format.versioned and len(versions) == 1 else None,
            None,
            delivery_format.form,
            self.headers,
            self._traces(),
        )

    def _single(self, delivery_format: DeliveryFormat, origin: str) -> Batch:
        """The content of most requests: one fresh event."""
        segment_slice = self.slices[0]
        offset, segment = segment_slice.offsets[0], segment_slice.segment
        body = segment.event(offset)
        return Batch(
            delivery_format.subscription,
            body if delivery_format.bare else b"[%b]" % body,
            1,
            0,
            segment.versions[segment.version_of[offset]] if delivery_format.versioned else None,
            output_id(origin, segment_slice.position, offset),
            delivery_format.form,
            self.headers,
            (segment.traces[offset],) if offset in segment.traces else (),
        )

    def _traces(self) -> tuple[str, ...]:
        """The traceparents of fresh events that are traced, few of them."""
        for segment_slice in self.slices:
            if segment_slice.segment.traces:
                break
        else:
            return ()
        found = (
            segment_slice.segment.traces.get(i, "") for segment_slice in self.slices for i in segment_slice.offsets
        )
        return tuple(islice(filter(None, found), limits.TRACED_EVENTS))

    def _parked_batch(self, delivery_format: DeliveryFormat, origin: str) -> Batch:
        body = b",".join([delivery_format.body(delivery.body) for delivery in self.parked])
        versions: set[str] = set()
        if delivery_format.versioned:
            versions = {_data_version(delivery.body) for delivery in self.parked}
        return Batch(
            delivery_format.subscription,
            body if delivery_format.bare else b"[%b]" % body,
            self.events,
            min(delivery.attempts for delivery in self.parked),
            versions.pop() if len(versions) == 1 else None,
            output_id(origin, *self.parked[0].identity) if self.events == 1 else None,
            delivery_format.form,
            self.headers,
            tuple(islice((delivery.trace for delivery in self.parked if delivery.trace), limits.TRACED_EVENTS)),
        )


def _array(parts: Sequence[memoryview | bytes]) -> bytes:
    """A JSON array of what is in the parts, copied but once."""
    slices: list[memoryview | bytes] = [b","] * (2 * len(parts) + 1)
    slices[0], slices[1::2], slices[-1] = b"[", parts, b"]"
    return b"".join(slices)


class InFlight(msgspec.Struct, eq=False):
    """One request on its way. `settled` are deliveries that an earlier attempt's late answer settled meanwhile."""

    pending: PendingBatch
    size: int
    sent_at: int
    probe: bool
    late: bool = False
    settled: set[DeliveryId] = msgspec.field(default_factory=set)
    exchange: Exchange | None = None

    def __repr__(self) -> str:
        return f"<Flight of {self.pending.events} events, {self.size} bytes, sent at {self.sent_at}>"


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
