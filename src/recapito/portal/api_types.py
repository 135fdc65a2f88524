"""What the server answers about deliveries, as typed values. What an answer does not have is empty, never an error."""

from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A JSON object of the API; members that are not known here are left aside."""


class Hold(Shape, frozen=True):
    """That a subscription is held back: why, until when, for how long."""

    failures: int = 0
    until: str | None = None
    period_seconds: float = 0
    on: bool = False
    reason: str = ""


class Lane(Shape, frozen=True):
    """A subscription as it is now, with its counts since it was made."""

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
    failed_attempts: dict[str, int] = {}
    answers: int = 0
    took_ms: float = 0
    next_due_at: str | None = None
    hold: Hold | None = None
    stopped: str | None = None

    @property
    def failures(self) -> int:
        """How many attempts failed."""
        return sum(self.failed_attempts.values())

    @property
    def expired(self) -> int:
        """How many events were dropped because their time was over."""
        return self.dropped.get("TimeToLiveExceeded", 0)

    @property
    def lost(self) -> int:
        """How many events were dropped, for whatever reason."""
        return sum(self.dropped.values())

    @property
    def state(self) -> tuple[str, str]:
        """How it is, in a word, and how bad that is: good, wait or bad."""
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
        return "Healthy", "good"


class Lanes(Shape, frozen=True):
    """A page of subscriptions."""

    value: list[Lane] = []
    next: str | None = None
    now: str = ""


class Count(Shape, frozen=True):
    """What a topic has counted."""

    topic: str = ""
    topic_kind: str = "custom"
    published: int = 0
    published_bytes: int = 0
    publish_failed: dict[str, int] = {}
    unmatched: int = 0
    subscriptions: int = 0

    @property
    def failures(self) -> int:
        """How many publish requests failed."""
        return sum(self.publish_failed.values())


class Counts(Shape, frozen=True):
    """The counts of topics."""

    value: list[Count] = []
    now: str = ""


class AttemptEvent(Shape, frozen=True):
    """One event of an attempt, and what was decided about it."""

    id: str = ""
    attempt: int = 0
    then: str = ""
    due_at: str | None = None
    rule: str | None = None
    reason: str | None = None


class Attempt(Shape, frozen=True):
    """One request to an endpoint, and how it ended."""

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


class Kept(Shape, frozen=True):
    """How far back attempts are kept."""

    since: str | None = None
    attempts: int = 0
    not_kept: int = 0


class Attempts(Shape, frozen=True):
    """A page of attempts, newest first."""

    value: list[Attempt] = []
    next: str | None = None
    newest: str | None = None
    kept: Kept = Kept()
    now: str = ""


class DecidedBy(Shape, frozen=True):
    """Which clause of a filter decided."""

    clause: str = ""
    text: str = ""


class NextAttempt(Shape, frozen=True):
    """When an event is tried next, and which rule says so."""

    at: str = ""
    rule: str = ""
    text: str = ""


class End(Shape, frozen=True):
    """How a delivery ended."""

    at: str | None = None
    reason: str | None = None
    where: str | None = None


class SubscriptionOutcome(Shape, frozen=True):
    """What became, or becomes, of one event at one subscription."""

    subscription: str = ""
    subscription_id: int | None = None
    topic: str = ""
    matched: bool | None = None
    decided_by: DecidedBy | None = None
    attempts: list[Attempt] = []
    state: str = ""
    state_text: str = ""
    next: NextAttempt | None = None
    expires_at: str | None = None
    ttl_left_seconds: float | None = None
    attempts_left: int | None = None
    end: End | None = None


class Explanation(Shape, frozen=True):
    """What became of one event."""

    event: dict[str, Any] | None = None
    note: str | None = None
    subscriptions: list[SubscriptionOutcome] = []
    now: str = ""


class DeadLetter(Shape, frozen=True):
    """A dead letter, without its event."""

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


class DeadLetters(Shape, frozen=True):
    """A page of dead letters."""

    value: list[DeadLetter] = []
    problems: list[str] = []
    next: str | None = None


class Progress(Shape, frozen=True):
    """What one turn of redrive or purge did."""

    selected: int = 0
    done: int = 0
    refused: int = 0
    kept: int = 0
    problems: list[str] = []
    next: str | None = None


class ClockNow(Shape, frozen=True):
    """The server's clock."""

    now: str = ""
    mode: str = "system"

    @property
    def manual(self) -> bool:
        """True when it stands still until it is moved."""
        return self.mode == "manual"


class Moved(Shape, frozen=True):
    """What happened while the clock was moved."""

    now: str = ""
    attempts: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    pending: int = 0


class Readiness(Shape, frozen=True):
    """Whether the server does its work, by part."""

    status: str = ""
    checks: dict[str, str] = {}
