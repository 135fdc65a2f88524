"""A whole cluster on this machine, three NATS servers and two nodes, against a server of its own; and the way between.

Everything shares the same processors and one disk, so the cluster pays here for three servers that would otherwise
have machines of their own.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.lab import Lab, Receiver, Stand
from bench.load import Order
from bench.nodes import checks, cluster, until
from bench.process import cpu_s, descendants
from bench.report import Goal, Sample
from bench.scenarios import LARGE, Round, ratio, standing
from bench.server import Recapito, Target

NAME = "cluster"
ROUNDS = 1
GOALS = (
    Goal("cluster batches", "100 events in, up to 1000 out, cluster against one server", 0.4),
    Goal("cluster single", "1 event in, 1 out, cluster against one server", 0.25),
    Goal("forward", "median latency that a forwarded publish adds", 3.0, "ms", at_least=False),
    Goal("cluster memory", "memory of the owner with 10,000 subscriptions", 400.0, "MB", at_least=False),
    Goal("cluster start", "a start of a node with 10,000 subscriptions, until it owns", 10.0, "s", at_least=False),
    Goal("cluster idle", "part of a core that the idle owner takes then", 0.05, "cores", at_least=False),
)
FORWARD_RATE, FORWARD_TURNS = 100.0, 4
TOPICS, SUBSCRIPTIONS, QUICK_SUBSCRIPTIONS = 20, 10_000, 1_000
WARM_S, IDLE_S = 40.0, 60.0


def measure(round: Round) -> list[Sample]:
    """All rows, on one cluster."""
    lab, samples = round.lab, []
    with cluster(lab) as nodes, nodes.start("one") as owner:
        until(lambda: "dispatch" in checks(owner.port), "the node owns")
        with _on(lab, owner, "single") as replicated, standing(lab) as alone:
            here, there = round.alternate({"cluster, one by one": replicated, "one server, one by one": alone})
        samples.append(ratio("cluster single", here, there, "on one server"))
        with _on(lab, owner, "batches", 100, LARGE) as replicated, standing(lab, 100, LARGE) as alone:
            here, there = round.alternate({"cluster, batches": replicated, "one server, batches": alone})
        samples.append(ratio("cluster batches", here, there, "on one server"))
        with nodes.start("two") as standby:
            samples.append(_forward(lab, owner, standby))
        samples += _many(lab, owner)
    for sample in samples:
        lab.say(f"{sample.row}: {sample.detail}")
    return samples


@contextmanager
def _on(lab: Lab, node: Recapito, topic: str, batch: int = 1, batching: tuple[int, int] = (1, 64)) -> Iterator[Stand]:
    with lab.receiver() as receiver:
        target = node.topic(topic)
        node.subscribe(topic, "only", receiver.url(), batching)
        yield Stand(target, receiver, {**node.pids(), "receiver": receiver.pid}, batch)


def _forward(lab: Lab, owner: Recapito, standby: Recapito) -> Sample:
    """The median latency of a publish at the standby less that at the owner, in turns, at a low rate."""
    with lab.receiver() as receiver:
        target = owner.topic("forward")
        owner.subscribe("forward", "only", receiver.url())
        added, medians = [], []
        for _ in range(1 if lab.quick else FORWARD_TURNS):
            at_owner, at_standby = (
                _median_ms(lab, target._replace(port=node.port), receiver) for node in (owner, standby)
            )
            added.append(at_standby - at_owner)
            medians.append((at_owner, at_standby))
    here, there = sorted(medians)[len(medians) // 2]
    return Sample(
        "forward", sorted(added)[len(added) // 2], f"{there:.1f} ms at the standby, {here:.1f} ms at the owner"
    )


def _median_ms(lab: Lab, target: Target, receiver: Receiver) -> float:
    receiver.tally.reset()
    result = lab.load(Order(*target, tally=str(receiver.path), seconds=3, connections=4, rate=FORWARD_RATE))
    if result.failed or not result.events:
        raise RuntimeError(f"publishes failed: {result.first_failure}")
    return result.p50_ms


def _many(lab: Lab, owner: Recapito) -> list[Sample]:
    """Many idle subscriptions: the memory of their owner, its start, and the processor time that it takes idle."""
    count = QUICK_SUBSCRIPTIONS if lab.quick else SUBSCRIPTIONS
    with lab.receiver() as receiver:
        for number in range(TOPICS):
            owner.topic(f"many-{number}")
            for n in range(count // TOPICS):
                owner.subscribe(f"many-{number}", f"idle-{n}", receiver.url())
        owner.stop()
        began = time.monotonic()
        owner.start_again()
        until(lambda: "dispatch" in checks(owner.port), "the node owns again")
        started_s = time.monotonic() - began
        time.sleep(WARM_S)
        before = _cpu_s(owner)
        time.sleep(IDLE_S)
        idle = (_cpu_s(owner) - before) / IDLE_S
    words = f"{count:,} subscriptions of {TOPICS} topics"
    return [
        Sample("cluster memory", owner.resident_mb(), f"parent and both roles, {words}"),
        Sample("cluster start", started_s, f"from its start until intake and dispatch are ready, {words}"),
        Sample("cluster idle", idle, f"over {IDLE_S:.0f} s, {words}"),
    ]


def _cpu_s(node: Recapito) -> float:
    parent = node.pids()["parent"]
    return sum(cpu_s(pid) for pid in (parent, *descendants(parent)))
