"""Nodes of several partitions in virtual time: they share, hand over to each other, and take over what others leave."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from recapito.domain.cluster.partition import Partition
from recapito.domain.cluster.view import ClusterView
from recapito.errors import SettingsError
from recapito.observability.journal import silent
from recapito.peers.memory import MemoryPeers
from recapito.process.keeper import KeeperParts
from recapito.process.node import Node, NodeParts
from tests.kit.peers import ask_to_drain
from tests.process.virtual_nodes import FakeCopies, FakeRoles, Fence, World

P = 6


class FakeRouter:
    def __init__(self) -> None:
        self.view: ClusterView | None = None
        self.runs = False

    async def run(self, stopping: asyncio.Event) -> None:
        self.runs = True
        await stopping.wait()
        self.runs = False

    def tell(self, view: ClusterView) -> None:
        self.view = view


class Many:
    """One node with a keeper for each partition."""

    def __init__(self, world: World, fences: list[Fence], name: str) -> None:
        self.roles = [FakeRoles() for _ in fences]
        self.copies = [FakeCopies(fence, name) for fence in fences]
        self.router = FakeRouter()
        self.peers = MemoryPeers(world.board, name)
        self.stopping = asyncio.Event()
        keepers = [
            KeeperParts(self.copies[number], self.roles[number], partition=Partition(number, len(fences)))
            for number in range(len(fences))
        ]
        clock = world.clock
        parts = NodeParts(
            name, f"http://{name}", "1.1", self.peers, keepers, clock, clock.now, silent, router=self.router
        )
        self.task = asyncio.create_task(Node(parts).run(self.stopping))

    @property
    def owned(self) -> set[int]:
        return {number for number, roles in enumerate(self.roles) if roles.runs == "owner"}


class Spread(World):
    """Several nodes of several partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.fences = [Fence() for _ in range(P)]
        self.many: dict[str, Many] = {}

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    def join(self, *names: str) -> list[Many]:
        for name in names:
            self.many[name] = Many(self, self.fences, name)
        return [self.many[name] for name in names]

    def die(self, name: str) -> None:
        self.board.cut.add(name)
        gone = self.many.pop(name)
        for roles in gone.roles:
            roles.runs = ""
        gone.task.cancel()

    @property
    def owners_of(self) -> Counter[int]:
        return Counter(number for node in self.many.values() for number in node.owned)

    @property
    def shares(self) -> dict[str, int]:
        return {name: len(node.owned) for name, node in self.many.items()}


def play(story: Callable[[Spread], Awaitable[None]]) -> None:
    async def run() -> None:
        world = Spread()
        try:
            await story(world)
        finally:
            for node in world.many.values():
                node.task.cancel()
                with suppress(asyncio.CancelledError, SettingsError):
                    await node.task

    asyncio.run(run())


def test_nodes_that_start_together_share_from_the_beginning() -> None:
    """Three nodes own two partitions each, and each partition was claimed once."""

    async def story(world: Spread) -> None:
        world.join("a", "b", "c")
        await world.until(lambda: world.shares == {"a": 2, "b": 2, "c": 2}, 15)
        await world.run(30)
        assert [fence.claims for fence in world.fences] == [1] * P
        views = [node.router.view for node in world.many.values()]
        assert all(view is not None and all(each.owner for each in view.partitions) for view in views)
        assert all(node.router.runs for node in world.many.values())
        told = [roles.view for node in world.many.values() for roles in node.roles]
        assert all(view is not None and view.owned == 2 for view in told)
        assert all(view is not None and all(each.owner for each in view.partitions) for view in told)

    play(story)


def test_a_node_that_joins_gets_its_share_one_by_one() -> None:
    """The first node hands over half of its partitions, never two at once, and no partition has two owners."""

    async def story(world: Spread) -> None:
        world.join("a")
        await world.until(lambda: world.shares == {"a": P})
        world.join("b")
        least = P
        for _ in range(400):
            await world.run(0.125)
            assert max(world.owners_of.values()) == 1
            least = min(least, sum(world.owners_of.values()))
            if world.shares == {"a": 3, "b": 3}:
                break
        assert world.shares == {"a": 3, "b": 3}
        assert least >= P - 1
        claims = [fence.claims for fence in world.fences]
        await world.run(90)
        assert [fence.claims for fence in world.fences] == claims

    play(story)


def test_the_partitions_of_a_dead_node_move() -> None:
    """The others own them all within nine seconds; those that they had are left alone."""

    async def story(world: Spread) -> None:
        world.join("a", "b", "c")
        await world.until(lambda: sum(world.shares.values()) == P, 15)
        gone = world.many["a"].owned
        world.die("a")
        assert await world.until(lambda: sum(world.shares.values()) == P) < 9
        await world.run(30)
        assert world.shares == {"b": 3, "c": 3}
        assert [world.fences[number].claims for number in gone] == [2, 2]

    play(story)


def test_a_drained_node_gives_everything_up() -> None:
    """Drain moves all partitions, and resuming brings a share back."""

    async def story(world: Spread) -> None:
        (a, _) = world.join("a", "b")
        await world.until(lambda: world.shares == {"a": 3, "b": 3}, 15)
        await ask_to_drain(world.board, "a", True)
        assert await world.until(lambda: world.shares == {"a": 0, "b": P}, 20) <= 1.5
        await world.run(31)
        states = {seen.member.name: seen.member.state for seen in await a.peers.members()}
        assert states == {"a": "drained", "b": "owner"}
        await ask_to_drain(world.board, "a", False)
        await world.until(lambda: world.shares == {"a": 3, "b": 3}, 90)

    play(story)


def test_a_partition_that_a_node_cannot_load_goes_to_another() -> None:
    """A node whose copy of one partition is refused owns others, and its view says why."""

    async def story(world: Spread) -> None:
        (a,) = world.join("a")
        a.copies[2].failing = "the stream was made again"
        (_,) = world.join("b")
        await world.until(lambda: sum(world.shares.values()) == P, 20)
        await world.run(60)
        assert 2 in world.many["b"].owned
        assert world.shares["a"] >= 2
        assert a.router.view is not None
        assert a.router.view.problems["store"] == "the stream was made again"

    play(story)


def test_a_partition_whose_roles_fail_goes_to_another_node() -> None:
    """It does not come back soon, and the node that failed gets another one for it."""

    async def story(world: Spread) -> None:
        (a, b) = world.join("a", "b")
        await world.until(lambda: world.shares == {"a": 3, "b": 3}, 15)
        number = min(a.owned)
        a.roles[number].fail = True
        assert await world.until(lambda: number in b.owned, 20) < 8
        await world.run(120)
        assert number in b.owned
        assert world.shares == {"a": 3, "b": 3}

    play(story)


def test_a_preferred_node_that_cannot_claim_does_not_keep_a_partition_away() -> None:
    """Another node owns it after a while, and does not hand it over again at once."""

    async def story(world: Spread) -> None:
        (a, b) = world.join("a", "b")
        await world.until(lambda: world.shares == {"a": 3, "b": 3}, 15)
        number = min(b.owned)
        world.die("b")
        await world.until(lambda: world.shares == {"a": P})
        world.board.cut.clear()
        (b,) = world.join("b")
        b.copies[number].claiming = "out of reach"
        await world.until(lambda: len(b.owned) == 2, 60)
        await world.until(lambda: number in a.owned, 60)
        await world.run(20)
        assert number in a.owned

    play(story)


def test_a_stopped_node_leaves_no_partition_behind() -> None:
    """A planned stop ends the router last, and the others own everything at once: none waits for the one that goes."""

    async def story(world: Spread) -> None:
        (a, _) = world.join("a", "b")
        await world.until(lambda: world.shares == {"a": 3, "b": 3}, 15)
        a.stopping.set()
        assert await world.until(lambda: world.shares == {"a": 0, "b": P}, 20) <= 0.5
        await world.until(a.task.done)
        assert not a.router.runs

    play(story)


def test_each_partition_has_its_roles_loaded_at_one_other_node() -> None:
    """The node that would own next has the roles loaded; when the owner stops, exactly that node owns."""

    async def story(world: Spread) -> None:
        world.join("a", "b", "c")
        await world.until(lambda: world.shares == {"a": 2, "b": 2, "c": 2}, 15)
        await world.run(15)
        owned = {name: set(node.owned) for name, node in world.many.items()}
        next_ones = {
            number: [
                name for name, node in world.many.items() if number not in node.owned and node.roles[number].expected
            ]
            for number in range(P)
        }
        assert [len(names) for names in next_ones.values()] == [1] * P
        world.many["a"].stopping.set()
        await world.until(lambda: sum(world.shares.values()) == P and not world.shares["a"], 5)
        assert all(number in world.many[next_ones[number][0]].owned for number in owned["a"])

    play(story)
