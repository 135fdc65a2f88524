"""A hundred endpoints answer and a hundred hang, twenty of them in name look-up: what do those that answer notice?"""

from pathlib import Path

import bench
from bench.lab import Lab, Measure
from bench.report import Goal, Sample
from bench.scenarios import Round

NAME = "hung"
ROUNDS = 3
GOALS = (Goal("hung", "p99 of 100 endpoints beside 100 that hang, against alone", 2.0, at_least=False),)
ANSWERING, HUNG, HUNG_NAMES = 100, 80, 20
EVENTS_S = 20.0  # each goes to every endpoint
LONG_S = 40.0  # beyond the 30 s after which hung requests are given up
SHORT_S = 6.0
_HUNG_NAMES = Path(bench.__file__).parent / "hung_names"


def measure(round: Round) -> list[Sample]:
    """How much longer events are on their way beside endpoints that hang."""
    alone = round.once("100 alone", lambda lab: _answering(lab, beside=False))
    beside = round.once("100 beside 100 hung", lambda lab: _answering(lab, beside=True))
    detail = f"{beside.p99_ms:.1f} ms against {alone.p99_ms:.1f} ms"
    return [Sample("hung", beside.p99_ms / alone.p99_ms, detail, alone.fault or beside.fault)]


def _answering(lab: Lab, beside: bool) -> Measure:
    with (
        lab.receiver(ANSWERING, HUNG) as receiver,
        lab.recapito(environment={"PYTHONPATH": str(_HUNG_NAMES)}) as server,
    ):
        target = server.topic("mixed")
        urls = [receiver.url(n) for n in range(ANSWERING)]
        if beside:
            urls += [f"http://127.0.0.1:{port}/" for port in receiver.hung]
            urls += [f"http://name-{n}.hung.invalid/" for n in range(HUNG_NAMES)]
        for n, url in enumerate(urls):
            server.subscribe("mixed", f"number-{n}", url)
        seconds = SHORT_S if lab.quick else LONG_S
        pids = {**server.pids(), "receiver": receiver.pid}
        return lab.run(target, receiver, pids, fan_out=ANSWERING, rate=EVENTS_S, seconds=seconds)
