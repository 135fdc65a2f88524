"""A node of a cluster as the others see it, and the reasons to refuse one.

The law: a member that reads other formats than the owner writes never follows nor owns, and a member whose clock
is wrong does not own: an owner hands over once another could own.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from recapito.domain.instant import MILLISECOND, SECOND

CLOCK_OFF_NS = SECOND
CLOCK_LOOKS = 5  # in a row: words that the servers store late look like those of a clock that is behind


class NodeState(StrEnum):
    """The part that a node plays. A drained node follows and forwards, and never tries to own."""

    STARTING = "starting"
    STANDBY = "standby"
    CLAIMING = "claiming"
    OWNER = "owner"
    DRAINED = "drained"


def state_among(states: Iterable[NodeState]) -> NodeState:
    """The state of a node with these states in its partitions: the most that it does."""
    found = set(states)
    order = (NodeState.OWNER, NodeState.CLAIMING, NodeState.DRAINED, NodeState.STANDBY)
    return next((state for state in order if state in found), NodeState.STARTING)


class ClusterMember(msgspec.Struct, frozen=True):
    """The words of a node about itself, each second.

    id: random, of one run of the node: two nodes with one name differ in it.
    url: where other nodes reach its HTTP server.
    formats: the versions of the stored formats that it reads and writes.
    behind: the messages of the streams that it has not applied yet; None if it does not know.
    wall: its clock when it said this, in ns.
    lacks: the partitions that it cannot own: it has not loaded their copies, its roles end again and again, or it is
        drained or stops, which is all.
    """

    name: str
    id: str
    url: str
    state: NodeState
    version: str
    formats: str
    behind: int | None
    wall: int
    lacks: list[int] = []


class Sighting(NamedTuple):
    """A member, and the cluster's own time at which its words were stored, in ns."""

    member: ClusterMember
    heard_at: int

    @property
    def skew(self) -> int:
        """The nanoseconds by which the member's clock is ahead of the cluster's; the way there counts as behind."""
        return self.member.wall - self.heard_at


def clock_problem(sighting: Sighting) -> str | None:
    """The reason why a member's clock is unfit; None if it is right."""
    if abs(sighting.skew) <= CLOCK_OFF_NS:
        return None
    off = abs(sighting.skew) // MILLISECOND / 1000
    side = "ahead of" if sighting.skew > 0 else "behind"
    return f"The clock of node '{sighting.member.name}' is {off:g} s {side} the cluster's; synchronize it, by NTP say."


def has_successor(id: str, members: Iterable[Sighting]) -> bool:
    """Whether another node stands by with a right clock."""
    return any(
        seen.member.id != id and seen.member.state is NodeState.STANDBY and clock_problem(seen) is None
        for seen in members
    )


def admission_problem(name: str, id: str, formats: str, others: Iterable[Sighting]) -> str | None:
    """The reason why a node may not join these members; None if it may."""
    for other in (sighting.member for sighting in others):
        if other.id == id:
            continue
        if other.name == name:
            return (
                f"cluster.node: another node named '{name}' lives, at {other.url}. Give each node its own name; a node "
                "that was killed is forgotten after five seconds."
            )
        if other.formats != formats:
            return (
                f"Node '{other.name}' runs version {other.version} with formats {other.formats}, this node has formats "
                f"{formats}: run the same version on both. To upgrade, stop all nodes, run `recapito cluster upgrade` "
                "of the new version, and start them with it."
            )
    return None
