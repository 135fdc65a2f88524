"""Nodes in virtual time: one owns, and when it goes, is paused, drained or cut off, another does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import pytest

from recapito.domain.cluster.lease import Lease, may_send
from recapito.domain.cluster.member import ClusterMember
from recapito.domain.instant import SECOND
from recapito.errors import SettingsError
from tests.kit.peers import ask_to_drain
from tests.process.virtual_nodes import One, World


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        try:
            await story(world)
        finally:
            for node in world.nodes.values():
                node.task.cancel()
                with suppress(asyncio.CancelledError, SettingsError):
                    await node.task

    asyncio.run(run())


def test_one_of_many_owns_and_the_others_know_it() -> None:
    """Three nodes that start together have one owner within seconds, and every view names it."""

    async def story(world: World) -> None:
        nodes = world.start("a", "b", "c")
        assert await world.until(lambda: len(world.owners) == 1) < 5
        await world.run(20)
        (owner,) = world.owners
        assert world.fence.claims == 1
        assert {node.roles.view.owner for node in nodes if node.roles.view} == {owner}
        assert sum(node.roles.runs == "standby" for node in nodes) == 2

    play(story)


def test_a_dead_owner_is_replaced() -> None:
    """After a kill another node owns within nine seconds, and no sooner than the lease allows."""

    async def story(world: World) -> None:
        world.start("a")
        await world.until(lambda: world.owners == ["a"])
        world.start("b")
        await world.run(5)
        world.kill("a")
        assert 4 < await world.until(lambda: world.owners == ["b"]) < 9

    play(story)


def test_a_stopped_owner_hands_over_at_once() -> None:
    """A planned stop frees the lease: another node owns within half a second."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        world.start("b")
        await world.run(5)
        a.stopping.set()
        assert await world.until(lambda: world.owners == ["b"]) <= 0.5
        assert [seen.member.name for seen in await world.nodes["b"].peers.members()] == ["b"]

    play(story)


def test_a_drained_node_stands_by_until_it_may_own_again() -> None:
    """Drain hands over, and the node does not try again before it is resumed."""

    async def story(world: World) -> None:
        world.start("a")
        await world.until(lambda: world.owners == ["a"])
        world.start("b")
        await world.run(5)
        await ask_to_drain(world.board, "a", True)
        assert await world.until(lambda: world.owners == ["b"]) <= 2
        await world.run(31)
        world.kill("b")
        await world.run(20)
        assert world.owners == []
        await ask_to_drain(world.board, "a", False)
        await world.until(lambda: world.owners == ["a"])

    play(story)


def test_a_drained_node_that_starts_again_is_not_drained() -> None:
    """Drain, stop and start at once, one node after the other, as for an upgrade: at the end there is an owner."""

    async def story(world: World) -> None:
        world.start("a", "b")
        await world.until(lambda: len(world.owners) == 1)
        for name in ("a", "b"):
            await world.run(5)
            await ask_to_drain(world.board, name, True)
            await world.run(1)
            world.nodes.pop(name).stopping.set()
            await world.run(1)
            world.start(name)
        await world.until(lambda: len(world.owners) == 1, 10)

    play(story)


def test_a_cut_off_owner_sends_nothing_and_yields() -> None:
    """It may not send after four seconds; when it is back, it sees the other's lease and stands by."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        world.start("b")
        await world.run(5)
        world.board.cut.add("a")
        await world.run(5)
        assert a.roles.view is not None
        assert not may_send(a.roles.view.renewed_at, world.clock.now())
        assert "a" in world.owners  # what it has begun may still be stored, if nobody claims
        await world.until(lambda: "b" in world.owners)
        world.board.cut.clear()
        await world.until(lambda: world.owners == ["b"])
        assert a.roles.view.problems == {} or await world.until(lambda: not a.roles.view.problems) < 3

    play(story)


def test_all_are_cut_off_and_the_owner_stays() -> None:
    """While no node reaches the peers, no owner is replaced; afterwards the owner renews its lease."""

    async def story(world: World) -> None:
        world.start("a", "b")
        await world.until(lambda: len(world.owners) == 1)
        (owner,) = world.owners
        world.board.cut |= {"a", "b"}
        await world.run(60)
        assert world.owners == [owner]
        world.board.cut.clear()
        await world.run(10)
        assert len(world.owners) == 1
        assert len({view.owner for node in world.nodes.values() if (view := node.roles.view)}) == 1

    play(story)


def test_a_fenced_node_waits_before_it_tries_again() -> None:
    """One that was fenced frees the lease for others, and itself waits ten seconds."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        a.roles.lost.set()
        await world.until(lambda: world.owners == [])
        assert 9 < await world.until(lambda: world.owners == ["a"]) < 12
        a.roles.lost.set()
        await world.until(lambda: world.owners == [])
        assert 19 < await world.until(lambda: world.owners == ["a"]) < 22

    play(story)


def test_a_fenced_node_takes_a_lease_that_another_gave_up() -> None:
    """Its wait was for the time without an owner; once another has owned and stops, nothing is waited for."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        (b,) = world.start("b")
        await world.run(5)
        a.roles.lost.set()
        await world.until(lambda: world.owners == ["b"])
        await world.run(1)
        b.stopping.set()
        assert await world.until(lambda: world.owners == ["a"]) <= 0.5

    play(story)


def test_a_claim_that_fails_is_tried_again_under_the_same_lease() -> None:
    """While the streams are out of reach the node keeps its lease and tries; then it owns."""

    async def story(world: World) -> None:
        world.fence.broken = True
        world.start("a")
        await world.run(8)
        assert world.owners == []
        assert world.board.leases[0][0].holder == "a"
        world.fence.broken = False
        assert await world.until(lambda: world.owners == ["a"]) < 2

    play(story)


def test_a_claim_that_never_succeeds_lets_others_try() -> None:
    """After fifteen seconds the lease is free again, and the node waits ten seconds."""

    async def story(world: World) -> None:
        world.fence.broken = True
        world.start("a")
        await world.until(lambda: 0 in world.board.leases)
        assert await world.until(lambda: world.board.leases[0][0].free) < 17
        world.fence.broken = False
        assert 8 < await world.until(lambda: world.owners == ["a"]) < 12

    play(story)


@pytest.mark.parametrize("minutes", [1, 10])
def test_streams_that_come_back_have_an_owner_soon(minutes: int) -> None:
    """However long the streams did not answer the only node, it owns within twelve seconds after they do."""

    async def story(world: World) -> None:
        world.fence.broken = True
        world.start("a")
        await world.run(60 * minutes)
        assert world.owners == []
        world.fence.broken = False
        assert await world.until(lambda: world.owners == ["a"]) < 12

    play(story)


def test_a_store_that_is_refused_is_shown_and_never_owned() -> None:
    """A stream that is not the one this node has seen keeps it from owning, and its view says why."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        a.copies.failing = "the stream was made again"
        await world.run(20)
        assert world.owners == []
        assert a.roles.view is not None
        assert a.roles.view.problems["store"] == "the stream was made again"
        a.copies.failing = ""
        await world.until(lambda: world.owners == ["a"])
        assert await world.until(lambda: a.roles.view is not None and not a.roles.view.problems) < 2

    play(story)


def test_a_wrong_member_is_refused() -> None:
    """A node whose name lives, or that has other formats, ends with the reason; so does one whose store is refused."""

    async def story(world: World) -> None:
        world.start("a")
        await world.run(3)
        other = One(world, "a", "1.1")
        await world.run(7)
        with pytest.raises(SettingsError, match="another node named 'a'"):
            await other.task
        (b,) = world.start("b", formats="2.1")
        await world.run(7)
        with pytest.raises(SettingsError, match="run the same version"):
            await b.task
        c = One(world, "c", "1.1")
        c.copies.refused = "a stream is younger than this node's marker"
        await world.run(1)
        with pytest.raises(SettingsError, match="younger"):
            await c.task

    play(story)


def test_a_node_that_was_killed_starts_again_at_once() -> None:
    """Its own name is still known for five seconds: the node waits for that, and is not refused."""

    async def story(world: World) -> None:
        world.start("a")
        await world.until(lambda: world.owners == ["a"])
        world.kill("a")
        world.board.cut.clear()
        world.start("a")
        assert await world.until(lambda: world.owners == ["a"]) < 12

    play(story)


def test_an_owner_whose_roles_fail_hands_over() -> None:
    """It owns as long as no other node could; afterwards it leaves the store to the other one, unless that is gone."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        a.roles.fail = True
        await world.run(20)
        assert world.owners == ["a"]
        world.start("b")
        assert await world.until(lambda: world.owners == ["b"]) < 5
        await world.run(60)
        assert (world.owners, world.fence.claims) == (["b"], 2)
        world.nodes["b"].roles.fail = True
        await world.run(60)
        assert world.owners == ["b"], "the other one is no better"
        world.kill("b")
        await world.until(lambda: world.owners == ["a"], 20)

    play(story)


def test_a_clock_that_is_off_does_not_own() -> None:
    """A node whose clock is two seconds ahead stands by and says why."""

    async def story(world: World) -> None:
        world.board.now = lambda: world.clock.now() - 2 * SECOND
        (a,) = world.start("a")
        await world.run(20)
        assert world.owners == []
        assert a.roles.view is not None
        assert "ahead of the cluster's" in a.roles.view.problems["clock"]

    play(story)


def test_an_owner_whose_clock_goes_wrong_hands_over() -> None:
    """It owns as long as no other node could, and yields after several looks; words that came late do not count."""

    async def story(world: World) -> None:
        (a,) = world.start("a")
        await world.until(lambda: world.owners == ["a"])
        skew = {"a": 2 * SECOND}
        real = a.peers.announce

        async def announce(member: ClusterMember, news: bool = False) -> None:
            await real(msgspec.structs.replace(member, wall=member.wall - skew.get(member.name, 0)), news)

        a.peers.announce = announce  # type: ignore[method-assign]
        await world.run(20)
        assert world.owners == ["a"]
        assert a.roles.view is not None
        assert "behind the cluster's" in a.roles.view.problems["clock"]
        skew.clear()
        await world.run(3)
        (b,) = world.start("b")
        await world.run(5)
        skew["a"] = 2 * SECOND
        await world.run(3)
        skew.clear()
        await world.run(10)
        assert world.owners == ["a"]
        skew["a"] = 2 * SECOND
        assert 4 <= await world.until(lambda: world.owners == ["b"]) < 7
        b.stopping.set()
        await world.run(10)
        assert world.owners == []

    play(story)


def test_terms_only_grow() -> None:
    """Each change of owner has a higher term, whether the lease was freed or ran out."""

    async def story(world: World) -> None:
        terms, names = [], iter("abcde")
        world.start(next(names))
        for turn, name in enumerate(names):
            await world.until(lambda: len(world.owners) == 1)
            (owner,) = world.owners
            terms.append(((await world.nodes[owner].peers.lease()).lease or Lease()).term)
            world.start(name)
            await world.run(3)
            if turn % 2:
                world.kill(owner)
            else:
                world.nodes.pop(owner).stopping.set()
            await world.run(1)
        assert terms == sorted(set(terms))

    play(story)


def test_a_node_whose_inspection_fails_ends_and_another_owns() -> None:
    """It does not go on in silence: it stops its roles and gives up the lease, and its error is that of the loop."""

    async def story(world: World) -> None:
        world.start("a", "b")
        await world.until(lambda: len(world.owners) == 1)
        (owner,) = world.owners
        ended = world.nodes[owner]
        ended.fault = RuntimeError("a defect")
        await world.until(lambda: ended.task.done(), 90)
        with pytest.raises(RuntimeError, match="a defect"):
            ended.task.result()
        assert ended.roles.runs == ""
        del world.nodes[owner]
        await world.until(lambda: len(world.owners) == 1)

    play(story)
