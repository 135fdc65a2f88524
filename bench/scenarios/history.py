"""The same load with and without history, one by one and in batches: what keeping every attempt costs."""

from bench.report import Goal, Sample
from bench.scenarios import LARGE, Round, ratio, standing

NAME = "history"
ROUNDS = 3
GOALS = (
    Goal("history", "1 event in, 1 out, with history against without", 0.9),
    Goal("history-batches", "100 events in, up to 1000 out, with history against without", 0.9),
)
ON = {"RECAPITO_HISTORY_ENABLED": "true", "RECAPITO_HISTORY_KEEP_EVENTS_MB": "64"}
OFF = {"RECAPITO_HISTORY_ENABLED": "false", "RECAPITO_HISTORY_KEEP_EVENTS_MB": "0"}


def measure(round: Round) -> list[Sample]:
    """Each rate with history as a part of the rate without; nothing else differs."""
    samples = []
    for row, batch, batching in (("history", 1, (1, 64)), ("history-batches", 100, LARGE)):
        with standing(round.lab, batch, batching, ON) as kept, standing(round.lab, batch, batching, OFF) as plain:
            above, below = round.alternate({f"{row} on": kept, f"{row} off": plain})
        samples.append(ratio(row, above, below, "without"))
    return samples
