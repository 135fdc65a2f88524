"""A world of nodes in virtual time: their peers in memory, their streams a fence, their roles a name."""

import asyncio
from collections.abc import Callable

from recapito.clock import ManualClock
from recapito.contracts.backend import PreparedState
from recapito.domain.cluster.view import ClusterView, Findings
from recapito.domain.instant import SECOND
from recapito.errors import SettingsError, StoreFailed
from recapito.observability.journal import silent
from recapito.peers.memory import Board, MemoryPeers
from recapito.process.keeper import KeeperParts
from recapito.process.node import Node, NodeParts

START = 1_800_000_000 * SECOND


class Fence:
    """The streams: the last node that claimed owns."""

    def __init__(self) -> None:
        self.owner = ""
        self.claims = 0
        self.broken = False


class FakeCopies:
    def __init__(self, fence: Fence, name: str) -> None:
        self._fence = fence
        self._name = name
        self.refused = ""
        self.failing = ""
        self.claiming = ""

    async def prepare(self) -> PreparedState:
        if self.failing:
            raise StoreFailed(self.failing)
        if self.refused:
            raise SettingsError(self.refused)
        return PreparedState(0, False)

    async def follow(self) -> None:
        await asyncio.Event().wait()

    async def claim(self) -> int:
        if self._fence.broken or self.claiming:
            raise StoreFailed("out of reach")
        self._fence.owner = self._name
        self._fence.claims += 1
        return self._fence.claims


class FakeRoles:
    """`runs` is the role that runs; `lost` ends the owner's roles as a fence does."""

    def __init__(self) -> None:
        self.runs = ""
        self.view: ClusterView | None = None
        self.lost = asyncio.Event()
        self.expected = False
        self.fail = False

    async def stand_by(self, stopping: asyncio.Event) -> None:
        self.runs = "standby"
        await stopping.wait()
        self.runs = ""

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        self.runs = "owner"
        waiting = {asyncio.create_task(stopping.wait()), asyncio.create_task(self.lost.wait())}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        self.runs = ""
        lost = self.lost.is_set()
        self.lost.clear()
        return lost

    def expect(self, soon: bool) -> None:
        self.expected = soon

    def tell(self, view: ClusterView) -> None:
        self.view = view


class One:
    """One node of the world."""

    def __init__(self, world: "World", name: str, formats: str) -> None:
        self.roles, self.copies, self.name = FakeRoles(), FakeCopies(world.fence, name), name
        self.stopping = asyncio.Event()
        self.peers = MemoryPeers(world.board, name)
        parts = NodeParts(
            name,
            f"http://{name}",
            formats,
            self.peers,
            [KeeperParts(self.copies, self.roles)],
            world.clock,
            world.clock.now,
            silent,
            inspect=self._inspect,
        )
        self.fault: Exception | None = None
        self.task = asyncio.create_task(Node(parts).run(self.stopping))

    async def _inspect(self) -> Findings:
        if self.fault is not None:
            raise self.fault
        return Findings()


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.board = Board(self.clock.now)
        self.fence = Fence()
        self.nodes: dict[str, One] = {}

    def start(self, *names: str, formats: str = "1.1") -> list[One]:
        for name in names:
            self.nodes[name] = One(self, name, formats)
        return [self.nodes[name] for name in names]

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def run(self, seconds: float) -> None:
        end = self.clock.now() + int(seconds * SECOND)
        await self.settle()
        while self.clock.now() < end:
            self.clock.move_to(min(end, self.clock.now() + SECOND // 8))
            await self.settle()

    async def until(self, holds: Callable[[], bool], most: float = 60) -> float:
        """The seconds until something holds."""
        began = self.clock.now()
        while not holds():
            assert self.clock.now() - began < most * SECOND, "it never held"
            await self.run(0.125)
        return (self.clock.now() - began) / SECOND

    def kill(self, name: str) -> None:
        """The process is gone, with all it would still have said."""
        self.board.cut.add(name)
        self.nodes[name].roles.runs = ""
        self.nodes.pop(name).task.cancel()

    @property
    def owners(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.roles.runs == "owner"]
