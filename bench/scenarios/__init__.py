"""The scenarios: each module names its goals and measures them. A round's common measures are made once."""

import http.client
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from bench.event import stamped, template
from bench.lab import Lab, Measure, Receiver, Stand
from bench.report import Goal, Sample
from bench.server import Target

LARGE = (1000, 1024)  # a batch: the most events, and the preferred kilobytes


class Round:
    """One round of all scenarios: their ratios are made of measures of the same round."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._measures: dict[str, Measure] = {}

    def once(self, name: str, measure: Callable[[Lab], Measure]) -> Measure:
        """A measure that several scenarios need."""
        if name not in self._measures:
            made = self._measures[name] = measure(self.lab)
            self.lab.say(f"{name}: {describe(made)}; others used {self.lab.others[-1]:.0%} of the machine")
        return self._measures[name]

    def alternate(self, stands: Mapping[str, Stand]) -> list[Measure]:
        """Measures of servers that are compared, in turns: two that follow each other may be of different minutes."""
        measures = self.lab.alternate(list(stands.values()))
        for name, made in zip(stands, measures, strict=True):
            self.lab.say(f"{name}: {describe(made)}; others used {self.lab.others[-1]:.0%} of the machine")
        return measures


class Scenario(Protocol):
    """The protocol of the modules of this package. `ROUNDS` is 1 for one that repeats within itself."""

    @property
    def NAME(self) -> str: ...

    @property
    def GOALS(self) -> Sequence[Goal]: ...

    @property
    def ROUNDS(self) -> int: ...

    def measure(self, round: Round) -> list[Sample]:
        """One round of it."""


@contextmanager
def standing(
    lab: Lab, batch: int = 1, batching: tuple[int, int] = (1, 64), environment: Mapping[str, str] | None = None
) -> Iterator[Stand]:
    """A server with one subscription, for publishes of N events."""
    with lab.receiver() as receiver, lab.recapito(environment) as server:
        target = server.topic("standing")
        server.subscribe("standing", "only", receiver.url(), batching)
        yield Stand(target, receiver, {**server.pids(), "receiver": receiver.pid}, batch)


def ratio(row: str, above: Measure, below: Measure, words: str) -> Sample:
    """The ratio of two rates."""
    detail = f"{above.rate:,.0f}/s against {below.rate:,.0f}/s {words}"
    return Sample(row, above.rate / below.rate, detail, "; ".join(filter(None, (above.fault, below.fault))))


def describe(measure: Measure) -> str:
    """A measure in one line."""
    cpu = ", ".join(f"{name} {spent:.1f}" for name, spent in measure.cpu_us.items())
    fault = f"; DOES NOT COUNT: {measure.fault}" if measure.fault else ""
    return (
        f"{measure.rate:,.0f}/s, on its way {measure.p50_ms:.1f} ms (p99 {measure.p99_ms:.1f}), publish p99 "
        f"{measure.publish_p99_ms:.1f} ms, CPU µs each: {cpu}{fault}"
    )


def delivered_after(start: float, target: Target, receiver: Receiver, longest_s: float) -> float:
    """Publish an event, again and again until it is accepted, and wait for its delivery; the seconds since `start`."""
    accepted = False
    while not receiver.tally.events and time.monotonic() < start + longest_s:
        accepted = accepted or publish_one(target)
        time.sleep(0.005)
    return time.monotonic() - start


def publish_one(target: Target) -> bool:
    """Publish an event on a connection of its own; whether it was acknowledged."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=5)
    try:
        body = stamped(template(1), time.monotonic_ns())
        connection.request("POST", target.path, body, {"aeg-sas-key": target.key, "Content-Type": "application/json"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
