"""What all lanes of a process share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from recapito.clock import Clock
from recapito.diagnostics import DiagnosticLog
from recapito.dispatch.late import LateExchanges
from recapito.dispatch.segments import Segments
from recapito.dispatch.window import Gathering, Slots, Window
from recapito.domain import limits
from recapito.domain.room import Room
from recapito.domain.subscription import Destination
from recapito.history import History
from recapito.sender import Sender
from recapito.status import Gauge
from recapito.telemetry import Journal


@dataclass(frozen=True)
class Equipment:
    """`random` gives a number in [0, 1) for jitter; `extra_fields` are those of dead-letter records.

    Without a `history` attempts are not recorded; without `room` there is always enough.
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
    gathering: Gathering = field(default_factory=partial(Gathering, limits.GATHERED_ROWS))
    retrying: Gathering = field(default_factory=partial(Gathering, limits.GATHERED_BYTES))
    window: Callable[[], Window] = Window
    commit_bytes: int = limits.COMMIT_BYTES
    gauge: Gauge = field(default_factory=Gauge)
    diagnostics: DiagnosticLog | None = None
    room: Callable[[], Room] | None = None
    resource_ids: dict[int, str] = field(default_factory=dict)  # of topics
