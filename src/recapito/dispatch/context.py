"""What all lanes of a process share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from recapito.clock import Clock
from recapito.contracts.history import History
from recapito.contracts.sender import Sender
from recapito.dispatch.capacity import CommitBudget, Slots, Window
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.late_answers import LateAnswers
from recapito.domain import limits
from recapito.domain.capacity.volume_shares import Room
from recapito.domain.resources.destination import Destination
from recapito.observability.diagnostics import DiagnosticLog
from recapito.observability.journal import Journal
from recapito.observability.status import Gauge


@dataclass(frozen=True)
class DispatchContext:
    """`random` gives a number in [0, 1) for jitter; `extra_fields` are those of dead-letter records.

    Without a `history` attempts are not recorded; without `room` there is always enough.
    """

    log_id: str
    clock: Clock
    sender: Sender[Destination]
    segments: SegmentCache
    slots: Slots
    late: LateAnswers
    random: Callable[[], float]
    journal: Journal
    extra_fields: bool = False
    history: History | None = None
    commit_budget: CommitBudget = field(default_factory=partial(CommitBudget, limits.GATHERED_ROWS))
    retry_budget: CommitBudget = field(default_factory=partial(CommitBudget, limits.GATHERED_BYTES))
    window: Callable[[], Window] = Window
    commit_bytes: int = limits.COMMIT_BYTES
    gauge: Gauge = field(default_factory=Gauge)
    diagnostics: DiagnosticLog | None = None
    room: Callable[[], Room] | None = None
    resource_ids: dict[int, str] = field(default_factory=dict)  # of topics
