"""What dispatch tells intake about itself, once a second, so that one place can show all of it.

It travels with the heartbeat. What is counted up since the start of dispatch may be told late or not at all; what is
told only once (`unmatched`) is kept by the teller until it is on its way, and added up by who hears it.
"""

import msgspec

from recapito.clock import Clock
from recapito.domain import limits
from recapito.domain.histogram import SECONDS, SIZES, Histogram, histogram
from recapito.domain.instant import MILLISECOND, SECOND

LOOK_NS = 100 * MILLISECOND


class Gauge(msgspec.Struct):
    """How a process works: the time and size of its commits, and how late its event loop is."""

    commit_seconds: Histogram = msgspec.field(default_factory=lambda: histogram(SECONDS))
    commit_size: Histogram = msgspec.field(default_factory=lambda: histogram(SIZES))
    loop_delay_seconds: Histogram = msgspec.field(default_factory=lambda: histogram(SECONDS))

    def committed(self, took_ns: int, size: int) -> None:
        """A commit is stored."""
        self.commit_seconds.observe(took_ns / SECOND)
        self.commit_size.observe(size)

    async def watch_loop(self, wall: Clock) -> None:
        """See, for ever, how late the event loop wakes who asked to be woken."""
        while True:
            when = wall.now() + LOOK_NS
            await wall.sleep_until(when)
            self.loop_delay_seconds.observe((wall.now() - when) / SECOND)


class BusyLane(msgspec.Struct, frozen=True, array_like=True):
    """A lane with requests on the wire: how many it may have, and how many it has."""

    id: int
    window: int
    open: int


class Status(msgspec.Struct, frozen=True):
    """Dispatch at one moment. `requests` counts those sent since its start; `stopped` has the reasons of lanes.

    `blocked` are lanes that send nothing, for what became of their last requests can not be stored.
    """

    gauge: Gauge
    lanes: int = 0
    requests: int = 0
    open: int = 0
    open_bytes: int = 0
    late: int = 0
    busy: list[BusyLane] = []
    stopped: dict[int, str] = {}
    unmatched: dict[int, int] = {}
    blocked: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Status).decode


def to_bytes(status: Status) -> bytes:
    """As it travels."""
    return _encode(status)


class DispatchStatus:
    """What intake has heard of dispatch: the last status, and the events that no lane took, added up by topic."""

    def __init__(self) -> None:
        self.last: Status | None = None
        self._unmatched: dict[int, int] = {}

    def hear(self, status: Status) -> None:
        """A status has come."""
        self.last = status
        for topic, events in status.unmatched.items():
            if topic in self._unmatched or len(self._unmatched) < limits.TALLIES:
                self._unmatched[topic] = self._unmatched.get(topic, 0) + events

    def take(self, status: Status) -> bool:
        """As `hear`, for a teller who wants to know whether it was heard."""
        self.hear(status)
        return True

    def update_from(self, content: bytes) -> None:
        """A datagram has come; one that only knocks says nothing."""
        if len(content) > 1:
            self.hear(_decode(content))

    def stopped(self, lane: int) -> str | None:
        """Why a lane has stopped, if it has."""
        return None if self.last is None else self.last.stopped.get(lane)

    def problem(self) -> str | None:
        """Why dispatch stands still, in part or in whole."""
        if self.last is None or not self.last.blocked:
            return None
        return f"{self.last.blocked} subscriptions wait until what was delivered can be stored: is the disk full?"

    def unmatched(self, topic: int) -> int:
        """How many events of a topic no lane took."""
        return self._unmatched.get(topic, 0)
