"""The promises of the peers of a cluster, held against the model in memory and against real NATS servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

from recapito.clock import ManualClock
from recapito.contracts.peers import Peers
from recapito.domain.cluster.lease import LIFE_NS, Lease, LeaseSeen
from recapito.domain.cluster.member import ClusterMember, NodeState
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed
from recapito.peers.memory import Board, MemoryPeers

if TYPE_CHECKING:
    from tests.kit.nats_cluster import NatsCluster

OURS = Lease("a", "1", "http://a", 1)
THEIRS = Lease("b", "2", "http://b", 2)
_NAMES = count(1)
Story = Callable[[Peers, Peers, Callable[[], Awaitable[None]]], Awaitable[None]]


def in_memory(story: Story) -> None:
    """Two nodes on one board; a life passes by moving its clock."""
    clock = ManualClock(1_800_000_000 * SECOND)
    board = Board(clock.now)

    async def pass_life() -> None:
        clock.move_to(clock.now() + LIFE_NS)

    asyncio.run(story(MemoryPeers(board, "a"), MemoryPeers(board, "b"), pass_life))


def on_nats(nats: "NatsCluster", story: Story) -> None:
    """Two nodes with connections of their own; a life passes by itself."""
    from recapito.peers.nats import NatsPeers
    from recapito.stores.jetstream.client import open_client

    async def run() -> None:
        clients = [await open_client(nats.options()) for _ in range(2)]
        name = f"peers{next(_NAMES)}"
        one, two = (NatsPeers(client, name) for client in clients)
        await one.create(3)
        await two.create(3)

        async def pass_life() -> None:
            await asyncio.sleep(LIFE_NS / SECOND + 0.5)

        try:
            await story(one, two, pass_life)
        finally:
            for client in clients:
                await client.close()

    asyncio.run(run())


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.xdist_group("nats"))])
def play(request: pytest.FixtureRequest) -> Iterator[Callable[[Story], None]]:
    """Plays a story with peers of each kind."""
    if request.param == "memory":
        yield in_memory
    else:
        nats = request.getfixturevalue("nats")
        yield lambda story: on_nats(nats, story)


def member(name: str, state: NodeState = NodeState.STANDBY) -> ClusterMember:
    return ClusterMember(name, f"id-{name}", f"http://{name}", state, "1.0", "1.1", 0, time.time_ns())


def test_members_are_known_and_withdrawn(play: Callable[[Story], None]) -> None:
    """Each node sees all living ones by name, with their last words; one that withdraws is gone at once."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        assert list(await one.members()) == []
        await two.announce(member("b"))
        await one.announce(member("a"))
        await one.announce(member("a", NodeState.OWNER))
        for peers in (one, two):
            seen = [sighting.member for sighting in await peers.members()]
            assert [(each.name, each.state) for each in seen] == [("a", "owner"), ("b", "standby")]
        await one.withdraw("a")
        await one.withdraw("nobody")
        assert [sighting.member.name for sighting in await two.members()] == ["b"]

    play(story)


def test_the_lease_has_one_holder(play: Callable[[Story], None]) -> None:
    """A lease is put only on the revision that was seen: of two that try one succeeds, and its renewal goes on."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        assert await one.lease() == LeaseSeen(None)
        put = await asyncio.gather(one.put_lease(OURS, 0), two.put_lease(THEIRS, 0))
        assert sum(revision is not None for revision in put) == 1
        winner, holder = (one, OURS) if put[0] is not None else (two, THEIRS)
        seen = await two.lease()
        assert seen == LeaseSeen(holder, put[0] or put[1] or 0)
        renewed = await winner.put_lease(holder, seen.revision)
        assert renewed is not None
        assert await two.put_lease(THEIRS, seen.revision) is None
        freed = await winner.put_lease(Lease(term=3), renewed)
        assert freed is not None
        assert (await one.lease()).lease == Lease(term=3)
        assert await two.put_lease(THEIRS, freed) is not None

    play(story)


def test_the_dead_are_forgotten(play: Callable[[Story], None]) -> None:
    """After five seconds without a word a member and a lease are gone, and the lease can be put anew; papers stay."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        await one.announce(member("a"))
        assert await one.put_lease(OURS, 0) is not None
        assert await one.put_paper("keys", b"sealed")
        assert (await two.lease()).lease == OURS
        await pass_life()
        assert list(await two.members()) == []
        assert await two.lease() == LeaseSeen(None)
        assert await two.put_lease(THEIRS, 0) is not None
        assert await two.paper("keys") == b"sealed"

    play(story)


def test_a_paper_is_written_once(play: Callable[[Story], None]) -> None:
    """The first paper of a name stays."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        assert await two.paper("keys") is None
        assert await one.put_paper("keys", b"first")
        assert not await two.put_paper("keys", b"second")
        assert await two.paper("keys") == b"first"

    play(story)


def test_a_wish_to_drain_is_heard(play: Callable[[Story], None]) -> None:
    """The last wish for a node is heard by it, and by no other."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        assert await one.drain_asked("a") is None
        await two.ask_to_drain("a", True)
        assert await one.drain_asked("a") is True
        await two.ask_to_drain("a", False)
        assert await one.drain_asked("a") is False
        assert await two.drain_asked("b") is None

    play(story)


def test_news_wake_the_other_nodes(play: Callable[[Story], None]) -> None:
    """A lease that is given up and a wish are heard at once; a renewal is no news."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        hearing = asyncio.create_task(two.changed())
        await asyncio.sleep(0)
        held = await one.put_lease(OURS, 0)
        assert held is not None
        await two.lease()
        assert not hearing.done()
        assert await one.put_lease(Lease(term=1), held) is not None
        await asyncio.wait_for(hearing, 20)
        assert (await two.lease()).lease == Lease(term=1)
        hearing = asyncio.create_task(one.changed())
        await asyncio.sleep(0)
        await one.lease()
        await two.ask_to_drain("a", True)
        await asyncio.wait_for(hearing, 20)

    play(story)


def test_a_member_can_have_news(play: Callable[[Story], None]) -> None:
    """Nodes that wait hear an announcement with news at once, and find its words."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        hearing, told = asyncio.create_task(two.changed()), member("a")
        await asyncio.sleep(0)
        await one.announce(told)
        await two.members()
        assert not hearing.done()
        await one.announce(told, news=True)
        await asyncio.wait_for(hearing, 20)
        assert [seen.member for seen in await two.members()] == [told]

    play(story)


@pytest.mark.xdist_group("nats")
def test_the_time_of_a_sighting_is_the_clusters(nats: "NatsCluster") -> None:
    """The servers date what they hear, so a member's own clock can be compared with theirs."""

    async def story(one: Peers, two: Peers, pass_life: Callable[[], Awaitable[None]]) -> None:
        await one.announce(member("a"))
        (seen,) = await two.members()
        assert abs(seen.skew) < SECOND

    on_nats(nats, story)


@pytest.mark.xdist_group("nats")
def test_without_a_stream_every_verb_fails(nats: "NatsCluster") -> None:
    """Peers that were never made raise PeersFailed; nothing is made by using them."""
    from recapito.peers.nats import NatsPeers
    from recapito.stores.jetstream.client import open_client

    async def run() -> None:
        client = await open_client(nats.options())
        peers = NatsPeers(client, "nobody")
        for verb in (peers.members, peers.lease, lambda: peers.put_lease(OURS, 0), lambda: peers.announce(member("a"))):
            with pytest.raises(PeersFailed):
                await verb()
        await client.close()

    asyncio.run(run())
