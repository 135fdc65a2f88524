"""Two nodes of a cluster against one, where the endpoints are the bottleneck and a node has few requests under way.

Both sides are the same two partitions with the same topics, first owned by one node, then by two. A node's requests
are bounded (`delivery.requests`), and an endpoint answers after 20 ms: one node then waits most of the time.
"""

import time

from bench.lab import Lab, Receiver
from bench.nodes import checks, cluster, until
from bench.process import Machine
from bench.report import Goal, Sample
from bench.scenarios import Round
from bench.server import Recapito, Target
from recapito.domain.cluster.partition import home_of

NAME = "growth"
ROUNDS = 1
GOALS = (Goal("growth", "two nodes against one, endpoints that answer after 20 ms, 8 requests a node", 1.8),)
PARTITIONS = 2
REQUESTS = 8
DELAY_MS = 20.0
SETTLE_S, PILE_UP_S = 3.0, 8.0


def measure(round: Round) -> list[Sample]:
    """The rate of deliveries with one node, and with two."""
    lab = round.lab
    bounded = {"RECAPITO_DELIVERY_REQUESTS": str(REQUESTS)}
    with (
        cluster(lab, PARTITIONS, bounded) as nodes,
        nodes.start("one") as first,
        lab.receiver(delay_ms=DELAY_MS) as receiver,
    ):
        targets = _topics(first, receiver)
        one = _rate(lab, targets, receiver, 1)
        with nodes.start("two"):
            until(lambda: _shares(first) == {"one": PARTITIONS // 2, "two": PARTITIONS // 2}, "the nodes share")
            two = _rate(lab, targets, receiver, 2)
    sample = Sample("growth", two / one, f"{two:,.0f}/s with two nodes against {one:,.0f}/s with one")
    lab.say(f"{sample.row}: {sample.detail}")
    return [sample]


def _topics(node: Recapito, receiver: Receiver) -> list[Target]:
    """A topic with a subscription in each partition."""
    names: dict[int, str] = {}
    for number in range(100):
        names.setdefault(home_of(f"growth-{number}", PARTITIONS), f"growth-{number}")
    targets = []
    for name in names.values():
        targets.append(node.topic(name))
        node.subscribe(name, "only", receiver.url())
    return targets


def _rate(lab: Lab, targets: list[Target], receiver: Receiver, nodes: int) -> float:
    """Deliveries a second while every partition has a backlog. The backlog of one node is delivered in the end."""
    receiver.tally.reset()
    most = nodes * REQUESTS * 1000 / DELAY_MS
    hundreds = int(most * (PILE_UP_S + SETTLE_S + lab.seconds) / len(targets) / 100)
    for target in targets:
        lab.pile_up(target, receiver, hundreds * 100)
    time.sleep(SETTLE_S)
    machine, before, began = Machine(), receiver.tally.events, time.monotonic()
    time.sleep(lab.seconds)
    rate = (receiver.tally.events - before) / (time.monotonic() - began)
    lab.others.append(machine.others())
    published = hundreds * 100 * len(targets)
    if receiver.tally.events >= published:
        raise RuntimeError("the backlog was too short")
    if nodes == 1:
        until(lambda: receiver.tally.events >= published, "the backlog is delivered", 120.0)
    return rate


def _shares(node: Recapito) -> dict[str, int]:
    """The number of partitions of each owner, as a node sees it."""
    owners = [text.split("'")[1] for text in checks(node.port).values() if text.startswith("ok: node '")]
    return {owner: owners.count(owner) for owner in owners}
