"""The link between a node and its roles: a role has the last view, whenever it starts."""

import asyncio
import os
from time import monotonic_ns

from recapito.domain.cluster.lease import SEND_NS
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView
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
