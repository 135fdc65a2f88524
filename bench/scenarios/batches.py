"""Publishes of 100 events, delivered in batches of up to 1000 events and 1024 KB, against single ones."""

from bench.report import Goal, Sample
from bench.scenarios import LARGE, Round, ratio, standing

NAME = "batches"
ROUNDS = 3
GOALS = (Goal("batches", "100 events in, up to 1000 out, against 1 in, 1 out", 8.0),)


def measure(round: Round) -> list[Sample]:
    """The rate with batches as a multiple of the rate without."""
    with standing(round.lab, 100, LARGE) as large, standing(round.lab) as single:
        batches, one_by_one = round.alternate({"batches": large, "one by one": single})
    return [ratio("batches", batches, one_by_one, "one by one")]
