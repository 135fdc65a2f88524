"""The same load with and without history, one by one and in batches: what keeping every attempt costs."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.lab import Lab, Stand
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio

NAME = "history"
ROUNDS = 3
GOALS = (
    Goal("history", "1 event in, 1 out, with history against without", 0.9),
    Goal("history-batches", "100 events in, up to 1000 out, with history against without", 0.9),
)
LARGE = (1000, 1024)


def measure(round: Round) -> list[Sample]:
    """Each rate with history as a part of the rate without; nothing else differs."""
    samples = []
    for row, batch, batching in (("history", 1, (1, 64)), ("history-batches", 100, LARGE)):
        with _server(round.lab, True, batching) as with_it, _server(round.lab, False, batching) as without:
            kept, none = round.alternate({f"{row} on": with_it, f"{row} off": without}, batch=batch)
        samples.append(ratio(row, kept, none, "without"))
    return samples


@contextmanager
def _server(lab: Lab, on: bool, batching: tuple[int, int]) -> Iterator[Stand]:
    environment = {"RECAPITO_HISTORY_ENABLED": str(on), "RECAPITO_HISTORY_KEEP_EVENTS_MB": "64" if on else "0"}
    with lab.receiver() as receiver, lab.recapito(environment) as server:
        target = server.topic("history")
        server.subscribe("history", "only", receiver.url(), batching)
        yield Stand(target, receiver, {**server.pids(), "receiver": receiver.pid})
