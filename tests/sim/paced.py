"""Checks of the limits that an operator sets for a subscription, from the requests alone, without reading the lane.

A limit counts from `NEWS_S` after the answer to its request, in a calm service; until then the one before it may be in
force. A new life of the lane knows of no request before it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from recapito.domain import limits
from recapito.domain.instant import SECOND
from recapito.domain.resources.delivery_options import DeliveryOptions
from tests.sim.endpoints import Arrival

if TYPE_CHECKING:
    from tests.sim.facts import Watched
    from tests.sim.oracle import Oracle

NEWS_S = 30.0
BURST_S = 2.0  # in any N seconds at most N + 2 seconds' worth of events go out
ROUNDING = 0.01
ANSWER_S = 1.0  # a healthy endpoint answers, and its answer is stored, within this time


class PaceWatch:
    """The requests of one lane that may still be in flight, and how far its events are ahead of their rate."""

    def __init__(self) -> None:
        self._open: list[Arrival] = []
        self._sent: list[tuple[float, int]] = []
        self._ahead = 0.0  # the most events, over all windows that end now, beyond what the rate gives in them
        self._since: tuple[float, int, int] = (inf, 0, 0)  # the rate, the life of the lane and the instant of `_ahead`

    def sent(self, arrival: Arrival, now_s: float) -> None:
        """A request goes out."""
        oldest = arrival.sent_at - limits.ANSWER_WAIT_NS
        self._open = [each for each in self._open if _in_flight(each, arrival.epoch, oldest)]
        self._open.append(arrival)
        self._sent.append((now_s, len(arrival.events)))

    def in_flight(self) -> int:
        """The requests in flight, the last one included."""
        return len(self._open)

    def burst(self, rate: float, arrival: Arrival) -> float:
        """The most events of a window that ends with this request, beyond what the rate gives in that window."""
        before, epoch, at = self._since
        same = rate == before and epoch == arrival.epoch
        left = max(self._ahead - rate * (arrival.sent_at - at) / SECOND, 0.0) if same else 0.0
        self._ahead, self._since = left + len(arrival.events), (rate, arrival.epoch, arrival.sent_at)
        return self._ahead

    def forget(self) -> None:
        """The rate in force is unknown: windows begin anew."""
        self._since = (inf, 0, 0)

    def events_since(self, time_s: float) -> int:
        """The events that were sent since then."""
        return sum(events for at, events in self._sent if at >= time_s)


def check_limits(oracle: Oracle, lane: Watched, arrival: Arrival) -> None:
    """A request goes out within the limits of its subscription."""
    lane.pace.sent(arrival, oracle.time_s())
    options = _in_force(oracle, lane)
    if not options:
        lane.pace.forget()
        return
    requests = max(each.max_requests or inf for each in options)
    if lane.pace.in_flight() > requests:
        said = f"{lane.pace.in_flight()} requests are in flight, {requests} are allowed"
        oracle.fail("limit", said, lane=lane.id, event=arrival.events[0].id)
    rate = max(each.events_per_second or inf for each in options)
    burst = 0.0 if rate == inf else lane.pace.burst(rate, arrival)
    if burst > BURST_S * rate + ROUNDING:
        said = f"{burst:.1f} events are sent ahead of {rate} a second"
        oracle.fail("limit", said, lane=lane.id, event=arrival.events[0].id)


def turns_s(lane: Watched, since_s: float) -> float:
    """How long a fresh event may have waited for the turns of those that were sent before it, under the limits.

    The rate may be in debt by a second's worth when the event comes.
    """
    options = [version.options for version in lane.versions]
    slowest = max((1 / each.events_per_second for each in options if each.events_per_second), default=0.0)
    answer = ANSWER_S if any(each.max_requests for each in options) else 0.0
    events = lane.pace.events_since(since_s)
    return events * (slowest + answer) + (BURST_S if slowest else 0.0)


def _in_force(oracle: Oracle, lane: Watched) -> list[DeliveryOptions]:
    """The options that may be in force now; none if that is unknown."""
    heard = oracle.clock.now() - int(NEWS_S * SECOND)
    known = [version for version, at in lane.acknowledged.items() if at <= heard]
    if not known or not oracle.calm(NEWS_S):
        return []
    return [version.options for version in lane.versions if version.version >= max(known)]


def _in_flight(arrival: Arrival, epoch: int, oldest: int) -> bool:
    unanswered = arrival.heard_at is None and arrival.aborted_at is None
    return unanswered and arrival.epoch == epoch and arrival.sent_at > oldest
