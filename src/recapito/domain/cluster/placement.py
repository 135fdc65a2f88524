"""Which node should own which partition: a pure rule of the partitions and the nodes that can own.

The law: every node that knows the same nodes comes to the same result; the shares of nodes that can own every
partition differ by one at most; and a node that comes or goes moves few of the partitions of the others. A wrong result
costs time, never an event.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b

from recapito.domain.cluster.member import NodeState, Sighting, clock_problem
from recapito.domain.instant import SECOND

YIELD_NS = 3 * SECOND
"""A node that is not the preferred one leaves a free partition to the preferred one for this long, and an owner hands
over after another node was preferred for this long."""
SETTLE_NS = 4 * SECOND
"""A node that has just joined owns nothing for this long: nodes that start together share from the beginning."""
HAND_OVERS_NS = 5 * SECOND
"""A node hands over one partition at a time, this far apart."""
SPARE_NS = 10 * SECOND
"""A node that has just joined loads no roles for the partitions of others for this long: its own ones load first."""
RETURN_NS = 60 * SECOND
"""A partition that came back to a node that had handed it over stays there for this long."""

_ABLE = (NodeState.STANDBY, NodeState.CLAIMING, NodeState.OWNER)


def able_nodes(members: Iterable[Sighting]) -> dict[str, Collection[int]]:
    """The nodes that may own, which are not drained and have right clocks, each with the partitions that it lacks."""
    return {
        seen.member.name: seen.member.lacks
        for seen in members
        if seen.member.state in _ABLE and clock_problem(seen) is None
    }


def place(partitions: int, nodes: Mapping[str, Collection[int]]) -> dict[int, str]:
    """The preferred owner of each partition that a node can own; `nodes` has the partitions that each one lacks.

    Rendezvous hashing with a bound: a partition goes to the node with the highest hash that has room. A node that
    lacks a partition leaves it to another one, above that one's share; one that lacks all of them has no share.
    """
    nodes = {node: lacks for node, lacks in nodes.items() if len(lacks) < partitions}
    share, rest = divmod(partitions, max(len(nodes), 1))  # as many nodes as `rest` says get one more
    owned: Counter[str] = Counter()
    placed = {}
    for partition in range(partitions):
        has_more = sum(owned[node] > share for node in nodes) < rest
        ranked = {
            node: (owned[node] < share + has_more, _rank(partition, node), node)
            for node, lacks in nodes.items()
            if partition not in lacks
        }
        if ranked:
            placed[partition] = max(ranked, key=ranked.__getitem__)
            owned[placed[partition]] += 1
    return placed


def heirs_of(owner: str, partitions: int, nodes: Mapping[str, Collection[int]]) -> dict[int, str]:
    """The preferred owner of each partition once this owner is gone."""
    return place(partitions, {node: lacks for node, lacks in nodes.items() if node != owner})


def _rank(partition: int, node: str) -> bytes:
    return blake2b(f"{partition} {node}".encode(), digest_size=8).digest()
