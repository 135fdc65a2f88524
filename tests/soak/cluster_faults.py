"""The faults of a cluster's rounds: each begins, and returns for how many seconds it lasts until everything heals."""

import random
import threading
from collections.abc import Callable
from typing import Protocol

from tests.soak.lab import NODES, SERVERS, SMALL_DISKS, Lab

TURN_S = 5.0
TURNS = 3


class Disturbed(Protocol):
    """The cluster, as faults reach it."""

    lab: Lab

    def start_machine(self, machine: str) -> None:
        """Start a machine that was killed."""

    def wipe(self, machine: str) -> None:
        """Start a machine without its data, and wait until it is whole again."""


Fault = Callable[[Disturbed, str, random.Random], float]
Victims = Callable[[str, random.Random], list[str]]


def _owner(owner: str, rng: random.Random) -> list[str]:
    return [owner]


def _standby(owner: str, rng: random.Random) -> list[str]:
    return [_other(owner)]


def _servers(count: int) -> Victims:
    return lambda owner, rng: rng.sample(SERVERS, count)


def _everything(owner: str, rng: random.Random) -> list[str]:
    return [*SERVERS, *NODES]


def _both(*victims: Victims) -> Victims:
    return lambda owner, rng: [machine for each in victims for machine in each(owner, rng)]


def _each(act: Callable[[Lab, str], None], victims: Victims, least_s: float, most_s: float) -> Fault:
    def fault(cluster: Disturbed, owner: str, rng: random.Random) -> float:
        for machine in victims(owner, rng):
            act(cluster.lab, machine)
        return rng.uniform(least_s, most_s)

    return fault


def _cut(victims: Victims, least_s: float, most_s: float) -> Fault:
    def fault(cluster: Disturbed, owner: str, rng: random.Random) -> float:
        cluster.lab.cut(victims(owner, rng))
        return rng.uniform(least_s, most_s)

    return fault


def _of_role(act: Callable[[Lab, str, str], None], role: str, victims: Victims, most_s: float) -> Fault:
    return _each(lambda lab, node: act(lab, node, role), victims, 0, most_s)


def _wipe_then_kill(wiped: Victims, killed: Victims) -> Fault:
    def fault(cluster: Disturbed, owner: str, rng: random.Random) -> float:
        (first,) = wiped(owner, rng)
        cluster.wipe(first)
        second = next(
            machine for machine in rng.sample(killed(owner, rng), len(killed(owner, rng))) if machine != first
        )
        cluster.lab.kill(second)
        return rng.uniform(1, 12)

    return fault


def _come_and_go(cluster: Disturbed, owner: str, rng: random.Random) -> float:
    """The standby comes and goes every ten seconds."""
    for _ in range(TURNS):
        cluster.lab.kill(_other(owner))
        threading.Event().wait(TURN_S)
        cluster.start_machine(_other(owner))
        threading.Event().wait(TURN_S)
    return 0.0


def _slow_down(cluster: Disturbed, owner: str, rng: random.Random) -> float:
    """One server runs for a fifth of the time."""
    server = rng.choice(SERVERS)
    for _ in range(rng.randint(20, 50)):
        cluster.lab.pause(server)
        threading.Event().wait(0.2)
        cluster.lab.go_on(server)
        threading.Event().wait(0.05)
    return 0.0


def _flip_bits(cluster: Disturbed, owner: str, rng: random.Random) -> float:
    server = rng.choice(SERVERS)
    cluster.lab.kill(server)
    cluster.lab.flip_bits(server, rng)
    cluster.start_machine(server)
    return rng.uniform(2, 8)


def _fill(count: int) -> Fault:
    return _each(Lab.fill, lambda owner, rng: rng.sample(SMALL_DISKS, count), 3, 12)


FAULTS: dict[str, Fault] = {
    "owner killed": _each(Lab.kill, _owner, 0, 12),
    "owner cut off with its client": _cut(_owner, 4, 15),
    "owner paused": _each(Lab.pause, _owner, 3, 15),
    "owner and a server on the minority side": _cut(_both(_owner, _servers(1)), 4, 15),
    "two servers killed": _each(Lab.kill, _servers(2), 1, 10),
    "owner stopped": _each(Lab.stop, _owner, 0, 4),
    "a server cut off": _cut(_servers(1), 3, 12),
    "all servers killed": _each(Lab.kill, _servers(3), 1, 10),
    "standby killed": _each(Lab.kill, _standby, 0, 8),
    "a server paused": _each(Lab.pause, _servers(1), 3, 12),
    "standby and a server cut off": _cut(_both(_standby, _servers(1)), 4, 12),
    "a server killed": _each(Lab.kill, _servers(1), 1, 10),
    "two servers paused": _each(Lab.pause, _servers(2), 3, 12),
    "all servers paused": _each(Lab.pause, _servers(3), 3, 12),
    "everything killed": _each(Lab.kill, _everything, 0, 3),
    "standby paused": _each(Lab.pause, _standby, 3, 12),
    "the owner's intake killed": _of_role(Lab.kill_role, "intake", _owner, 3),
    "the owner's dispatch killed": _of_role(Lab.kill_role, "dispatch", _owner, 3),
    "the owner's dispatch paused": _of_role(Lab.pause_role, "dispatch", _owner, 12),
    "the owner's intake paused": _of_role(Lab.pause_role, "intake", _owner, 12),
    "the standby's router killed": _of_role(Lab.kill_role, "standby", _standby, 3),
    "standby wiped, then the owner killed": _wipe_then_kill(_standby, _owner),
    "a server wiped, then another killed": _wipe_then_kill(_servers(1), _servers(3)),
    "standby comes and goes": _come_and_go,
    "a disk full": _fill(1),
    "two disks full": _fill(2),
    "bits flipped in one replica": _flip_bits,
    "a slow server": _slow_down,
}


def _other(node: str) -> str:
    return NODES[1 - NODES.index(node)]
