"""Exchanges that were given up at 30 seconds and still listen, up to 180 seconds from sending: late answers.

They hold no slot and no window; they are capped for the whole process, and the oldest is cut when there are too many.
"""

from collections import OrderedDict

from recapito.dispatch.lane.in_flight import Flight
from recapito.domain import limits


class LateExchanges:
    """Flights that timed out, oldest first."""

    def __init__(self, count: int = limits.LATE_EXCHANGES, size: int = limits.LATE_EXCHANGE_BYTES) -> None:
        self._count = count
        self._size = size
        self._bytes = 0
        self._flights: OrderedDict[Flight, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._flights)

    def add(self, flight: Flight) -> None:
        """Let a flight that timed out go on listening."""
        self._flights[flight] = None
        self._bytes += flight.size
        while len(self._flights) > self._count or self._bytes > self._size:
            self._cut(next(iter(self._flights)))

    def remove(self, flight: Flight) -> None:
        """It answered, or its lane is gone."""
        if flight in self._flights:
            del self._flights[flight]
            self._bytes -= flight.size

    def cut_expired(self, now: int) -> None:
        """Abort those that have been listened to for 180 seconds."""
        while self._flights:
            oldest = next(iter(self._flights))
            if oldest.sent_at + limits.LATE_ANSWER_WAIT_NS > now:
                return
            self._cut(oldest)

    def next_instant(self) -> int | None:
        """When the oldest is to be cut. Flights time out in the order of sending, so the first is the oldest."""
        for flight in self._flights:
            return flight.sent_at + limits.LATE_ANSWER_WAIT_NS
        return None

    def _cut(self, flight: Flight) -> None:
        self.remove(flight)
        if flight.exchange is not None:
            flight.exchange.abort()
