"""Exchanges that were given up at 30 seconds and still listen, up to 180 seconds from sending: late answers.

They hold no slot and no window; they are capped for the whole process, and the oldest is cut when there are too many.
"""

from collections import OrderedDict

from recapito.dispatch.lane.in_flight import InFlight
from recapito.domain import limits


class LateAnswers:
    """Flights that timed out, oldest first."""

    def __init__(self, count: int = limits.LATE_EXCHANGES, size: int = limits.LATE_EXCHANGE_BYTES) -> None:
        self._count = count
        self._size = size
        self._bytes = 0
        self._in_flight: OrderedDict[InFlight, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._in_flight)

    def add(self, request: InFlight) -> None:
        """Let a flight that timed out go on listening."""
        self._in_flight[request] = None
        self._bytes += request.size
        while len(self._in_flight) > self._count or self._bytes > self._size:
            self._cut(next(iter(self._in_flight)))

    def remove(self, request: InFlight) -> None:
        """It answered, or its lane is gone."""
        if request in self._in_flight:
            del self._in_flight[request]
            self._bytes -= request.size

    def cut_expired(self, now: int) -> None:
        """Abort those that have been listened to for 180 seconds."""
        while self._in_flight:
            oldest = next(iter(self._in_flight))
            if oldest.sent_at + limits.LATE_ANSWER_WAIT_NS > now:
                return
            self._cut(oldest)

    def next_instant(self) -> int | None:
        """When the oldest is to be cut. Flights time out in the order of sending, so the first is the oldest."""
        for request in self._in_flight:
            return request.sent_at + limits.LATE_ANSWER_WAIT_NS
        return None

    def _cut(self, request: InFlight) -> None:
        self.remove(request)
        if request.exchange is not None:
            request.exchange.abort()
