"""Attempts for the tests of history."""

from collections.abc import Sequence
from typing import Any

from recapito.contracts.history import Keep
from recapito.domain.delivery.delivery import Rule
from recapito.domain.history.attempt import Attempt, DispositionKind, EventDisposition, Label
from recapito.domain.instant import HOUR, SECOND

NOON = 1_900_000_000 * SECOND
KEEP = Keep(24 * HOUR, 1 << 30)
ORDERS = Label(1, 10, "Orders", "Billing")
SHIPPED = Label(2, 10, "Orders", "Shipping")
OTHERS = Label(11, 20, "Others", "Billing")
AGAIN = EventDisposition(DispositionKind.RETRY, NOON + 30 * SECOND, Rule.MINIMUM)


def attempt(
    *ids: str, label: Label = ORDERS, at: int = 0, outcome: str = "Success", position: int = 5, **more: Any
) -> Attempt:
    """An attempt so many seconds after noon, or at an instant; neighbouring events of one segment."""
    fields: dict[str, Any] = {
        "label": label,
        "at": at if at > NOON // 2 else NOON + at * SECOND,
        "took": SECOND // 8,
        "outcome": outcome,
        "status": 200 if outcome == "Success" else 503,
        "detail": "",
        "probe": False,
        "late": False,
        "ids": list(ids),
        "positions": [(len(ids), position)],
        "offsets": list(range(len(ids))),
        **more,
    }
    return Attempt(**fields)


def failed(
    *ids: str, dispositions: Sequence[EventDisposition] | None = None, numbers: Sequence[int] | None = None, **more: Any
) -> Attempt:
    """An attempt that failed and is due again."""
    return attempt(
        *ids,
        outcome=more.pop("outcome", "Busy"),
        dispositions=list(dispositions or [AGAIN] * len(ids)),
        numbers=list(numbers or [1] * len(ids)),
        **more,
    )


def same(one: Attempt, other: Attempt) -> bool:
    """Whether two attempts tell the same."""
    plain = ("label", "at", "took", "outcome", "status", "detail", "probe", "late")
    return all(getattr(one, name) == getattr(other, name) for name in plain) and [*one.events()] == [*other.events()]
