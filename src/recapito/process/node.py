"""A node of a cluster: a member among others, with a keeper for each partition.

The node says each second that it lives, looks at the other members and at the NATS servers, heeds wishes to drain, and
tells its roles what it knows; all of that once, however many partitions there are. A keeper (`process/keeper.py`)
stands by, claims and owns one partition.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from recapito import __version__
from recapito.clock import Clock
from recapito.contracts.peers import Peers
from recapito.domain import limits
from recapito.domain.cluster import lease as rules
from recapito.domain.cluster.member import ClusterMember, NodeState, admission_problem, state_among
from recapito.domain.cluster.view import ClusterView, Findings, PartitionView
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed, SettingsError
from recapito.observability.journal import Journal
from recapito.process.keeper import LOOK_NS, Keeper, KeeperParts
from recapito.process.standing import Standing, end, first

TELL_NS = SECOND
INSPECT_NS = 60 * SECOND


class RouterRole(Protocol):
    """The process that serves HTTP for a node of several partitions."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until `stopping` is set."""

    def tell(self, view: ClusterView) -> None:
        """Tell the router what the node knows."""


async def _find_nothing() -> Findings:
    return Findings()


class NodeParts(NamedTuple):
    """Everything that a node works with.

    monotonic: the clock of leases, which all processes of a machine share.
    keepers: the parts of each partition, in order.
    inspect: looks at the NATS servers.
    router: serves HTTP; None if there is one partition, whose roles do that.
    """

    name: str
    url: str
    formats: str
    peers: Peers
    keepers: Sequence[KeeperParts]
    clock: Clock
    monotonic: Callable[[], int]
    journal: Journal
    inspect: Callable[[], Awaitable[Findings]] = _find_nothing
    router: RouterRole | None = None


class Node:
    """One node, from its start to its stop."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._standing = Standing(
            parts.name,
            secrets.token_hex(8),
            parts.url,
            parts.peers,
            parts.clock,
            parts.monotonic,
            parts.journal,
            len(parts.keepers),
        )
        self._keepers = [Keeper(each, self._standing, self._tell, self._tell_roles) for each in parts.keepers]
        self._findings = Findings()
        self._told_gone = False  # the others know that this node owns nothing soon

    def __repr__(self) -> str:
        return f"<Node {self._parts.name}, {self.state}>"

    @property
    def state(self) -> NodeState:
        """The most that it is in any partition."""
        return state_among(keeper.state for keeper in self._keepers)

    async def run(self, stopping: asyncio.Event) -> None:
        """Be a node until `stopping` is set. SettingsError: this node may not join, or a role refuses its settings."""
        await self._join()
        async with (
            _running(self._tell_loop()) as telling,
            _running(self._inspect_loop()) as inspecting,
            _running(self._hear_loop()) as hearing,
            _running(self._measure_loop()) as measuring,
        ):
            self._standing.loops = (telling, inspecting, hearing, measuring)
            try:
                await self._keep_all(stopping)
            finally:
                with suppress(PeersFailed):
                    await self._parts.peers.withdraw(self._parts.name)

    async def _keep_all(self, stopping: asyncio.Event) -> None:
        """Keep all partitions, and the router, until `stopping` is set or one of them fails; that ends the others."""
        ending = asyncio.Event()
        works = [keeper.run(ending) for keeper in self._keepers]
        tasks = [asyncio.create_task(work) for work in works]
        stop = asyncio.create_task(stopping.wait())
        stop_router = asyncio.Event()
        router = None if self._parts.router is None else asyncio.create_task(self._parts.router.run(stop_router))
        serving = [*tasks] if router is None else [*tasks, router]
        try:
            await asyncio.wait({stop, *serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            ending.set()
            await self._leave()
            await asyncio.wait(tasks)
            stop_router.set()
            await asyncio.wait(serving)
        for task in serving:
            task.result()
        if router is not None and not stopping.is_set():
            raise SettingsError("the router role ended: see its message above")

    async def _leave(self) -> None:
        """Tell the others at once, while the roles end: then none of them leaves a partition to this node."""
        self._standing.leaving = True
        if len(self._keepers) > 1:
            with suppress(PeersFailed):
                await self._announce()

    async def _join(self) -> None:
        """Become a member. A node that was killed a moment ago still counts as alive: wait until it is forgotten."""
        parts, until = self._parts, self._parts.monotonic() + rules.LIFE_NS + rules.RENEW_NS
        while True:
            try:
                members = await parts.peers.members()
                problem = admission_problem(parts.name, self._standing.id, parts.formats, members)
                if problem is None:
                    await self._announce()
                    return
            except PeersFailed as error:
                problem = f"server.store: {error}; check the addresses and the credentials"
            if parts.monotonic() >= until:
                raise SettingsError(problem)
            await parts.clock.sleep_until(parts.clock.now() + LOOK_NS)

    async def _tell_loop(self) -> None:
        clock, standing, peers = self._parts.clock, self._standing, self._parts.peers
        while True:
            news = standing.news
            try:
                await self._announce()
                standing.saw(await peers.members())
                self._heed(await peers.drain_asked(standing.id))
                standing.unreachable = ""
            except PeersFailed as error:
                standing.missed(error)
            self._tell()
            await first(clock.sleep_until(clock.now() + TELL_NS), news.wait())

    async def _measure_loop(self) -> None:
        """Look at the copies, apart from the other loops: slow servers must not keep a node from announcing itself."""
        clock = self._parts.clock
        while True:
            for keeper in self._keepers:
                await keeper.look_at_copies()
            await clock.sleep_until(clock.now() + TELL_NS)

    async def _hear_loop(self) -> None:
        """Wake the other loops when the peers have news; they look by themselves too, later."""
        clock = self._parts.clock
        while True:
            try:
                await self._parts.peers.changed()
                self._standing.wake()
            except PeersFailed:
                await clock.sleep_until(clock.now() + TELL_NS)

    async def _inspect_loop(self) -> None:
        clock = self._parts.clock
        while True:
            self._findings = await self._parts.inspect()
            await clock.sleep_until(clock.now() + INSPECT_NS)

    async def _announce(self) -> None:
        parts = self._parts
        copies = [copy for keeper in self._keepers for copy in keeper.copies]
        behind = sum(copy.behind for copy in copies) if copies else None
        several = len(self._keepers) > 1
        gone = several and (self._standing.leaving or self._standing.drained)
        lacks = [each for each in self._keepers if gone or each.unfit or (several and each.state is NodeState.STARTING)]
        told = ClusterMember(
            parts.name,
            self._standing.id,
            parts.url,
            self.state,
            __version__,
            parts.formats,
            behind,
            parts.clock.now(),
            [keeper.partition.number for keeper in lacks],
        )
        await parts.peers.announce(told, news=gone and not self._told_gone)
        self._told_gone = gone

    def _heed(self, drained: bool | None) -> None:
        """Heed a wish to drain, or to try again."""
        if drained is None or drained == self._standing.drained:
            return
        self._standing.drained = drained
        for keeper in self._keepers:
            keeper.heed_drain()
        self._parts.journal("node.drained" if drained else "node.resumed", node=self._parts.name)
        self._standing.wake()

    def _tell(self) -> None:
        """Tell each role what it needs: those of a partition about its streams and lease, the router about all."""
        for keeper in self._keepers:
            self._tell_roles(keeper)
        if self._parts.router is not None:
            owners = {keeper.lease.holder for keeper in self._keepers}
            changes = sum(keeper.changes for keeper in self._keepers)
            copies = [copy for keeper in self._keepers for copy in keeper.copies]
            owner = "" if "" in owners else ", ".join(sorted(owners))
            view = self._common_view()
            self._parts.router.tell(replace(view, owner=owner, owner_changes=changes, copies=copies))

    def _tell_roles(self, keeper: Keeper) -> None:
        keeper.tell(
            replace(
                self._common_view(),
                state=keeper.state,
                owner=keeper.lease.holder,
                owner_url=keeper.lease.url,
                term=keeper.lease.term,
                owner_changes=keeper.changes,
                renewed_at=keeper.renewed_at,
                copies=list(keeper.copies),
            )
        )

    def _common_view(self) -> ClusterView:
        problems = dict(self._findings.problems)
        if self._standing.unreachable:
            problems["peers"] = self._standing.unreachable
        if refused := next((keeper.refused for keeper in self._keepers if keeper.refused), ""):
            problems["store"] = refused
        if clock := self._standing.clock_fault():
            problems["clock"] = clock
        shown = self._standing.members[: limits.CLUSTER_MEMBERS]
        partitions = [
            PartitionView(keeper.partition.number, keeper.state, keeper.lease.holder, keeper.lease.url)
            for keeper in self._keepers
        ]
        return ClusterView(
            self._parts.name,
            self.state,
            owned=sum(keeper.state is NodeState.OWNER for keeper in self._keepers),
            members={seen.member.name: seen.member.state for seen in shown},
            urls={seen.member.name: seen.member.url for seen in shown},
            problems=problems,
            replica_lag=dict(self._findings.replica_lag),
            partitions=partitions if len(partitions) > 1 else [],
        )


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await end(task)
