"""The draw of a seed: the size of its world, its faults and their times. Each seed has a mix of its own.

The law of the swarm: no seed has everything, because faults mask each other.
"""

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from recapito.domain.profiles.profile import names
from tests.sim.faults import Trap
from tests.sim.publication import SUBJECTS
from tests.sim.tiny import AMPLE, Tiny, draw_tiny

HOUR_S = 3600.0
DAMAGES = ("event", "lane", "record")
FAULTS = ("crash", "stop", "trap", "suspend", "sickness", "vault", "slow disk")


@dataclass
class Episode:
    """Some seconds in which much happens: where it starts, and how much of what."""

    at_s: float
    spread_s: float
    publishes: int
    changes: int
    faults: list[str]


class Picky(NamedTuple):
    """A subscription whose endpoint refuses some subjects for good: with which status, batch and retry policy."""

    subjects: tuple[str, ...]
    status: int
    batch: int
    policy: tuple[int, int] | None


@dataclass
class Plan:
    """The mix of one seed. A calm one has no crashes, no time-outs and no failing stores."""

    seed: int
    calm: bool
    horizon_s: float
    default_profile: str
    profiles: list[str | None]
    subscriptions: list[int]
    hosts: int
    episodes: list[Episode]
    timed: bool
    traps: tuple[Trap, ...]
    small_slots: int | None
    small_late: int | None
    small_cache: bool
    keep_for_ever: bool
    sleepers: int
    kinds: list[str] = field(default_factory=list)
    redrives_s: list[float] = field(default_factory=list)  # when an operator redrives all dead letters
    replays_s: list[float] = field(default_factory=list)  # when an operator replays what a subscription has had
    limits_s: list[float] = field(default_factory=list)  # when an operator sets or lifts limits
    picky: list[Picky] = field(default_factory=list)
    drip_s: list[float] = field(default_factory=list)  # when some events are published besides
    damages_s: list[tuple[float, str]] = field(default_factory=list)  # when something rots, and what
    pages_s: list[float] = field(default_factory=list)  # when a page of a file rots, if there are files
    full_disks_s: list[tuple[float, float]] = field(default_factory=list)  # when the disk is full, and for how long
    start_crashes: float = 0.0  # how likely a role dies while it starts
    tiny: Tiny = AMPLE


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"{seed}/plan")
    calm = rng.random() < 0.12
    kinds = ["sickness", "suspend", "vault"] if calm else _draw_kinds(rng)
    if calm:
        kinds.remove("suspend")  # a suspended machine sees time-outs
        kinds.append("slow disk")
    horizon_s = rng.uniform(24, 30) * HOUR_S
    topics = rng.randrange(1, 4)
    return Plan(
        seed=seed,
        calm=calm,
        horizon_s=horizon_s,
        default_profile=rng.choice(("2021-03", "2021-03", rng.choice(names()))),
        profiles=[rng.choice((None, rng.choice(names()))) for _ in range(topics)],
        subscriptions=[rng.choice((1, 2, 2, 3, 4, 6)) for _ in range(topics)],
        hosts=rng.randrange(2, 6),
        episodes=[_draw_episode(rng, horizon_s, kinds) for _ in range(rng.randrange(6, 12))],
        timed=not calm and rng.random() < 0.6,
        traps=tuple(rng.sample(list(Trap), rng.randrange(1, 5))),
        small_slots=rng.choice((None, None, 4, 8)),
        small_late=rng.choice((None, None, None, 2)),
        small_cache=rng.random() < 0.3,
        keep_for_ever=rng.random() < 0.1,
        sleepers=rng.choice((0, 0, 0, 2, 8)),
        kinds=kinds,
        redrives_s=_draw_redrives(seed, horizon_s),
        replays_s=_draw_replays(seed, horizon_s),
        limits_s=_draw_limits(seed, horizon_s),
        **_draw_picky(seed, horizon_s),
        damages_s=_draw_damages(seed, horizon_s, repeated=_repeats(seed, horizon_s)),
        pages_s=[] if calm else _draw_pages(seed, horizon_s),
        full_disks_s=[] if calm else _draw_full_disks(seed, horizon_s),
        start_crashes=0.0 if calm else random.Random(f"{seed}/start").choice((0.0, 0.0, 0.5, 0.9)),
        tiny=draw_tiny(seed),
    )


def _draw_redrives(seed: int, horizon_s: float) -> list[float]:
    """In every other seed, some instants; by dice of their own, so that all else is as it is without."""
    rng = random.Random(f"{seed}/redrives")
    return [rng.uniform(HOUR_S, horizon_s - HOUR_S) for _ in range(rng.choice((0, 0, 0, 1, 3, 6)))]


def _draw_replays(seed: int, horizon_s: float) -> list[float]:
    """In some of the seeds in which nothing is redriven, by dice of their own.

    Endpoints cannot tell a redriven event from a replayed one.
    """
    rng = random.Random(f"{seed}/replays")
    count = 0 if _draw_redrives(seed, horizon_s) else rng.choice((0, 0, 2, 6))
    return [rng.uniform(HOUR_S, horizon_s - HOUR_S) for _ in range(count)]


def _draw_limits(seed: int, horizon_s: float) -> list[float]:
    """In every third seed, by dice of their own."""
    rng = random.Random(f"{seed}/limits")
    return [rng.uniform(60, horizon_s - HOUR_S) for _ in range(rng.choice((0, 0, 0, 0, 4, 12)))]


def _repeats(seed: int, horizon_s: float) -> bool:
    """Whether some events have several deliveries to one subscription."""
    return bool(_draw_redrives(seed, horizon_s) or _draw_replays(seed, horizon_s))


def _draw_picky(seed: int, horizon_s: float) -> dict[str, Any]:
    """In one seed of four, endpoints that refuse some events, and enough events to hold them; by dice of their own."""
    rng = random.Random(f"{seed}/picky")
    if rng.random() < 0.75:
        return {}
    picky = [
        Picky(
            tuple(rng.sample(SUBJECTS, rng.randrange(1, len(SUBJECTS)))),
            rng.choice((400, 404, 408, 413, 429, 500, 500, 503)),
            rng.choice((1, 1, 3, 20)),
            rng.choice((None, None, (5, 1440), (30, 300))),
        )
        for _ in range(rng.randrange(1, 3))
    ]
    return {"picky": picky, "drip_s": [rng.uniform(60, horizon_s - HOUR_S) for _ in range(rng.randrange(5, 25))]}


def _draw_damages(seed: int, horizon_s: float, repeated: bool) -> list[tuple[float, str]]:
    """In every other seed, some instants; by dice of their own as well. Some seeds have one kind of damage only.

    A lane that begins again reads redriven and replayed events and their first lives, which endpoints cannot tell
    apart: lanes rot where nothing is repeated.
    """
    rng = random.Random(f"{seed}/damage")
    kinds = [kind for kind in rng.sample(DAMAGES, rng.randrange(1, len(DAMAGES) + 1)) if kind != "lane" or not repeated]
    count = rng.choice((0, 0, 0, 2, 5, 12))
    return [(rng.uniform(HOUR_S, horizon_s - HOUR_S), rng.choice(kinds or ["event"])) for _ in range(count)]


def _draw_pages(seed: int, horizon_s: float) -> list[float]:
    """In every other seed, by dice of their own. Lanes that wait for a page keep no promise about time."""
    rng = random.Random(f"{seed}/page times")
    count = 0 if _draw_picky(seed, horizon_s) else rng.choice((0, 0, 1, 3))
    return [rng.uniform(HOUR_S, horizon_s - HOUR_S) for _ in range(count)]


def _draw_full_disks(seed: int, horizon_s: float) -> list[tuple[float, float]]:
    """In every third seed, by dice of their own."""
    rng = random.Random(f"{seed}/full")
    count = rng.choice((0, 0, 0, 0, 1, 4))
    return [(rng.uniform(HOUR_S, horizon_s - HOUR_S), rng.choice((0.5, 5.0, 60.0, 900.0))) for _ in range(count)]


def _draw_kinds(rng: random.Random) -> list[str]:
    """At least three kinds of faults, sick endpoints among them."""
    others = [kind for kind in FAULTS if kind != "sickness"]
    return ["sickness", *rng.sample(others, rng.randrange(2, 5))]


def _draw_episode(rng: random.Random, horizon_s: float, kinds: list[str]) -> Episode:
    return Episode(
        at_s=rng.uniform(60, horizon_s - HOUR_S),
        spread_s=rng.choice((1.0, 10.0, 60.0, 1200.0)),
        publishes=rng.randrange(1, 7),
        changes=rng.choice((0, 0, 1, 2)),
        faults=[rng.choice(kinds) for _ in range(rng.randrange(1, 4))],
    )
