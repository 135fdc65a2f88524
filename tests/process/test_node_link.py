"""The link between a node and its roles: a role has the last view, whenever it starts."""

import asyncio
import os
from time import monotonic_ns

from recapito.domain import limits
from recapito.domain.cluster.lease import SEND_NS
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView, PartitionView
from recapito.process.node_link import LinkEnds, NodeLink


def view(term: int, renewed_at: int = 0) -> ClusterView:
    return ClusterView("a", NodeState.OWNER, "a", "http://a", term, renewed_at=renewed_at)


def test_a_role_that_starts_late_has_the_last_view() -> None:
    """However many views were told before, the role begins with the newest, and hears each later one."""

    async def run() -> list[int]:
        ends, heard = LinkEnds(("intake",)), []
        for term in range(100):
            ends.tell(view(term))
        link = NodeLink(os.dup(ends.of_roles["intake"].fileno()), "a")
        assert link.view.state is NodeState.STARTING
        assert not link.may_send()
        ends.running = {"intake"}
        arrived = asyncio.Event()

        def note() -> None:
            heard.append(link.view.term)
            arrived.set()

        link.listen(note)
        await arrived.wait()
        arrived.clear()
        ends.tell(view(100, monotonic_ns()))
        await arrived.wait()
        assert link.may_send()
        arrived.clear()
        ends.tell(view(101, monotonic_ns() - SEND_NS))
        await arrived.wait()
        assert not link.may_send()
        asyncio.get_running_loop().remove_reader(link._end.fileno())
        link._end.close()
        ends.close()
        return heard

    assert asyncio.run(run()) == [99, 100, 101]


def test_a_role_that_is_slow_stops_nobody() -> None:
    """A role that reads nothing costs the node nothing."""
    ends = LinkEnds(("intake", "dispatch"))
    ends.running = {"intake", "dispatch"}
    for term in range(1000):
        ends.tell(view(term))
    ends.close()


def test_the_largest_view_is_one_datagram() -> None:
    """Its names and URLs may be as long as those of hosts, for as many members and partitions as there may be."""
    url = f"https://{'h' * 253}:65535"
    names = [f"{number:02}".ljust(64, "n") for number in range(limits.CLUSTER_MEMBERS)]
    partitions = [PartitionView(number, NodeState.OWNER, names[0], url) for number in range(limits.PARTITIONS)]
    members, urls = dict.fromkeys(names, "owner"), dict.fromkeys(names, url)
    largest = ClusterView(names[0], NodeState.OWNER, members=members, urls=urls, partitions=partitions)

    async def run() -> None:
        ends, arrived = LinkEnds(("intake",)), asyncio.Event()
        link = NodeLink(os.dup(ends.of_roles["intake"].fileno()), "a")
        ends.running = {"intake"}
        link.listen(arrived.set)
        ends.tell(largest)
        await asyncio.wait_for(arrived.wait(), 20)
        assert link.view == largest
        asyncio.get_running_loop().remove_reader(link._end.fileno())
        link._end.close()
        ends.close()

    asyncio.run(run())
