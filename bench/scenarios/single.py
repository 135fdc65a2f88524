"""Single-event publishes, authenticated, validated, fsynced and delivered one by one, against a store that discards."""

from functools import partial

from bench.lab import Lab, Measure
from bench.process import Child, module
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio
from bench.server import make_topic

NAME = "single"
ROUNDS = 3
GOALS = (
    Goal("single", "1 event in, 1 out, durable, against a store that discards", 0.5),
    Goal("single-asgi", "the same, against a store that discards behind plain ASGI", 0.5),
)


def measure(round: Round) -> list[Sample]:
    """The durable rate as a part of the discarding one, with the express lane and without."""
    return [
        ratio("single", durable(round), round.once("discarding", _discarding), "discarding"),
        ratio(
            "single-asgi",
            durable(round),
            round.once("discarding by ASGI", partial(_discarding, flags=("--asgi",))),
            "discarding by ASGI",
        ),
    ]


def durable(round: Round) -> Measure:
    """The rate of single events, published, stored and delivered one by one."""
    return round.once("single", _durable)


def _durable(lab: Lab) -> Measure:
    with lab.receiver() as receiver, lab.recapito() as server:
        target = server.topic("single")
        server.subscribe("single", "only", receiver.url())
        return lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid})


def _discarding(lab: Lab, flags: tuple[str, ...] = ()) -> Measure:
    with (
        lab.receiver() as receiver,
        lab.directory("discard") as path,
        Child(module("bench.discard", *flags), path / "errors") as child,
    ):
        target = make_topic(int(child.line()), "single")
        return lab.run(target, receiver, {"intake": child.pid}, fan_out=0)
