"""Fan-out: the same publishes, to 100 subscriptions and to one, both with batches."""

from functools import partial

from bench.lab import Lab, Measure
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio
from bench.scenarios.batches import LARGE

NAME = "fanout"
ROUNDS = 3
GOALS = (Goal("fanout", "deliveries to 100 subscriptions, against 1", 8.0),)
SUBSCRIPTIONS = 100


def measure(round: Round) -> list[Sample]:
    """Deliveries a second to a hundred as a multiple of those to one."""
    many = round.once("fan-out 100", partial(_fan_out, SUBSCRIPTIONS))
    return [ratio("fanout", many, round.once("fan-out 1", partial(_fan_out, 1)), "to one")]


def _fan_out(subscriptions: int, lab: Lab) -> Measure:
    with lab.receiver(ports=subscriptions) as receiver, lab.recapito() as server:
        target = server.topic("fanout")
        for n in range(subscriptions):
            server.subscribe("fanout", f"number-{n}", receiver.url(n), LARGE)
        return lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid}, fan_out=subscriptions)
