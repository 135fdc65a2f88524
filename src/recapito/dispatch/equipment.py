"""What all lanes of a process share."""

from collections.abc import Callable
from dataclasses import dataclass

from recapito.clock import Clock
from recapito.dispatch.late import LateExchanges
from recapito.dispatch.segments import Segments
from recapito.dispatch.window import Slots
from recapito.domain.subscription import Destination
from recapito.history import History
from recapito.sender import Sender
from recapito.telemetry import Journal


@dataclass(frozen=True)
class Equipment:
    """`random` gives a number in [0, 1) for jitter; `extra_fields` are those of dead-letter records.

    Without a `history` attempts are not recorded.
    """

    log_id: str
    clock: Clock
    sender: Sender[Destination]
    segments: Segments
    slots: Slots
    late: LateExchanges
    random: Callable[[], float]
    journal: Journal
    extra_fields: bool = False
    history: History | None = None
