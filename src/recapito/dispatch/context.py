"""The parts that all lanes of a process share."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from recapito.clock import Clock
from recapito.contracts.history import History
from recapito.contracts.sender import Sender
from recapito.dispatch.capacity import CommitBudget, Slots, Window
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.domain import limits
from recapito.domain.capacity import Room
from recapito.domain.resources.destination import Destination
from recapito.observability.diagnostics import DiagnosticLog
from recapito.observability.journal import Journal
from recapito.observability.status import Gauge


@dataclass(frozen=True)
class DispatchContext:
    """Handed to every lane.

    - `sender`, `segments`, `slots`, `late`: where requests go, entries come from, and what bounds both.
    - `random`: returns a number in [0, 1) for jitter.
    - `extra_fields`: dead-letter records get fields that Event Grid's do not have.
    - `history`: None records no attempts; `diagnostics`: None writes no diagnostic log.
    - `commit_budget`, `retry_budget`: rows staged for commits, and bytes of retries in memory, of all lanes together.
    - `window`: makes the window of a new lane; `commit_bytes`: the most that one commit settles.
    - `tail_entries`: the entries that the tail index of a topic knows.
    - `room`: the room that the volume has; None: always enough.
    - `no_trimming`: a context in which the log is not trimmed; it yields False if a trim or a backup is under way.
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
    tail_entries: int = limits.TAIL_ENTRIES
    gauge: Gauge = field(default_factory=Gauge)
    diagnostics: DiagnosticLog | None = None
    room: Callable[[], Room] | None = None
    no_trimming: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True)
