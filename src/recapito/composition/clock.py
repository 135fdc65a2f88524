"""The clock of a server, by its settings, and the control that moves a manual one."""

from recapito.clock import SECOND, Clock, ClockOrigin, ManualClock, SystemClock
from recapito.composition.dispatch import Dispatch
from recapito.contracts.backend import Stores
from recapito.dispatch.clock_mover import ClockMover
from recapito.settings.settings import Settings


def make_clock(settings: Settings, origin: ClockOrigin) -> Clock:
    """The clock that the settings name; processes of one server share its origin."""
    return ManualClock(origin.wall) if settings.clock.manual else SystemClock(origin, settings.clock.rate)


def make_clock_control(settings: Settings, clock: Clock, dispatch: Dispatch, stores: Stores) -> ClockMover | None:
    """The control of a manual clock; None if the clock runs by itself."""
    if not isinstance(clock, ManualClock):
        return None
    patience = int(settings.clock.patience_s * SECOND)
    return ClockMover(clock, SystemClock(), dispatch.service, stores.ledger, patience, dispatch.late)
