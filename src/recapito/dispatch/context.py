"""What all lanes of a process share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from recapito.clock import Clock
from recapito.contracts.history import History
from recapito.contracts.sender import Sender
from recapito.dispatch.capacity import Gathering, Slots, Window
from recapito.dispatch.feed.segment_cache import Segments
from recapito.dispatch.lane.late_answers import LateExchanges
from recapito.domain import limits
from recapito.domain.capacity.volume_shares import Room
from recapito.domain.resources.subscription import Destination
from recapito.observability.diagnostics import DiagnosticLog
from recapito.observability.journal import Journal
from recapito.observability.status import Gauge


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
