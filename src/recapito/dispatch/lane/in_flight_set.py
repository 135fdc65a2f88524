"""The requests of one lane that are under way and within their 30 seconds."""

from collections.abc import Iterator

from recapito.dispatch.capacity import Slots
from recapito.dispatch.lane.in_flight import Flight
from recapito.domain import limits
from recapito.domain.delivery.delivery import Identity


class Flights:
    """Oldest first. A flight takes a slot of the process when it starts and gives it back when it lands."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._flights: dict[Flight, None] = {}
        self._carried_by: dict[Identity, Flight] = {}
        self._bytes = 0
        self._probes = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, flight: Flight) -> bool:
        return flight in self._flights

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights)

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
        return sum([len(flight.load.ranges) for flight in self._flights])

    def start(self, flight: Flight) -> None:
        """A request goes out."""
        self._flights[flight] = None
        self._bytes += flight.size
        self._probes += flight.probe
        self._slots.take(flight.size)
        if flight.load.parked:
            self._carried_by.update((delivery.identity, flight) for delivery in flight.load.parked)

    def land(self, flight: Flight) -> None:
        """A request is answered, or given up."""
        del self._flights[flight]
        self._bytes -= flight.size
        self._probes -= flight.probe
        self._slots.give_back(flight.size)
        if flight.load.parked:
            for delivery in flight.load.parked:
                self._carried_by.pop(delivery.identity, None)

    def cut_all(self) -> list[Flight]:
        """Abort everything; what was under way."""
        flights = list(self._flights)
        for flight in flights:
            self.land(flight)
            if flight.exchange is not None:
                flight.exchange.abort()
        return flights

    def overdue(self, now: int) -> Flight | None:
        """A flight that has waited 30 seconds, if there is one."""
        oldest = next(iter(self._flights), None)
        return oldest if oldest is not None and oldest.sent_at + limits.ANSWER_WAIT_NS <= now else None

    def next_instant(self) -> int | None:
        """When the oldest has waited 30 seconds."""
        oldest = next(iter(self._flights), None)
        return None if oldest is None else oldest.sent_at + limits.ANSWER_WAIT_NS

    def retries_on_wire(self) -> set[Identity]:
        """The parked deliveries that are being tried again."""
        return set(self._carried_by)

    def settle_elsewhere(self, identity: Identity) -> None:
        """A late answer delivered it: the retry that is on the wire finishes, and its outcome counts for nothing."""
        if identity in self._carried_by:
            self._carried_by[identity].settled.add(identity)
