"""The rows of `recapito top`: the state of each event subscription, and its rates from two readings of the counters."""

import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlencode

from recapito.cli.toolkit.client import ApiClient

_PATH = "/lanes"
_PAGE = 1000

Wire = Mapping[str, Any]
Row = dict[str, Any]


class Sort(StrEnum):
    """By what rows are sorted."""

    PENDING = "pending"
    RATE = "rate"
    FAILING = "failing"
    PROBATION = "probation"
    DUE = "due"
    NAME = "name"


class Look(NamedTuple):
    """All lanes at one moment: of this machine, and of the server's clock."""

    at: float
    now: str
    lanes: dict[int, Wire]


def look(client: ApiClient, wanted: Mapping[str, Any]) -> Look:
    """Read all lanes, page by page."""
    query = {**wanted, "limit": _PAGE}
    lanes: dict[int, Wire] = {}
    while True:
        page = client.call("GET", f"{_PATH}?{urlencode(query)}")
        lanes |= {lane["id"]: lane for lane in page["value"]}
        if page["next"] is None:
            return Look(time.monotonic(), page["now"], lanes)
        query["after"] = page["next"]


def measure(before: Look | None, after: Look, sort: Sort) -> list[Row]:
    """A row for each lane; what a second brings is known from the second look on."""
    seconds = after.at - before.at if before else 0.0
    earlier = before.lanes if before else {}
    rows = [_row(earlier.get(id), lane, seconds) for id, lane in after.lanes.items()]
    return sorted(rows, key=lambda row: _rank(row, sort))


def is_failing(row: Row) -> bool:
    """True if the lane's last request failed or a delivery waits for its retry."""
    return bool(row["failuresInARow"] or row["probationUntil"] or row["parked"])


def _row(before: Wire | None, lane: Wire, seconds: float) -> Row:
    hold = lane["hold"] or {}
    answers = lane["answers"] - before["answers"] if before else 0
    took = lane["tookMs"] - before["tookMs"] if before else 0.0
    return {
        "topic": lane["topic"],
        "subscription": lane["subscription"],
        "deliveredPerSecond": _rate(before, lane, seconds, _delivered),
        "failedPerSecond": _rate(before, lane, seconds, _failed),
        "averageMs": round(took / answers, 1) if answers > 0 else None,
        "pending": lane["pending"],
        "unread": lane["unread"],
        "parked": lane["parked"],
        "failuresInARow": lane["failuresInARow"],
        "probationUntil": hold.get("until") if hold.get("on") else None,
        "probationReason": hold.get("reason") if hold.get("on") else None,
        "nextDueAt": lane["nextDueAt"],
        "maxRequests": lane["options"]["maxRequests"],
        "maxPerSecond": lane["options"]["eventsPerSecond"],
        "stopped": lane["stopped"],
    }


def _delivered(lane: Wire) -> int:
    return int(lane["delivered"])


def _failed(lane: Wire) -> int:
    return sum(lane["failedAttempts"].values())


def _rate(before: Wire | None, lane: Wire, seconds: float, count: Callable[[Wire], int]) -> float | None:
    """Events per second; 0 after a restart, which resets the counters."""
    if before is None or seconds <= 0:
        return None
    return max(0.0, round((count(lane) - count(before)) / seconds, 1))


def _rank(row: Row, sort: Sort) -> tuple[Any, ...]:
    name = (row["topic"], row["subscription"])
    match sort:
        case Sort.PENDING:
            return (-(row["pending"] + row["unread"]), *name)
        case Sort.RATE:
            return (-(row["deliveredPerSecond"] or 0.0), *name)
        case Sort.FAILING:
            return (-(row["failedPerSecond"] or 0.0), -row["failuresInARow"], -row["parked"], *name)
        case Sort.PROBATION:
            return (row["probationUntil"] is None, row["probationUntil"] or "", *name)
        case Sort.DUE:
            return (row["nextDueAt"] is None, row["nextDueAt"] or "", *name)
        case Sort.NAME:
            return name


def totals(rows: Iterable[Row]) -> dict[str, float]:
    """All rows in a few numbers."""
    listed = list(rows)
    return {
        "subscriptions": len(listed),
        "failing": sum(map(is_failing, listed)),
        "probation": sum(row["probationUntil"] is not None for row in listed),
        "deliveredPerSecond": sum(row["deliveredPerSecond"] or 0.0 for row in listed),
        "failedPerSecond": sum(row["failedPerSecond"] or 0.0 for row in listed),
        "pending": sum(row["pending"] + row["unread"] for row in listed),
    }
