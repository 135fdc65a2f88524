"""The oracle's facts about one subscription, and the violations that it reports."""

from dataclasses import dataclass, field
from typing import NamedTuple

from recapito.contracts.ledger import Settlement
from recapito.domain.delivery.delivery import DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import Subscription
from tests.sim.books import Books
from tests.sim.endpoints import Arrival
from tests.sim.held import HoldWatch
from tests.sim.paced import PaceWatch
from tests.sim.replays import ReplayAsked

NOTICED_NS = 60 * SECOND  # so much later, on a slow disk too, a lane has seen a jump of time or another endpoint


@dataclass
class Violation:
    """An invariant that does not hold, and about what."""

    invariant: str
    message: str
    at: int
    lane: int | None = None
    event: str | None = None

    def __str__(self) -> str:
        about = "".join((f" lane {self.lane}" if self.lane else "", f" event {self.event}" if self.event else ""))
        return f"{self.invariant}{about}: {self.message}"


class Refusal(NamedTuple):
    """The events that an endpoint refuses whenever they come, by subject, and the status that it answers."""

    subjects: frozenset[str]
    status: int

    @property
    def blames_event(self) -> bool:
        """True when the answer says that the endpoint is well."""
        return self.status in (400, 413)


@dataclass(eq=False)
class Watched:
    """One subscription and its lane, as the oracle knows them. `epoch` changes whenever its lane loses its memory."""

    id: int
    topic: int
    books: Books
    versions: list[Subscription] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)  # version -> when its put was answered
    hold: HoldWatch = field(default_factory=HoldWatch)
    pace: PaceWatch = field(default_factory=PaceWatch)
    deleted_at: int | None = None
    rotten: bool = False  # its row in the ledger is damaged
    halted: bool = False  # its record, or its topic's, was damaged at some time
    epoch: int = 0
    settling: Settlement | None = None  # the last that was tried
    blocked: Settlement | None = None  # the last try failed, and the lane does not know yet whether it is stored
    settling_since: int = 0
    attempts: dict[tuple[DeliveryId, int], Arrival] = field(default_factory=dict)
    away_since: int | None = None  # since the first of the answers in a row by which its endpoint is away
    away_requests: int = 0
    away_life: int = 0
    repeated: dict[str, DeliveryId] = field(default_factory=dict)  # event -> its newest delivery, if not its first
    replay: ReplayAsked | None = None  # the last request to replay

    def start_hold(self, hold: Hold, now: int) -> None:
        """The lane begins from its stored hold; one that an operator asked to retry may end it at once."""
        self.hold.start(hold, now)
        if self.versions and self.now.options.retry_asked_at:
            self.hold.distrust(now + NOTICED_NS)

    def is_due(self, parked: Parked, now: int) -> bool:
        """Whether it is the turn of a parked delivery: its time has come, or an operator asked since its last attempt.

        The lane may take up a request that a later one has replaced.
        """
        tried_at = parked.delivery.last_attempt_at or 0
        return parked.due_at <= now or any(tried_at <= version.options.retry_asked_at for version in self.versions)

    @property
    def now(self) -> Subscription:
        """The subscription as it was last put."""
        return self.versions[-1]
