"""The timetable of a delivery that keeps failing: when it is tried, without jitter and holds, and how it ends.

It is driven by `decide` itself, so what it shows is what the lanes do.
"""

from typing import NamedTuple

from recapito.domain.delivery.delivery import (
    TTL_EXCEEDED,
    Dead,
    Delivery,
    DeliveryId,
    RetryAt,
    attempted,
    decide,
    expired,
)
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.profiles.profile import EndpointKind, Profile
from recapito.domain.resources.subscription import RetryPolicy


class Timetable(NamedTuple):
    """When a delivery is tried and when it ends, in nanoseconds since publishing, and the reason of its death.

    A delivery that expires is not tried at its end; one that is delivered has no reason.
    """

    attempts: list[int]
    end: int
    reason: str | None


def timetable(
    profile: Profile, kind: EndpointKind, policy: RetryPolicy, outcome: Outcome, dead_letters: bool = False
) -> Timetable:
    """The timetable of one event whose every attempt ends at once with this outcome."""
    delivery = Delivery(DeliveryId(0, 0), published_at=0, body=b"")
    attempts: list[int] = []
    now = 0
    while not expired(delivery, policy, now):
        attempts.append(now)
        delivery = attempted(delivery, outcome, now)
        disposition = decide(profile, kind, policy, dead_letters, delivery, outcome, now, random=0.0)
        if not isinstance(disposition, RetryAt):
            return Timetable(attempts, now, disposition.reason if isinstance(disposition, Dead) else None)
        now = disposition.due_at
    return Timetable(attempts, now, TTL_EXCEEDED)
