"""Behaviour profiles: Event Grid's rules at a date, as data, and `edge`, our own. No rule depends on a year.

Each profile is a file `profiles/<name>.toml` with its source; `docs/compatibility.md` has the matrix.
"""

import tomllib
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

DEFAULT = "2021-03"


class EndpointKind(StrEnum):
    """The two kinds of endpoint that profiles distinguish: webhooks, and everything else."""

    WEBHOOK = "webhook"
    AZURE_RESOURCE = "azure_resource"


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delays after the 1st, 2nd, … failed attempt, in seconds; after the last of them, `then_every_s`."""

    delays_s: tuple[int, ...]
    then_every_s: int
    jitter: float


class StatusRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of status codes at one kind of endpoint: never retried, or after `minimum_s` at the earliest."""

    never: tuple[int, ...] = ()
    minimum_s: dict[str, int] = {}


class Statuses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules by status code. `minimum_s` applies where no row of the endpoint kind does, also without an answer.

    `cut` are the refusals that blame an event: a request of several events that meets one is sent again in parts, until
    the event is alone.
    """

    success: tuple[int, ...]
    never_with_dead_letter: tuple[int, ...]
    minimum_s: int
    webhook: StatusRules
    azure_resource: StatusRules
    cut: tuple[int, ...] = ()


class DelayedDelivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The start and the length of holds. `table_s` is the probation table by outcome.

    `failures` is the number of events whose first attempt fails with no success in between. `first_s` is the period
    for an outcome without a row; a failed probe doubles the period up to `longest_s`, which is also the longest that
    any event waits for its turn. An outcome whose row is at least `at_once_from_s` holds the subscription at once.
    `sweep_s`, where it is set, is that longest wait instead; then an outcome with a row is about the endpoint, whatever
    the event: it holds at any attempt, and ends a sweep. A status of `pressure` with a Retry-After holds for that time,
    and counts as no attempt.
    """

    failures: int
    first_s: int
    longest_s: int
    at_once_from_s: int | None = None
    table_s: dict[Result, int] = {}
    sweep_s: int | None = None
    pressure: tuple[int, ...] = ()

    @property
    def sweep_ns(self) -> int:
        """The longest time that any event waits for its turn."""
        return (self.longest_s if self.sweep_s is None else self.sweep_s) * SECOND

    def blames_endpoint(self, result: Result) -> bool:
        """Whether this result is about the endpoint, whatever the event."""
        return self.sweep_s is not None and result in self.table_s

    def is_pressure(self, outcome: Outcome) -> bool:
        """Whether an endpoint only asks for time."""
        return outcome.status in self.pressure and outcome.retry_after_ns > 0


class DeadLetterRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seconds from the last attempt to the dead letter, and until an unreachable vault is given up."""

    delay_s: int
    unavailable_s: int
    missing_container: Literal["unavailable", "drop"]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keeps`: an event has no time to live and no limit of attempts, except those that its subscription sets."""

    name: str
    title: str
    source: str
    batching: bool
    custom_headers: bool
    schedule: Schedule
    status: Statuses
    dead_letter: DeadLetterRules
    delayed_delivery: DelayedDelivery | None = None
    keeps: bool = False

    def rules(self, kind: EndpointKind) -> StatusRules:
        return self.status.webhook if kind is EndpointKind.WEBHOOK else self.status.azure_resource

    def never_retried(self, status: int | None, kind: EndpointKind, dead_letters: bool) -> bool:
        """Whether this status ends delivery at once."""
        return status in self.rules(kind).never or (dead_letters and status in self.status.never_with_dead_letter)

    def minimum_ns(self, status: int | None, kind: EndpointKind) -> int:
        """The least delay before the next attempt after this status, or after no answer."""
        return self.rules(kind).minimum_s.get(str(status), self.status.minimum_s) * SECOND

    def is_pressure(self, outcome: Outcome) -> bool:
        """Whether an endpoint only asks for time: the attempt does not count."""
        return self.delayed_delivery is not None and self.delayed_delivery.is_pressure(outcome)


@cache
def names() -> tuple[str, ...]:
    """The names of the profiles that describe Event Grid at a date, oldest first."""
    return tuple(name for name in known() if name[0].isdigit())


@cache
def known() -> tuple[str, ...]:
    """The names of all profiles: the dated ones, oldest first, then our own."""
    folder = resources.files(__package__)
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def load(name: str) -> Profile:
    """The profile of that name; an unknown name is the caller's error."""
    if name not in known():
        raise InvalidInput(
            "InvalidProfile", f"Profile '{name}' is unknown. Known profiles: {', '.join(known())}.", "profile"
        )
    text = (resources.files(__package__) / f"{name}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Profile, strict=True)
