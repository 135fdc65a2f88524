"""The answers of the operation API as typed values; each class names the module of `api/operate` that it mirrors.

The portal knows the server by HTTP alone, so it does not import those modules. Members that are absent from an answer
have empty values; members that are unknown here are ignored. So portal and server of neighbouring versions fit.
"""

from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A JSON object of the API."""


class ShownHold(Shape, frozen=True):
    """The hold of a subscription: its reason, its end and its period. Mirrors `hold` of `lanes`."""

    failures: int = 0
    until: str | None = None
    period_seconds: float = 0
    on: bool = False
    reason: str = ""


class ShownOptions(Shape, frozen=True):
    """Options of a subscription that Event Grid does not have. Mirrors `options` of a member of `lanes`."""

    signing_secrets: int = 0
    max_requests: int | None = None
    events_per_second: int | None = None


class ShownLane(Shape, frozen=True):
    """A subscription's state now, with its counts since its creation. Mirrors a member of `lanes`."""

    id: int = 0
    topic: str = ""
    topic_kind: str = "custom"
    domain_topic: str | None = None
    subscription: str = ""
    resource_id: str = ""
    endpoint_type: str = ""
    endpoint: str = ""
    provisioning_state: str = ""
    matched: int = 0
    unmatched: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    dropped: dict[str, int] = {}
    pending: int = 0
    parked: int = 0
    buried: int = 0
    unread: int = 0
    waiting: int = 0
    failed_attempts: dict[str, int] = {}
    answers: int = 0
    took_ms: float = 0
    failures_in_a_row: int = 0
    next_due_at: str | None = None
    hold: ShownHold | None = None
    options: ShownOptions = ShownOptions()
    stopped: str | None = None

    @property
    def failures(self) -> int:
        """Number of failed attempts."""
        return sum(self.failed_attempts.values())

    @property
    def expired(self) -> int:
        """Number of events dropped because their time to live was over."""
        return self.dropped.get("TimeToLiveExceeded", 0)

    @property
    def lost(self) -> int:
        """Number of events dropped, for any reason."""
        return sum(self.dropped.values())

    @property
    def state(self) -> tuple[str, str]:
        """A word for its state, and the tone of that word: good, wait or bad."""
        if self.stopped:
            return "Stopped", "bad"
        if self.provisioning_state == "AwaitingManualAction":
            return "Awaits consent", "wait"
        if self.provisioning_state == "Failed":
            return "No consent", "bad"
        if self.hold is not None and self.hold.on:
            return "Probation", "bad"
        if self.parked:
            return "Retrying", "wait"
        if self.failures_in_a_row:
            return "Failing", "bad"
        return "Healthy", "good"


class LanePage(Shape, frozen=True):
    """A page of subscriptions: `GET /lanes`, in `lanes`."""

    value: list[ShownLane] = []
    next: str | None = None
    now: str = ""


class ShownTotals(Shape, frozen=True):
    """The sums of all subscriptions: `GET /lanes/totals`, in `lane_totals`."""

    subscriptions: int = 0
    failing: int = 0
    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    backlog: int = 0
    now: str = ""


class SeriesBucket(Shape, frozen=True):
    """The attempts of one stretch of time. Mirrors a member of `series`."""

    at: str = ""
    delivered: int = 0
    failed: int = 0
    expired: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    answers: int = 0
    took_ms: float = 0

    def counts(self) -> dict[str, float]:
        """The numbers by the names of the lines."""
        return {
            "delivered": self.delivered,
            "failed": self.failed,
            "expired": self.expired,
            "dropped": self.dropped,
            "deadlettered": self.dead_lettered,
            "answers": self.answers,
            "took": self.took_ms,
        }


class SeriesAnswer(Shape, frozen=True):
    """Attempts counted by time: `GET /deliveries/series`, in `series`."""

    value: list[SeriesBucket] = []
    newest: int | str = 0
    complete: bool = True
    now: str = ""


class ShownCounts(Shape, frozen=True):
    """The counters of a topic. Mirrors a member of `topic_counts`."""

    topic: str = ""
    topic_kind: str = "custom"
    published: int = 0
    published_bytes: int = 0
    publish_failed: dict[str, int] = {}
    unmatched: int = 0
    subscriptions: int = 0

    @property
    def failures(self) -> int:
        """Number of failed publish requests."""
        return sum(self.publish_failed.values())


class CountsPage(Shape, frozen=True):
    """The counters of topics: `GET /counts`, in `topic_counts`."""

    value: list[ShownCounts] = []
    now: str = ""


class AttemptEvent(Shape, frozen=True):
    """One event of an attempt, and the decision about it. Mirrors `events` of `deliveries`."""

    id: str = ""
    attempt: int = 0
    then: str = ""
    due_at: str | None = None
    rule: str | None = None
    reason: str | None = None
    type: str = ""
    subject: str = ""


class ShownAttempt(Shape, frozen=True):
    """One request to an endpoint, and its outcome. Mirrors a member of `deliveries`."""

    mark: str = ""
    at: str = ""
    took_ms: float | None = None
    topic: str = ""
    subscription: str = ""
    outcome: str = ""
    status: int | None = None
    detail: str = ""
    probe: bool = False
    late: bool = False
    events: list[AttemptEvent] = []
    event_count: int = 1
    headers: "ShownHeaders | None" = None


class ShownHeaders(Shape, frozen=True):
    """The headers of a request and of its answer, without secrets. Mirrors `headers` of an explanation."""

    request: str = ""
    answer: str = ""


class HistoryKept(Shape, frozen=True):
    """The beginning of history, its attempts, and those that were not kept. Mirrors `kept` of `deliveries`."""

    since: str | None = None
    attempts: int = 0
    not_kept: int = 0


class Attempts(Shape, frozen=True):
    """A page of attempts, newest first: `GET /deliveries`, in `deliveries`."""

    value: list[ShownAttempt] = []
    next: str | None = None
    newest: str | None = None
    kept: HistoryKept = HistoryKept()
    now: str = ""


class DecidedBy(Shape, frozen=True):
    """The clause of a filter that decided. Mirrors `decidedBy` of an explanation."""

    clause: str = ""
    text: str = ""


class NextAttempt(Shape, frozen=True):
    """The next attempt, and the rule that set its time. Mirrors `next` of an explanation."""

    at: str = ""
    rule: str = ""
    text: str = ""


class ShownEnd(Shape, frozen=True):
    """The end of a delivery. Mirrors `end` of an explanation."""

    at: str | None = None
    reason: str | None = None
    where: str | None = None


class SubscriptionOutcome(Shape, frozen=True):
    """The delivery of one event to one subscription. Mirrors `subscriptions` of an explanation."""

    subscription: str = ""
    subscription_id: int | None = None
    topic: str = ""
    matched: bool | None = None
    decided_by: DecidedBy | None = None
    attempts: list[ShownAttempt] = []
    state: str = ""
    state_text: str = ""
    next: NextAttempt | None = None
    expires_at: str | None = None
    ttl_left_seconds: float | None = None
    attempts_left: int | None = None
    end: ShownEnd | None = None


class ShownExplanation(Shape, frozen=True):
    """The explanation of an event: `GET` and `POST /deliveries/explain`, in `deliveries`."""

    event: dict[str, Any] | None = None
    note: str | None = None
    subscriptions: list[SubscriptionOutcome] = []
    now: str = ""


class ShownDeadLetter(Shape, frozen=True):
    """A dead letter without its event. Mirrors a member of `dead_letters`."""

    name: str = ""
    topic: str = ""
    subscription: str = ""
    path: str = ""
    reason: str = ""
    event_id: str | None = None
    event_type: str | None = None
    subject: str | None = None
    delivery_attempts: int | None = None
    last_delivery_outcome: str | None = None
    publish_time: str | None = None
    redriven: dict[str, Any] | None = None
    container: str = ""


class DeadLetterPage(Shape, frozen=True):
    """A page of dead letters: `GET /deadletters`, in `dead_letters`."""

    value: list[ShownDeadLetter] = []
    problems: list[str] = []
    next: str | None = None


class ShownProgress(Shape, frozen=True):
    """The result of one page of work: `POST /deadletters/redrive` and `purge`, in `dead_letters`."""

    selected: int = 0
    done: int = 0
    refused: int = 0
    kept: int = 0
    problems: list[str] = []
    next: str | None = None
    missing_partitions: list[int] = []


class ClockNow(Shape, frozen=True):
    """The server's clock: `GET /clock`, in `health`."""

    now: str = ""
    mode: str = "system"

    @property
    def manual(self) -> bool:
        """True when it stands still until it is moved."""
        return self.mode == "manual"


class ShownMove(Shape, frozen=True):
    """The counts of a move of the clock: `POST /clock/advance`, in `health`."""

    now: str = ""
    attempts: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    pending: int = 0


class Readiness(Shape, frozen=True):
    """The readiness of the server, by part: `GET /readyz`, in `health`."""

    status: str = ""
    checks: dict[str, str] = {}
