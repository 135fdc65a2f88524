"""Single events with everything on that looks on (history, a scrape each second, 1 % of traces), against all off."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.lab import Lab, Stand
from bench.process import Child, module
from bench.report import Goal, Sample
from bench.scenarios import Round, ratio, standing
from bench.server import call

NAME = "observed"
ROUNDS = 3
GOALS = (Goal("observed", "1 event in, 1 out, with history, metrics and 1 % of traces, against without", 0.9),)
SCRAPE_S = 1.0
OFF = {"RECAPITO_HISTORY_ENABLED": "false"}
ON = {"RECAPITO_HISTORY_ENABLED": "true", "RECAPITO_TELEMETRY_SAMPLE_RATIO": "0.01"}


def measure(round: Round) -> list[Sample]:
    """The rate under full observation, as a part of the rate without any."""
    with ExitStack() as stack:
        observed = stack.enter_context(_observed(round.lab))
        alone = stack.enter_context(standing(round.lab, environment=OFF))
        above, below = round.alternate({"observed": observed, "unobserved": alone})
    return [ratio("observed", above, below, "unobserved")]


@contextmanager
def _observed(lab: Lab) -> Iterator[Stand]:
    with lab.directory("collector") as path, Child(module("bench.collector"), path / "errors") as collector:
        endpoint = f"http://127.0.0.1:{collector.line()}/v1/traces"
        watched = {**ON, "RECAPITO_TELEMETRY_OTLP_ENDPOINT": endpoint}
        with standing(lab, environment=watched) as stand, _scraping(stand.target.port):
            yield stand


@contextmanager
def _scraping(port: int) -> Iterator[None]:
    """Ask for the metrics once a second."""
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(SCRAPE_S):
            call(port, "GET", "/metrics")

    scraping = threading.Thread(target=scrape)
    scraping.start()
    try:
        yield
    finally:
        over.set()
        scraping.join()
