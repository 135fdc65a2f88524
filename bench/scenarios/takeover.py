"""A takeover of the whole program: the owner is killed, or stopped, while many deliveries are parked.

One of two subscriptions of a topic fails, so that its deliveries are parked; the other one is well. Events are
published at the other node, one after the other, from before the end of the owner until that node owns and delivers to
the subscription that is well. The longest time between two acknowledgements, and between two deliveries, is the result.
"""

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import closing

from bench.lab import Lab, Receiver
from bench.nodes import checks, cluster, until
from bench.process import Machine
from bench.report import Goal, Sample
from bench.scenarios import LARGE, Round, publish_one
from bench.server import Recapito, Target, call
from tests.kit.http_server import CannedReply, LoopbackServer

NAME = "takeover"
ROUNDS = 1
GOALS = (
    Goal("killed", "an owner with 10,000 parked is killed: no publish or no delivery for", 12.0, "s", at_least=False),
    Goal("stopped", "an owner with 10,000 parked is stopped: the same", 2.0, "s", at_least=False),
    Goal("killed, large", "an owner with 1,000,000 parked is killed: the same", 45.0, "s", at_least=False),
    Goal("stopped, large", "an owner with 1,000,000 parked is stopped: the same", 2.0, "s", at_least=False),
)
FEW, MANY = 10_000, 1_000_000
EVENT_BYTES = 400
STREAM_BYTES = 4 << 30
LATER = CannedReply(500, headers={"Retry-After": "3600"})  # so that retries take no part
OWN_POLICY = {"maxDeliveryAttempts": 29, "eventTimeToLiveInMinutes": 1440}  # a lane with one is never held
PARKED_S, STANDS_BY_S, SETTLED_S, LONGEST_S = 900.0, 300.0, 20.0, 180.0


def measure(round: Round) -> list[Sample]:
    """A kill and a stop with few parked, and with many."""
    samples = _measure(round.lab, "", FEW)
    if not round.lab.quick:
        samples += _measure(round.lab, ", large", MANY)
    for sample in samples:
        round.lab.say(f"{sample.row}: {sample.detail}")
    return samples


def _measure(lab: Lab, suffix: str, parked: int) -> list[Sample]:
    open_metrics = {"RECAPITO_METRICS_AUTHENTICATE": "false"}
    with (
        cluster(lab, environment=open_metrics, stream_bytes=STREAM_BYTES) as nodes,
        lab.receiver() as receiver,
        closing(LoopbackServer(lambda request: LATER)) as failing,
        nodes.start("one") as first,
    ):
        until(lambda: "dispatch" in checks(first.port), "the first node owns")
        with nodes.start("two") as second:
            target = first.topic("takeover")
            first.subscribe("takeover", "failing", failing.url, LARGE, retryPolicy=OWN_POLICY)
            lab.pile_up(target, receiver, parked, EVENT_BYTES)
            until(lambda: _shown(first, "recapito_parked", "failing") == parked, "all are parked", PARKED_S)
            first.subscribe("takeover", "well", receiver.url())
            killed = _take_over(lab, f"killed{suffix}", first.kill_all, second, target, receiver)
            first.start_again()
            stopped = _take_over(lab, f"stopped{suffix}", second.stop, first, target, receiver)
    return [killed, stopped]


def _take_over(
    lab: Lab, row: str, end: Callable[[], None], heir: Recapito, target: Target, receiver: Receiver
) -> Sample:
    """End the owner while events are published at its heir, which follows the streams until then."""
    until(lambda: _shown(heir, "recapito_cluster_state", "standby") == 1, "the other node stands by", STANDS_BY_S)
    time.sleep(SETTLED_S)
    machine, ending = Machine(), threading.Thread(target=end)
    published, delivered = Silence(), Silence()
    began = owned_at = time.monotonic()
    ending.start()
    owns, seen = False, receiver.tally.events
    while min(published.ended, delivered.ended) <= owned_at and time.monotonic() < began + LONGEST_S:
        if publish_one(target._replace(port=heir.port)):
            published.end()
        if receiver.tally.events > seen:
            seen = receiver.tally.events
            delivered.end()
        if not owns and _shown(heir, "recapito_cluster_state", "owner") == 1:
            owns, owned_at = True, time.monotonic()
        elif not owns:
            owned_at = time.monotonic()
        time.sleep(0.02)
    ending.join()
    lab.others.append(machine.others())
    detail = f"no acknowledgement for {published.longest_s:.2f} s, no delivery for {delivered.longest_s:.2f} s"
    fault = "" if owns else f"the other node did not own within {LONGEST_S:.0f} s"
    return Sample(row, max(published.longest_s, delivered.longest_s), detail, fault)


class Silence:
    """The longest time between two things that happen again and again."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.ended = time.monotonic()

    def end(self) -> None:
        now = time.monotonic()
        self.longest_s, self.ended = max(self.longest_s, now - self.ended), now


def _shown(node: Recapito, metric: str, label: str) -> float:
    """A metric of a node, of the sample that has a label with this value; 0 while its roles change."""
    try:
        told = str(call(node.port, "GET", "/metrics"))
    except (OSError, http.client.HTTPException, RuntimeError):
        return 0.0
    lines = [line for line in told.splitlines() if line.startswith(f"{metric}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if f'="{label}"' in line)
