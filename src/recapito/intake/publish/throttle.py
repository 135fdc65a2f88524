"""The rate limit of each topic: a publish beyond it is refused, with the time after which it would pass."""

from recapito.clock import Clock
from recapito.domain import limits
from recapito.domain.capacity import Meter, Rate
from recapito.domain.instant import SECOND
from recapito.errors import TooManyRequests
from recapito.intake.publish.publisher import Stats


class Throttle:
    """The meters of all topics. When there are too many, meters that owe no wait are forgotten."""

    def __init__(self, rate: Rate, clock: Clock, stats: Stats) -> None:
        self._rate = rate
        self._clock = clock
        self._stats = stats
        self._on = any(rate)
        self._meters: dict[int, Meter] = {}

    def __repr__(self) -> str:
        return f"<Throttle {self._rate.events} events/s, {self._rate.bytes} bytes/s>"

    def admit(self, topic: int, events: int, size: int) -> None:
        """Count a publish, or raise TooManyRequests."""
        if not self._on:
            return
        now = self._clock.now()
        meter = self._meters.get(topic, Meter())
        wait = meter.wait(now)
        if wait:
            self._stats.throttled += 1
            raise TooManyRequests("Publishes to this topic exceed its rate. Try again later.", -(-wait // SECOND))
        if len(self._meters) >= limits.TOPIC_CACHE:
            self._meters = {key: kept for key, kept in self._meters.items() if kept.wait(now)}
        self._meters[topic] = meter.spend(self._rate, events, size, now)
