"""A node of a cluster: it stands by, tries to own when there is no owner, and owns until another does.

The lease says who tries, the fence of the streams says who owns. A node that owns runs intake and dispatch as a server
of its own does; one that does not follows the streams and runs the standby role. Either way it says each second that it
lives, and tells its roles what it knows.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

from recapito import __version__
from recapito.clock import Clock
from recapito.contracts.backend import PreparedState
from recapito.contracts.peers import Peers
from recapito.domain import limits
from recapito.domain.cluster import lease as rules
from recapito.domain.cluster.lease import Lease, LeaseWatch
from recapito.domain.cluster.member import (
    CLOCK_LOOKS,
    ClusterMember,
    NodeState,
    Sighting,
    admission_problem,
    clock_problem,
    has_successor,
)
from recapito.domain.cluster.view import ClusterView, Findings, StreamCopy
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed, SettingsError, StoreFailed
from recapito.observability.journal import Journal

LOOK_NS = SECOND // 4
TELL_NS = SECOND
CLAIM_PAUSE_NS = SECOND // 2
CLAIM_NS = 15 * SECOND
REFUSED_PAUSE_NS = 2 * SECOND
INSPECT_NS = 60 * SECOND
CANCEL_S = 0.5


class Copies(Protocol):
    """The local copies of the streams: the part of a replicated backend that a node uses."""

    async def prepare(self) -> PreparedState:
        """Bring the copies up to date."""

    async def follow(self) -> None:
        """Apply the owner's commits until cancelled."""

    async def claim(self) -> int:
        """Own the streams. StoreFailed: out of reach."""


class NodeRoles(Protocol):
    """The processes that do the work of a node."""

    async def stand_by(self, stopping: asyncio.Event) -> None:
        """Serve HTTP by forwarding, until `stopping` is set."""

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        """Run intake and dispatch until `stopping` is set. True: they lost the store to another node before."""

    def tell(self, view: ClusterView) -> None:
        """Tell the roles what the node knows."""


async def _find_nothing() -> Findings:
    return Findings()


async def _no_copies() -> Sequence[StreamCopy]:
    return ()


class NodeParts(NamedTuple):
    """Everything that a node works with.

    monotonic: the clock of leases, which all processes of a machine share.
    copies_now: how far the copies are.
    inspect: looks at the NATS servers.
    """

    name: str
    url: str
    formats: str
    peers: Peers
    copies: Copies
    roles: NodeRoles
    clock: Clock
    monotonic: Callable[[], int]
    journal: Journal
    copies_now: Callable[[], Awaitable[Sequence[StreamCopy]]] = _no_copies
    inspect: Callable[[], Awaitable[Findings]] = _find_nothing


class Node:
    """One node, from its start to its stop."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._id = secrets.token_hex(8)
        self._state = NodeState.STARTING
        self._drained = False
        self._watch = LeaseWatch()
        self._lease = Lease()  # the last one seen, or ours
        self._revision: int | None = None  # of our lease; None: to be looked up
        self._renewed_at = 0
        self._last_term = 0
        self._changes = 0
        self._members: Sequence[Sighting] = ()
        self._copies: Sequence[StreamCopy] = ()
        self._findings = Findings()
        self._unreachable = ""
        self._refused = ""
        self._newest = 0
        self._clock_off = 0  # the looks in a row that found our clock off
        self._news = asyncio.Event()  # a new one after each piece of news
        self._leaving: asyncio.Task[None] | None = None  # a standby role that ends while an owner's roles start
        self._loops: Sequence[asyncio.Task[None]] = ()

    def __repr__(self) -> str:
        return f"<Node {self._parts.name}, {self._state}>"

    async def run(self, stopping: asyncio.Event) -> None:
        """Be a node until `stopping` is set. SettingsError: this node may not join, or a role refuses its settings."""
        await self._join()
        async with (
            _running(self._tell_loop()) as telling,
            _running(self._inspect_loop()) as inspecting,
            _running(self._hear_loop()) as hearing,
        ):
            self._loops = (telling, inspecting, hearing)
            try:
                while not stopping.is_set():
                    keeping = await self._stand_by(stopping)
                    if keeping is not None:
                        await self._own(keeping, stopping)
            finally:
                with suppress(PeersFailed):
                    await self._parts.peers.withdraw(self._parts.name)

    async def _join(self) -> None:
        """Become a member. A node that was killed a moment ago still counts as alive: wait until it is forgotten."""
        parts, until = self._parts, self._parts.monotonic() + rules.LIFE_NS + rules.RENEW_NS
        while True:
            try:
                problem = admission_problem(parts.name, self._id, parts.formats, await parts.peers.members())
                if problem is None:
                    await self._announce()
                    return
            except PeersFailed as error:
                problem = f"server.store: {error}; check the addresses and the credentials"
            if parts.monotonic() >= until:
                raise SettingsError(problem)
            await parts.clock.sleep_until(parts.clock.now() + LOOK_NS)

    async def _stand_by(self, stopping: asyncio.Event) -> "asyncio.Task[None] | None":
        """Stand by until this node owns (the task that keeps its lease), or until `stopping` (None)."""
        parts, stop_role = self._parts, asyncio.Event()
        role = asyncio.create_task(parts.roles.stand_by(stop_role))
        follower = asyncio.create_task(self._follow())
        try:
            while not stopping.is_set():
                news = self._news
                for task in (role, follower):
                    if task.done():
                        task.result()
                        raise SettingsError("the standby role ended: see its message above")
                if await self._take_lease():
                    keeping = asyncio.create_task(self._keep_lease())
                    await _end(follower)
                    if await self._claim(keeping, stopping):
                        self._leaving = role
                        return keeping
                    await self._let_go(keeping)
                    follower = asyncio.create_task(self._follow())
                await self._pause(LOOK_NS, stopping, news)
            return None
        finally:
            await _end(follower)
            stop_role.set()
            if self._leaving is not role:
                await asyncio.wait([role])

    async def _follow(self) -> None:
        """Load the copies, and keep them up to date. A store that is refused is shown and tried again, never owned."""
        self._state = NodeState.STARTING
        while True:
            try:
                prepared = await self._parts.copies.prepare()
                break
            except StoreFailed as error:
                self._parts.journal("node.store_refused", error=str(error))
                self._refused = str(error)
                await self._parts.clock.sleep_until(self._parts.clock.now() + REFUSED_PAUSE_NS)
        self._refused = ""
        self._newest = max(self._newest, prepared.newest)
        self._state = NodeState.DRAINED if self._drained else NodeState.STANDBY
        await self._parts.copies.follow()

    async def _take_lease(self) -> bool:
        """Look at the lease, and try to take it if the rules allow that."""
        parts = self._parts
        try:
            seen = await parts.peers.lease()
            self._saw(seen.lease or Lease())
            self._watch, try_now = rules.look(self._watch, seen, parts.monotonic(), self._id)
            if not try_now or self._state is not NodeState.STANDBY or self._problem_of_own() is not None:
                return False
            began = parts.monotonic()
            wanted = Lease(parts.name, self._id, parts.url, max(self._lease.term, self._last_term) + 1)
            self._revision = await parts.peers.put_lease(wanted, seen.revision)
        except PeersFailed as error:
            self._watch = rules.unsure(self._watch)
            self._missed(error)
            return False
        if self._revision is None:
            return False
        self._renewed_at = began
        self._saw(wanted)
        return True

    async def _keep_lease(self) -> None:
        """Renew our lease each second. It returns when another node has it."""
        clock = self._parts.clock
        while True:
            await clock.sleep_until(clock.now() + rules.RENEW_NS)
            try:
                if not await self._renew():
                    self._parts.journal("node.lease_lost", holder=self._lease.holder)
                    return
            except PeersFailed as error:
                self._revision = None
                self._missed(error)

    async def _renew(self) -> bool:
        parts, ours = self._parts, self._lease
        began = parts.monotonic()
        revision = self._revision
        if revision is None:
            seen = await parts.peers.lease()
            if seen.lease is not None and seen.lease.id != self._id:
                self._saw(seen.lease)
                return False
            revision = seen.revision
        self._revision = await parts.peers.put_lease(ours, revision)
        if self._revision is None:
            return await self._renew() if revision else True  # looked up anew, now or in a second
        self._renewed_at = began
        self._tell()
        return True

    async def _claim(self, keeping: "asyncio.Task[None]", stopping: asyncio.Event) -> bool:
        """Own the streams: try for a while, as long as the lease is ours; then another node may try."""
        parts, until = self._parts, self._parts.monotonic() + CLAIM_NS
        self._state = NodeState.CLAIMING
        while not keeping.done() and not stopping.is_set() and parts.monotonic() < until:
            try:
                epoch = await parts.copies.claim()
                parts.journal("node.claimed", node=parts.name, term=self._lease.term, epoch=epoch)
                return True
            except StoreFailed as error:
                parts.journal("node.claim_failed", error=str(error))
                await self._pause(CLAIM_PAUSE_NS, stopping)
        self._watch = rules.fenced(self._watch, parts.monotonic())
        return False

    async def _own(self, keeping: "asyncio.Task[None]", stopping: asyncio.Event) -> None:
        parts, stop_roles, since = self._parts, asyncio.Event(), self._parts.monotonic()
        self._state = NodeState.OWNER
        self._tell()
        roles = asyncio.create_task(parts.roles.own(self._newest, stop_roles))
        try:
            while not (stopping.is_set() or keeping.done() or roles.done() or self._drained or self._should_yield()):
                await self._pause(LOOK_NS, stopping, self._news)
        finally:
            stop_roles.set()
            await asyncio.wait([roles] if self._leaving is None else [roles, self._leaving])
            self._watch = rules.owned(self._watch, since, parts.monotonic())
            await self._let_go(keeping)
        if roles.result():
            self._watch = rules.fenced(self._watch, parts.monotonic())
            parts.journal("node.fenced", node=parts.name, times=self._watch.fenced)

    async def _let_go(self, keeping: "asyncio.Task[None]") -> None:
        """Give the lease up, unless another node has it already, so that others need not wait until it runs out."""
        lost = keeping.done()
        await _end(keeping)
        self._renewed_at = 0
        self._state = NodeState.DRAINED if self._drained else NodeState.STARTING
        if not lost and self._revision is not None:
            freed = Lease(term=self._lease.term)
            with suppress(PeersFailed):
                await self._parts.peers.put_lease(freed, self._revision)
            self._saw(freed)

    async def _tell_loop(self) -> None:
        clock = self._parts.clock
        while True:
            news = self._news
            try:
                await self._announce()
                self._members = await self._parts.peers.members()
                self._clock_off = self._clock_off + 1 if self._problem_of_own() else 0
                self._heed(await self._parts.peers.drain_asked(self._parts.name))
                self._unreachable = ""
            except PeersFailed as error:
                self._missed(error)
            self._copies = await self._parts.copies_now()
            self._tell()
            await _first(clock.sleep_until(clock.now() + TELL_NS), news.wait())

    async def _hear_loop(self) -> None:
        """Wake the other loops when the peers have news; they look by themselves too, later."""
        clock = self._parts.clock
        while True:
            try:
                await self._parts.peers.changed()
                self._wake()
            except PeersFailed:
                await clock.sleep_until(clock.now() + TELL_NS)

    async def _inspect_loop(self) -> None:
        clock = self._parts.clock
        while True:
            self._findings = await self._parts.inspect()
            await clock.sleep_until(clock.now() + INSPECT_NS)

    async def _announce(self) -> None:
        parts = self._parts
        behind = sum(copy.behind for copy in self._copies) if self._copies else None
        told = ClusterMember(
            parts.name, self._id, parts.url, self._state, __version__, parts.formats, behind, parts.clock.now()
        )
        await parts.peers.announce(told)

    def _heed(self, drained: bool | None) -> None:
        """Heed a wish to drain, or to try again."""
        if drained is None or drained == self._drained:
            return
        self._drained = drained
        if self._state in (NodeState.STANDBY, NodeState.DRAINED):
            self._state = NodeState.DRAINED if drained else NodeState.STANDBY
        self._parts.journal("node.drained" if drained else "node.resumed", node=self._parts.name)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _should_yield(self) -> bool:
        """Whether the clock of this owner stays off, and another node could own."""
        yields = self._clock_off >= CLOCK_LOOKS and has_successor(self._id, self._members)
        if yields:
            self._parts.journal("node.clock_off", why=self._problem_of_own())
        return yields

    def _saw(self, lease: Lease) -> None:
        if lease.id != self._lease.id:
            self._changes += 1
            self._lease = lease
            self._tell()
        self._lease = lease
        self._last_term = max(self._last_term, lease.term)

    def _missed(self, error: PeersFailed) -> None:
        self._unreachable = str(error)

    def _problem_of_own(self) -> str | None:
        """The reason why this node's clock, as the cluster saw it, forbids it to own."""
        ours = next((seen for seen in self._members if seen.member.id == self._id), None)
        return None if ours is None else clock_problem(ours)

    def _tell(self) -> None:
        parts, problems = self._parts, dict(self._findings.problems)
        if self._unreachable:
            problems["peers"] = self._unreachable
        if self._refused:
            problems["store"] = self._refused
        if clock := self._problem_of_own():
            problems["clock"] = clock
        shown = self._members[: limits.CLUSTER_MEMBERS]
        parts.roles.tell(
            ClusterView(
                parts.name,
                self._state,
                self._lease.holder,
                self._lease.url,
                self._lease.term,
                self._changes,
                self._renewed_at,
                {seen.member.name: seen.member.state for seen in shown},
                list(self._copies),
                problems,
                dict(self._findings.replica_lag),
            )
        )

    async def _pause(self, ns: int, stopping: asyncio.Event, news: asyncio.Event | None = None) -> None:
        """Wait, or until `stopping` or `news`. The error of a loop that failed is raised: a silent node must end."""
        for loop in self._loops:
            if loop.done():
                loop.result()
        clock, wakers = self._parts.clock, (stopping,) if news is None else (stopping, news)
        await _first(clock.sleep_until(clock.now() + ns), *(waker.wait() for waker in wakers))


async def _first(*work: Awaitable[object]) -> None:
    """Wait until one of these has ended, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and wait until it has ended, however it ends.

    Python 3.11 loses a cancellation that meets the answer to a request: then the task is cancelled again.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_S)
    if not task.cancelled():
        task.exception()


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await _end(task)
