"""How fast a topic may be published to. A publish passes while the topic is not in debt, and may bring it into debt.

Unused rate is saved up for one second at most, so that even a publish larger than a second's worth passes in the end.
"""

from typing import NamedTuple

from recapito.domain.instant import SECOND


class Rate(NamedTuple):
    """What a topic may take in a second; 0 is no limit."""

    events: int = 0
    bytes: int = 0


class Meter(NamedTuple):
    """Until when the rate of a topic is spent, counted in events and in bytes."""

    events_until: int = 0
    bytes_until: int = 0

    def wait(self, now: int) -> int:
        """How long until a publish passes; 0 if one does now."""
        return max(0, self.events_until - now, self.bytes_until - now)

    def spend(self, rate: Rate, events: int, size: int, now: int) -> "Meter":
        """The meter after a publish that passes now."""
        return Meter(
            _spend(self.events_until, rate.events, events, now),
            _spend(self.bytes_until, rate.bytes, size, now),
        )


def _spend(until: int, per_second: int, amount: int, now: int) -> int:
    if not per_second:
        return 0
    return max(until, now - SECOND) + amount * SECOND // per_second
