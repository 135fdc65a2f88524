"""Single-event publishes, authenticated, validated, fsynced and delivered one by one, against a store that discards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bench
from bench.lab import Lab, Measure, Stand
from bench.process import Child, module
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio, standing
from bench.server import make_topic

NAME = "single"
ROUNDS = 3
GOALS = (
    Goal("single", "1 event in, 1 out, durable, against a store that discards", 0.5),
    Goal("single-asgi", "the same by plain ASGI on both sides", 0.5),
)
_PLAIN_ASGI = {"PYTHONPATH": str(Path(bench.__file__).parent / "plain_asgi")}


def measure(round: Round) -> list[Sample]:
    """The durable rate as a part of the discarding one, with the express lane and without."""
    with standing(round.lab) as whole, _discarding(round.lab) as discarding:
        above, below = round.alternate({"single": whole, "discarding": discarding})
    with (
        standing(round.lab, environment=_PLAIN_ASGI) as whole,
        _discarding(round.lab, "--asgi") as discarding,
    ):
        plain, forgotten = round.alternate({"single by ASGI": whole, "discarding by ASGI": discarding})
    return [
        ratio("single", above, below, "discarding"),
        ratio("single-asgi", plain, forgotten, "discarding"),
    ]


def durable(round: Round) -> Measure:
    """The rate of single events, published, stored and delivered one by one."""
    return round.once("one by one", _durable)


def _durable(lab: Lab) -> Measure:
    with standing(lab) as stand:
        return lab.run(stand.target, stand.receiver, stand.pids)


@contextmanager
def _discarding(lab: Lab, *flags: str) -> Iterator[Stand]:
    with (
        lab.receiver() as receiver,
        lab.directory("discard") as path,
        Child(module("bench.discard", *flags), path / "errors") as child,
    ):
        yield Stand(make_topic(int(child.line()), "single"), receiver, {"intake": child.pid}, fan_out=0)
