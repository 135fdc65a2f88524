"""How long an event is on its way, from its publishing to its delivery, at half the highest rate."""

from bench.lab import Lab, Measure
from bench.report import Goal, Sample
from bench.scenarios import Round
from bench.scenarios.single import durable

NAME = "latency"
ROUNDS = 3
GOALS = (Goal("latency", "p99 from publish to delivery at half the rate", 50.0, "ms", at_least=False),)


def measure(round: Round) -> list[Sample]:
    """The 99th percentile, by the instant at which an event was due to be published."""
    rate = durable(round).rate / 2
    made = round.once("half rate", lambda lab: _at_rate(lab, rate))
    return [Sample("latency", made.p99_ms, f"p50 {made.p50_ms:.1f} ms at {made.rate:,.0f}/s", made.fault)]


def _at_rate(lab: Lab, rate: float) -> Measure:
    with lab.receiver() as receiver, lab.recapito() as server:
        target = server.topic("latency")
        server.subscribe("latency", "only", receiver.url())
        return lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid}, rate=rate)
