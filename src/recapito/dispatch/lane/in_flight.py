"""Requests on their way and the deliveries they carry: built, counted against slots and windows, listened to late.

The deliveries of fresh events are made from segments only when the request fails: a success needs their number alone.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from recapito.contracts.sender import Exchange
from recapito.dispatch.capacity import Slots
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Range
from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.delivery.signature import Signing, message_id
from recapito.domain.events.passed import joined, waymark
from recapito.domain.events.segment import Segment, id_of
from recapito.domain.resources.delivery_options import signing_name


class SegmentSlice(msgspec.Struct, frozen=True, gc=False):
    """Events of one segment that go into one batch."""

    position: int
    segment: Segment
    offsets: Sequence[int]

    def body(self) -> memoryview | bytes:
        """The events, joined by commas; neighbours are one slice of the segment, without a copy."""
        first, last = self.offsets[0], self.offsets[-1]
        if last - first + 1 == len(self.offsets):
            return memoryview(self.segment.body)[self.segment.start(first) : self.segment.ends[last]]
        return b",".join([self.segment.event(i) for i in self.offsets])

    def delivery(self, i: int) -> Delivery:
        """The delivery of one of the events, before its first attempt."""
        segment = self.segment
        trace, passed = segment.traces.get(i, ""), segment.passed[i] if segment.passed else ""
        identity = DeliveryId(self.position, i)
        return Delivery(identity, segment.published_at[i], segment.stored(i), trace=trace, passed=passed)

    def ids(self) -> Sequence[str]:
        first, last = self.offsets[0], self.offsets[-1]
        if self.segment.ids and last - first + 1 == len(self.offsets):
            return self.segment.ids[first : last + 1]
        return [self.segment.id(i) for i in self.offsets]

    def passed(self) -> set[str]:
        """The waymarks of the topics that its events came by, as texts."""
        return {self.segment.passed[i] for i in self.offsets} if self.segment.passed else set()

    def versions(self) -> set[str]:
        if len(self.segment.versions) == 1:
            return {self.segment.versions[0]}
        return {self.segment.versions[self.segment.version_of[i]] for i in self.offsets}


# The events of a batch in columns, as an Attempt has them: ids, runs of positions, offsets, numbers of attempts.
EventColumns = tuple[Sequence[str], Sequence[tuple[int, int]], Sequence[int], Sequence[int]]


class PendingBatch(msgspec.Struct, eq=False):
    """The content of one request: either ascending ranges of the log, or deliveries that were parked.

    There is more than one range where events with other headers, or events that are taken already, lie between.
    `fresh`: the ledger has no rows of these deliveries yet; `expired`: they are past their time to live. The segments
    of `slices` are in the schema that is sent; deliveries have the events as they are stored. A batch with `damaged`
    events has no others: they are the first ones of its range, and are never sent.
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
        return bool(self.ranges)

    @property
    def first_attempts(self) -> int:
        """The number of its events that were never tried before."""
        return self.events if self.fresh else sum(not delivery.attempts for delivery in self.parked)

    def deliveries(self) -> list[Delivery]:
        """The deliveries, as they are before this attempt."""
        if self.parked:
            return list(self.parked)
        return [segment_slice.delivery(i) for segment_slice in self.slices for i in segment_slice.offsets]

    def columns(self) -> EventColumns:
        """The events, and the number of this attempt for each."""
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
        """The request's body and headers; `origin` begins the output id of every event of the topic."""
        batch = self._unsigned(delivery_format, origin)
        if delivery_format.forwards:
            return replace(batch, passed=joined(self._passed(), origin.replace("-", "")), output_id=None)
        if not delivery_format.signing:
            return batch
        lane = delivery_format.lane
        id = message_id(lane, origin, self._identities())
        return replace(batch, signing=Signing(id, signing_name(lane), delivery_format.signing))

    def _passed(self) -> set[str]:
        if self.parked:
            return {delivery.passed for delivery in self.parked}
        return set().union(*(segment_slice.passed() for segment_slice in self.slices))

    def _identities(self) -> list[DeliveryId]:
        if self.parked:
            return [delivery.identity for delivery in self.parked]
        return [DeliveryId(part.position, offset) for part in self.slices for offset in part.offsets]

    def _unsigned(self, delivery_format: DeliveryFormat, origin: str) -> Batch:
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
        """The most common request: one fresh event."""
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
        """The traceparents of the fresh events that are traced, TRACED_EVENTS at most."""
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
    """A JSON array of the parts, which are copied once."""
    slices: list[memoryview | bytes] = [b","] * (2 * len(parts) + 1)
    slices[0], slices[1::2], slices[-1] = b"[", parts, b"]"
    return b"".join(slices)


class InFlight(msgspec.Struct, eq=False):
    """One request on its way. `settled`: deliveries that a late answer to an earlier attempt settled meanwhile."""

    pending: PendingBatch
    size: int
    sent_at: int
    probe: bool
    late: bool = False
    settled: set[DeliveryId] = msgspec.field(default_factory=set)
    exchange: Exchange | None = None

    def __repr__(self) -> str:
        return f"<InFlight with {self.pending.events} events, {self.size} bytes, sent at {self.sent_at}>"


class InFlightSet:
    """The requests of one lane that are within their 30 seconds, oldest first.

    A request takes a slot of the process when it starts and gives it back when it lands.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._in_flight: dict[InFlight, None] = {}
        self._carried_by: dict[DeliveryId, InFlight] = {}
        self._bytes = 0
        self._probes = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, request: InFlight) -> bool:
        return request in self._in_flight

    def __iter__(self) -> Iterator[InFlight]:
        return iter(self._in_flight)

    @property
    def full(self) -> bool:
        """True when the lane has as many bytes under way as one lane may have."""
        return self._bytes >= limits.WINDOW_BYTES

    @property
    def probing(self) -> bool:
        return self._probes > 0

    def ranges(self) -> int:
        """The number of ranges of the log that are under way."""
        return sum([len(request.pending.ranges) for request in self._in_flight])

    def start(self, request: InFlight) -> None:
        self._in_flight[request] = None
        self._bytes += request.size
        self._probes += request.probe
        self._slots.take(request.size)
        if request.pending.parked:
            self._carried_by.update((delivery.identity, request) for delivery in request.pending.parked)

    def land(self, request: InFlight) -> None:
        """A request is answered, or given up after 30 seconds."""
        del self._in_flight[request]
        self._bytes -= request.size
        self._probes -= request.probe
        self._slots.give_back(request.size)
        if request.pending.parked:
            for delivery in request.pending.parked:
                self._carried_by.pop(delivery.identity, None)

    def cut_all(self) -> list[InFlight]:
        """Abort all requests, and return them."""
        in_flight = list(self._in_flight)
        for request in in_flight:
            self.land(request)
            if request.exchange is not None:
                request.exchange.abort()
        return in_flight

    def overdue(self, now: int) -> InFlight | None:
        """A request that has waited 30 seconds, if there is one."""
        oldest = next(iter(self._in_flight), None)
        return oldest if oldest is not None and oldest.sent_at + limits.ANSWER_WAIT_NS <= now else None

    def next_instant(self) -> int | None:
        """When the oldest has waited 30 seconds."""
        oldest = next(iter(self._in_flight), None)
        return None if oldest is None else oldest.sent_at + limits.ANSWER_WAIT_NS

    def retries_on_wire(self) -> set[DeliveryId]:
        """The parked deliveries that are being tried again."""
        return set(self._carried_by)

    def settle_elsewhere(self, identity: DeliveryId) -> None:
        """A late answer delivered it: the retry on the wire ends, and its outcome counts for nothing."""
        if identity in self._carried_by:
            self._carried_by[identity].settled.add(identity)


class LateAnswers:
    """Requests of all lanes that timed out at 30 seconds and are listened to until 180 seconds after sending.

    They hold no slot and no window; their number and bytes are bounded, and the oldest is aborted when there are more.
    """

    def __init__(self, count: int = limits.LATE_EXCHANGES, size: int = limits.LATE_EXCHANGE_BYTES) -> None:
        self._count = count
        self._size = size
        self._bytes = 0
        self._requests: OrderedDict[InFlight, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: InFlight) -> None:
        self._requests[request] = None
        self._bytes += request.size
        while len(self._requests) > self._count or self._bytes > self._size:
            self._cut(next(iter(self._requests)))

    def remove(self, request: InFlight) -> None:
        """The request was answered, or its lane is gone."""
        if request in self._requests:
            del self._requests[request]
            self._bytes -= request.size

    def cut_expired(self, now: int) -> None:
        """Abort the requests that were sent 180 seconds ago."""
        while self._requests:
            oldest = next(iter(self._requests))
            if oldest.sent_at + limits.LATE_ANSWER_WAIT_NS > now:
                return
            self._cut(oldest)

    def next_instant(self) -> int | None:
        """When the oldest is to be aborted. Requests time out in the order of sending, so the first is the oldest."""
        for request in self._requests:
            return request.sent_at + limits.LATE_ANSWER_WAIT_NS
        return None

    def _cut(self, request: InFlight) -> None:
        self.remove(request)
        if request.exchange is not None:
            request.exchange.abort()


class _Versioned(msgspec.Struct):
    dataVersion: str = ""  # the wire's name


_decode_version = msgspec.json.Decoder(_Versioned).decode


def _data_version(body: bytes) -> str:
    return _decode_version(body).dataVersion


def id_origin(log_id: str, topic: int) -> str:
    """The beginning of the output ids of a topic's events: three groups of a GUID."""
    hex = waymark(log_id, topic)
    return f"{hex[:8]}-{hex[8:12]}-{hex[12:]}"


def output_id(origin: str, position: int, offset: int) -> str:
    """A GUID that stays with the event through all its attempts: the origin and the event's place."""
    return f"{origin}-{offset:04x}-{position:012x}"
