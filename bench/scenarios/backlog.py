"""A million events behind one dead endpoint: another topic's rate, the memory of it all, and starting again."""

import time
from collections.abc import Iterator

from bench.lab import Lab, Measure, Receiver
from bench.process import dead_port, kill
from bench.report import Goal, Sample
from bench.scenarios import Round, delivered_after, describe, ratio
from bench.server import Recapito, Target

NAME = "backlog"
ROUNDS = 1
REPEATS = 3
GOALS = (
    Goal("backlog", "another topic's rate beside 1,000,000 events behind a dead endpoint", 0.8),
    Goal("memory", "memory of all processes meanwhile", 400.0, "MB", at_least=False),
    Goal("kill intake", "delivering again after SIGKILL of intake", 2.0, "s", at_least=False),
    Goal("kill dispatch", "delivering again after SIGKILL of dispatch", 2.0, "s", at_least=False),
    Goal("kill all", "delivering again after SIGKILL of all, and a start", 2.0, "s", at_least=False),
)
EVENTS, QUICK_EVENTS = 1_000_000, 100_000
LONGEST_S = 30.0


def measure(round: Round) -> list[Sample]:
    """All of it, on one server."""
    lab = round.lab
    with lab.receiver() as receiver, lab.recapito() as server, dead_port() as dead:
        target = server.topic("living")
        server.subscribe("living", "only", receiver.url())
        before = [_rate(lab, "before", target, receiver, server) for _ in range(REPEATS)]
        with server.memory() as peak:
            _pile_up(lab, server, receiver, dead)
            after = [_rate(lab, "beside", target, receiver, server) for _ in range(REPEATS)]
        samples = [ratio("backlog", beside, alone, "before") for beside, alone in zip(after, before, strict=True)]
        samples.append(Sample("memory", max(peak), f"{len(peak)} looks, resident, shared pages counted in each"))
        return samples + [sample for _ in range(REPEATS) for sample in _recoveries(lab, server, target, receiver)]


def _rate(lab: Lab, name: str, target: Target, receiver: Receiver, server: Recapito) -> Measure:
    made = lab.run(target, receiver, {**server.pids(), "receiver": receiver.pid})
    lab.say(f"{name}: {describe(made)}; others used {lab.others[-1]:.0%} of the machine")
    return made


def _pile_up(lab: Lab, server: Recapito, receiver: Receiver, dead: int) -> None:
    target = server.topic("dying")
    server.subscribe("dying", "only", f"http://127.0.0.1:{dead}/")
    events, began_at = QUICK_EVENTS if lab.quick else EVENTS, time.monotonic()
    lab.pile_up(target, receiver, events)
    lab.say(
        f"{events:,} events piled up in {time.monotonic() - began_at:.0f} s, {server.resident_mb():.0f} MB resident"
    )


def _recoveries(lab: Lab, server: Recapito, target: Target, receiver: Receiver) -> Iterator[Sample]:
    for role in ("intake", "dispatch", "all"):
        receiver.tally.reset()
        killed_at = time.monotonic()
        if role == "all":
            server.kill_all()
            killed_at = time.monotonic()
            server.start_again()
        else:
            kill(server.role(role))
        took_s = delivered_after(killed_at, target._replace(port=server.port), receiver, LONGEST_S)
        lab.say(f"SIGKILL of {role}: a new event is delivered {took_s:.2f} s later")
        fault = "" if took_s < LONGEST_S else f"nothing was delivered within {LONGEST_S:.0f} s"
        yield Sample(f"kill {role}", took_s, "from the kill to the delivery of an event published after it", fault)
        time.sleep(1.0)  # let the roles settle before the next one
