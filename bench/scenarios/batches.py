"""Publishes of 100 events, delivered in batches of up to 1000 events and 1024 KB."""

from bench.lab import Lab, Measure
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio
from bench.scenarios.single import durable

NAME = "batches"
ROUNDS = 3
GOALS = (Goal("batches", "100 events in, up to 1000 out, against 1 in, 1 out", 8.0),)
LARGE = (1000, 1024)


def measure(round: Round) -> list[Sample]:
    """The rate with batches as a multiple of the rate without."""
    return [ratio("batches", round.once("batches", _batches), durable(round), "one by one")]


def _batches(lab: Lab) -> Measure:
    with lab.receiver() as receiver, lab.recapito() as server:
        target = server.topic("batches")
        server.subscribe("batches", "only", receiver.url(), LARGE)
        return lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid}, batch=100)
