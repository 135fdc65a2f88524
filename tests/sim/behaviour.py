"""How endpoints behave: each behaviour says what a request is answered, and after how long.

A reply of None never comes. Every endpoint takes what arrives, whatever it answers: one that fails is one that lies.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import SECOND


class Reply(NamedTuple):
    """An answer, `delay_s` seconds after the request."""

    delay_s: float
    outcome: Outcome


class Behaviour(NamedTuple):
    """One way to behave. `reply` is asked once for each request, with the time in seconds."""

    name: str
    reply: Callable[[random.Random, float], Reply | None]


def answering(status: int, least_s: float = 0.005, most_s: float = 0.3, retry_after_s: int = 0) -> Behaviour:
    """Answers everything with one status."""

    def reply(rng: random.Random, now_s: float) -> Reply:
        return Reply(rng.uniform(least_s, most_s), answered(status, retry_after_s * SECOND, f"simulated {status}"))

    return Behaviour(f"{status} after {least_s}–{most_s} s", reply)


HEALTHY = answering(200)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One behaviour for each request, the last for all that follow."""
    left = list(behaviours)

    def reply(rng: random.Random, now_s: float) -> Reply | None:
        behaviour = left.pop(0) if len(left) > 1 else left[0]
        return behaviour.reply(rng, now_s)

    return Behaviour("in turn", reply)


def after(seconds: float, status: int = 200) -> Behaviour:
    """Answers after exactly so long."""
    return answering(status, seconds, seconds)


def slow() -> Behaviour:
    """Takes its time, but not too much."""
    return answering(200, 1.0, 29.5)._replace(name="slow")


def late(status: int = 200, least_s: float = 31.0, most_s: float = 179.0) -> Behaviour:
    """Answers after the 30 seconds, while it is still listened to."""
    return answering(status, least_s, most_s)._replace(name=f"late {status}")


def too_late() -> Behaviour:
    """Answers after the exchange has stopped listening."""
    return answering(200, 180.5, 400.0)._replace(name="too late")


def hanging() -> Behaviour:
    """Accepts and never answers."""
    return Behaviour("hanging", lambda rng, now_s: None)


def refusing() -> Behaviour:
    """Nothing listens on the port."""
    outcome = Outcome(Result.SOCKET_ERROR, detail="connection refused")
    return Behaviour("refusing", lambda rng, now_s: Reply(rng.uniform(0.0001, 0.01), outcome))


def unresolvable() -> Behaviour:
    """Its name is not found, sometimes after a long wait."""
    outcome = Outcome(Result.RESOLUTION_ERROR, detail="name not found")
    return Behaviour("unresolvable", lambda rng, now_s: Reply(rng.uniform(0.001, 5), outcome))


def throttling(rng: random.Random) -> Behaviour:
    """Answers a few, then asks for patience."""
    status, share = rng.choice((429, 503)), rng.uniform(0.2, 0.8)
    retry_after_s = rng.choice((0, 1, 15, 100, 1000, 7200, 10**9))

    def reply(rng: random.Random, now_s: float) -> Reply:
        busy = rng.random() < share
        outcome = answered(status, retry_after_s * SECOND) if busy else answered(200)
        return Reply(rng.uniform(0.005, 0.2), outcome)

    return Behaviour(f"throttling {status}, {retry_after_s} s", reply)


def flapping(rng: random.Random) -> Behaviour:
    """Up for a while, down for a while."""
    period_s, status = rng.choice((7.0, 60.0, 900.0, 7000.0)), rng.choice((500, 502, 503, 404))

    def reply(rng: random.Random, now_s: float) -> Reply:
        up = int(now_s / period_s) % 2 == 0
        return Reply(rng.uniform(0.005, 0.5), answered(200 if up else status))

    return Behaviour(f"flapping {period_s:.0f} s, {status}", reply)


def moody(rng: random.Random) -> Behaviour:
    """Anything, request by request."""
    moods = [draw_sickness(rng) for _ in range(3)] + [HEALTHY]
    return Behaviour("moody", lambda rng, now_s: rng.choice(moods).reply(rng, now_s))


FAILURES = (302, 400, 401, 403, 404, 408, 410, 413, 429, 500, 502, 503)
TIMED = ("late", "too late", "hanging", "moody")


def draw_sickness(rng: random.Random, timed: bool = True) -> Behaviour:
    """One way to be ill; without `timed`, only such as answer within the 30 seconds."""
    kind = rng.choice(("dead", "dead", "down", "slow", "throttling", "flapping", "refusing", "unresolvable", *TIMED))
    if kind in TIMED and not timed:
        kind = "down"
    match kind:
        case "dead":
            return answering(rng.choice(FAILURES))
        case "slow":
            return slow()
        case "throttling":
            return throttling(rng)
        case "flapping":
            return flapping(rng)
        case "refusing":
            return refusing()
        case "unresolvable":
            return unresolvable()
        case "late":
            return late(rng.choice((200, 200, 200, 500, 404)))
        case "too late":
            return too_late()
        case "hanging":
            return hanging()
        case "moody":
            return moody(rng)
    return answering(rng.choice((500, 503)))
