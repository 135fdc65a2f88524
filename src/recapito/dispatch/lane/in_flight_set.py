"""The requests of one lane that are under way and within their 30 seconds."""

from collections.abc import Iterator

from recapito.dispatch.capacity import Slots
from recapito.dispatch.lane.in_flight import InFlight
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId


class InFlightSet:
    """Oldest first. A flight takes a slot of the process when it starts and gives it back when it lands."""

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
        """True when the bytes under way are as many as one lane may have."""
        return self._bytes >= limits.WINDOW_BYTES

    @property
    def probing(self) -> bool:
        """True while a probe is under way."""
        return self._probes > 0

    def ranges(self) -> int:
        """How many ranges of the log are under way."""
        return sum([len(request.pending.ranges) for request in self._in_flight])

    def start(self, request: InFlight) -> None:
        """A request goes out."""
        self._in_flight[request] = None
        self._bytes += request.size
        self._probes += request.probe
        self._slots.take(request.size)
        if request.pending.parked:
            self._carried_by.update((delivery.identity, request) for delivery in request.pending.parked)

    def land(self, request: InFlight) -> None:
        """A request is answered, or given up."""
        del self._in_flight[request]
        self._bytes -= request.size
        self._probes -= request.probe
        self._slots.give_back(request.size)
        if request.pending.parked:
            for delivery in request.pending.parked:
                self._carried_by.pop(delivery.identity, None)

    def cut_all(self) -> list[InFlight]:
        """Abort everything; what was under way."""
        in_flight = list(self._in_flight)
        for request in in_flight:
            self.land(request)
            if request.exchange is not None:
                request.exchange.abort()
        return in_flight

    def overdue(self, now: int) -> InFlight | None:
        """A flight that has waited 30 seconds, if there is one."""
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
        """A late answer delivered it: the retry that is on the wire finishes, and its outcome counts for nothing."""
        if identity in self._carried_by:
            self._carried_by[identity].settled.add(identity)
