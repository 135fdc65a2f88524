"""Attempts for the tests of history."""

from collections.abc import Sequence
from typing import Any

from recapito.contracts.history import HistoryBounds
from recapito.domain.delivery.vocabulary import DispositionKind, Rule
from recapito.domain.history.attempt import Attempt, EventDisposition, LaneLabel
from recapito.domain.instant import HOUR, SECOND

NOON = 1_900_000_000 * SECOND
KEEP = HistoryBounds(24 * HOUR, 1 << 30)
ORDERS = LaneLabel(1, 10, "Orders", "Billing")
SHIPPED = LaneLabel(2, 10, "Orders", "Shipping")
OTHERS = LaneLabel(11, 20, "Others", "Billing")
AGAIN = EventDisposition(DispositionKind.RETRY, NOON + 30 * SECOND, Rule.MINIMUM)


def attempt(
    *ids: str, label: LaneLabel = ORDERS, at: int = 0, outcome: str = "Success", position: int = 5, **more: Any
) -> Attempt:
    """An attempt N seconds after noon, or at an instant; neighbouring events of one segment."""
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
