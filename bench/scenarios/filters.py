"""Filters: single events to one subscription that takes them, while many others on the topic do not."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.lab import Lab, Measure
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio
from bench.scenarios.single import durable

NAME = "filters"
ROUNDS = 3
GOALS = (
    Goal("advanced", "1 in, 1 out, with 10 subscriptions with advanced filters, against 1 without", 0.7),
    Goal("types", "1 in, 1 out, with 500 subscriptions by event type, against 1 without", 0.5),
)
TAKING = {
    "advancedFilters": [
        {"operatorType": "StringBeginsWith", "key": "Subject", "values": ["BENCH/"]},
        {"operatorType": "NumberNotIn", "key": "data.number", "values": [1, 2, 3]},
    ]
}
REFUSING = (
    {"operatorType": "StringIn", "key": "data.sent", "values": ["never", "at no time"]},
    {"operatorType": "StringContains", "key": "data.pad", "values": ["needle"]},
    {"operatorType": "NumberGreaterThan", "key": "data.number", "value": 10},
    {"operatorType": "NumberInRange", "key": "data.size.width", "values": [[1, 2], [5, 6]]},
    {"operatorType": "StringNotBeginsWith", "key": "Subject", "values": ["bench"]},
    {"operatorType": "StringEndsWith", "key": "data.pad", "values": ["end"]},
    {"operatorType": "BoolEquals", "key": "data.urgent", "value": True},
    {"operatorType": "IsNullOrUndefined", "key": "data.sent"},
    {"operatorType": "StringNotContains", "key": "EventType", "values": ["bench"]},
)
BY_TYPE = ({"includedEventTypes": ["Bench.Event"]}, *({"includedEventTypes": [f"Other.{n}"]} for n in range(499)))


def measure(round: Round) -> list[Sample]:
    """The rates as parts of the one with a single subscription that takes everything."""
    advanced = (TAKING, *({"advancedFilters": [condition]} for condition in REFUSING))
    return [
        ratio("advanced", round.once("advanced filters", partial(_filtered, advanced)), durable(round), "unfiltered"),
        ratio("types", round.once("500 by type", partial(_filtered, BY_TYPE)), durable(round), "unfiltered"),
    ]


def _filtered(filters: Sequence[Mapping[str, Any]], lab: Lab) -> Measure:
    with lab.receiver() as receiver, lab.recapito() as server:
        target = server.topic("filters")
        for n, filter in enumerate(filters):
            server.subscribe("filters", f"number-{n}", receiver.url(), filter=filter)
        return lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid})
