"""The senders to storage queues, Service Bus and Event Hubs, against Microsoft's client alone on the same service."""

from contextlib import ExitStack

import msgspec
from azure.storage.queue import QueueClient

from bench import fixture
from bench.carrier import ENTITY, EVENT_HUBS, QUEUE, SERVICE_BUS, WARM_UP_S, Order, Report
from bench.lab import Lab
from bench.process import Child, module
from bench.report import Goal, Sample
from bench.scenarios import Round

NAME = "senders"
ROUNDS = 3
GOALS = tuple(
    Goal(kind, f"{kind}: our sender, against the bare client", 0.7) for kind in (QUEUE, SERVICE_BUS, EVENT_HUBS)
)


def measure(round: Round) -> list[Sample]:
    """For each kind of destination a fresh service, the client alone, and our sender."""
    node = fixture.find()
    if node is None:
        return [Sample(goal.row, 0.0, "", fixture.HOW_TO_INSTALL) for goal in GOALS]
    return [_sample(round.lab, node, kind) for kind in (QUEUE, SERVICE_BUS, EVENT_HUBS)]


def _sample(lab: Lab, node: str, kind: str) -> Sample:
    bare, ours = (_carry(lab, node, kind, ours) for ours in (False, True))
    detail = f"{ours.rate:,.0f}/s against {bare.rate:,.0f}/s with the bare client"
    lab.say(f"{kind}: {detail}; CPU µs each: {ours.cpu_us:.0f} against {bare.cpu_us:.0f}")
    return Sample(kind, ours.rate / bare.rate, detail)


def _carry(lab: Lab, node: str, kind: str, ours: bool) -> Report:
    with ExitStack() as stack:
        path = stack.enter_context(lab.directory("carrier"))
        service = fixture.azurite if kind == QUEUE else fixture.broker
        connection = stack.enter_context(service(node, path))
        if kind == QUEUE:
            QueueClient.from_connection_string(connection, ENTITY).create_queue()
        carrier = stack.enter_context(Child(module("bench.carrier"), path / "errors"))
        order = Order(kind, connection, ours, lab.seconds)
        carrier.tell(msgspec.json.encode(order))
        return msgspec.convert(carrier.json(order.seconds + WARM_UP_S + 60), Report)
