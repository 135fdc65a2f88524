"""The clock of a server, by its settings."""

from recapito.clock import Clock, ClockOrigin, ManualClock, SystemClock
from recapito.settings.settings import Settings


def make_clock(settings: Settings, origin: ClockOrigin) -> Clock:
    """The clock that the settings name; processes of one server share its origin."""
    return ManualClock(origin.wall) if settings.clock.manual else SystemClock(origin, settings.clock.rate)
