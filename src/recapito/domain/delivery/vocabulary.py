"""The words for a delivery: its states, endings and dispositions, and the rules of its next step, with their labels.

The values are stored and sent as they are; the labels are for people. The command line and the portal read both here.
"""

from enum import StrEnum


class State(StrEnum):
    """Where a delivery is."""

    UNREAD = "unread"
    UNDER_WAY = "underWay"
    PARKED = "parked"
    HELD = "held"
    DEAD_LETTER_WAITING = "deadLetterWaiting"
    DEAD_LETTERED = "deadLettered"
    DROPPED = "dropped"
    DELIVERED = "delivered"
    NOT_MATCHED = "notMatched"
    UNKNOWN = "unknown"


STATE_LABELS: dict[str, str] = {
    State.UNREAD: "not read yet",
    State.UNDER_WAY: "under way",
    State.PARKED: "waits for its next attempt",
    State.HELD: "held back",
    State.DEAD_LETTER_WAITING: "waits to be dead-lettered",
    State.DEAD_LETTERED: "dead-lettered",
    State.DROPPED: "dropped",
    State.DELIVERED: "delivered",
    State.NOT_MATCHED: "not matched",
    State.UNKNOWN: "unknown",
}
"""The states in words, for the command line and the portal."""


class NonRequestOutcome(StrEnum):
    """The outcomes of deliveries and dead letters that ended without a request."""

    NOT_SENT = "NotSent"
    DEAD_LETTERED = "DeadLettered"
    DEAD_LETTER_DROPPED = "DeadLetterDropped"


ENDING_LABELS: dict[str, str] = {
    NonRequestOutcome.NOT_SENT: "given up without an attempt",
    NonRequestOutcome.DEAD_LETTERED: "dead letter written",
    NonRequestOutcome.DEAD_LETTER_DROPPED: "dead letter dropped",
}
"""The endings in words, for the command line and the portal."""


class DispositionKind(StrEnum):
    """The kinds of disposition of a delivery."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD_LETTER = "deadLetter"
    DROP = "drop"


DISPOSITION_LABELS: dict[str, str] = {
    DispositionKind.DELIVERED: "delivered",
    DispositionKind.RETRY: "retried",
    DispositionKind.DEAD_LETTER: "dead-lettered",
    DispositionKind.DROP: "dropped",
}
"""The dispositions in words, for the portal."""


class Rule(StrEnum):
    """The rule that set the time of the next attempt: the schedule, the least delay of the status, or Retry-After.

    CUT: a request with others was refused, so a smaller one goes at once.
    """

    SCHEDULE = "schedule"
    MINIMUM = "minimum"
    RETRY_AFTER = "retryAfter"
    CUT = "cut"


# The rules of a next step that is no attempt of this delivery alone.
HOLD, DEAD_LETTER_DELAY = "hold", "deadLetterDelay"
