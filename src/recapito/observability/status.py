"""The status of dispatch, which it sends to intake once a second with its heartbeat; intake's API shows it.

Cumulative counters may be late or lost. `unmatched` is a delta: dispatch keeps it until the datagram is sent, and
intake adds it up.
"""

from collections.abc import Mapping

import msgspec

from recapito.clock import Clock
from recapito.domain import limits
from recapito.domain.histogram import SECONDS, SIZES, Histogram, histogram
from recapito.domain.instant import MILLISECOND, SECOND

LOOK_NS = 100 * MILLISECOND


class Gauge(msgspec.Struct):
    """Measurements of a process: the time and size of its commits, and the delay of its event loop."""

    commit_seconds: Histogram = msgspec.field(default_factory=lambda: histogram(SECONDS))
    commit_size: Histogram = msgspec.field(default_factory=lambda: histogram(SIZES))
    loop_delay_seconds: Histogram = msgspec.field(default_factory=lambda: histogram(SECONDS))

    def committed(self, took_ns: int, size: int) -> None:
        """Count a commit that took `took_ns`; `size` is in the units of `SIZES`."""
        self.commit_seconds.observe(took_ns / SECOND)
        self.commit_size.observe(size)

    async def watch_loop(self, wall: Clock) -> None:
        """Measure, forever, how late the event loop wakes a task; ten times a second."""
        while True:
            when = wall.now() + LOOK_NS
            await wall.sleep_until(when)
            self.loop_delay_seconds.observe((wall.now() - when) / SECOND)


class BusyLane(msgspec.Struct, frozen=True, array_like=True):
    """A lane with open requests: the size of its window, and the number of its requests."""

    id: int
    window: int
    open: int


class Status(msgspec.Struct, frozen=True):
    """Dispatch at one moment. `requests` counts those sent since its start; `stopped` has the reason of each lane.

    `blocked` counts lanes that send nothing because the results of their last requests cannot be stored. `refused` has
    the names of lanes that keep their events because the endpoint refuses this server.
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
    refused: dict[int, str] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Status).decode


def to_bytes(status: Status) -> bytes:
    return _encode(status)


class DispatchStatus:
    """Dispatch as intake knows it: the last status, and the events that no lane matched, added up by topic."""

    def __init__(self) -> None:
        self.last: Status | None = None
        self._unmatched: dict[int, int] = {}

    def update(self, status: Status) -> bool:
        """Take a new status, and return True: it has arrived."""
        self.last = status
        for topic, events in status.unmatched.items():
            if topic in self._unmatched or len(self._unmatched) < limits.TALLIES:
                self._unmatched[topic] = self._unmatched.get(topic, 0) + events
        return True

    def update_from(self, content: bytes) -> None:
        """Take a new status from a datagram; one of a single byte is only a wake-up."""
        if len(content) > 1:
            self.update(_decode(content))

    @property
    def stopped_lanes(self) -> Mapping[int, str]:
        """The lanes that have stopped, and why."""
        return {} if self.last is None else self.last.stopped

    def stopped(self, lane: int) -> str | None:
        """The reason why a lane has stopped; None if it runs."""
        return self.stopped_lanes.get(lane)

    def refused(self) -> str | None:
        """The subscriptions whose endpoint refuses this server, for a person to look at; None without any."""
        if self.last is None or not self.last.refused:
            return None
        names = list(self.last.refused.values())
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"the endpoint of {', '.join(names[:3])}{more} refuses this server: recapito top --failing shows why"

    def problem(self) -> str | None:
        """The reason why lanes send nothing; None if all may send."""
        if self.last is None or not self.last.blocked:
            return None
        return f"{self.last.blocked} subscriptions wait until what was delivered can be stored: is the disk full?"

    def unmatched(self, topic: int) -> int:
        """The number of events of a topic that no lane matched."""
        return self._unmatched.get(topic, 0)
