"""A node's part in one partition: it stands by, tries to own when there is no owner, and owns until another does.

The lease says who tries, the fence of the streams says who owns. A keeper that owns runs intake and dispatch as a
server of its own does; one that does not follows the streams. Where there are several partitions, the placement says
which node should own: another one leaves it some time, and hands over to it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from recapito.contracts.backend import PreparedState
from recapito.domain.cluster import lease as rules
from recapito.domain.cluster.lease import Lease, LeaseWatch
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.cluster.placement import RETURN_NS, SETTLE_NS, YIELD_NS
from recapito.domain.cluster.view import ClusterView, StreamCopy
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed, SettingsError, StoreFailed
from recapito.observability.journal import Journal
from recapito.process.standing import Standing, end

LOOK_NS = SECOND // 4
CLAIM_PAUSE_NS = SECOND // 2
CLAIM_NS = 15 * SECOND
REFUSED_PAUSE_NS = 2 * SECOND
UNFIT_NS = 300 * SECOND
"""A node whose roles end again and again leaves the partition to others for this long."""


class Copies(Protocol):
    """The local copies of the streams: the part of a replicated backend that a node uses."""

    async def prepare(self) -> PreparedState:
        """Bring the copies up to date."""

    async def follow(self) -> None:
        """Apply the owner's commits until cancelled."""

    async def claim(self) -> int:
        """Own the streams. StoreFailed: out of reach."""


class PartitionRoles(Protocol):
    """The processes that do the work of a partition on a node."""

    async def stand_by(self, stopping: asyncio.Event) -> None:
        """Do whatever a node does that does not own, until `stopping` is set."""

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        """Run intake and dispatch until `stopping` is set. True: they lost the store to another node before."""

    @property
    def fail(self) -> bool:
        """Whether intake or dispatch ends again and again while this node owns."""

    def expect(self, soon: bool) -> None:
        """Have intake and dispatch loaded, if this node is the next one to own."""

    def tell(self, view: ClusterView) -> None:
        """Tell the roles what the node knows."""


async def _no_copies() -> Sequence[StreamCopy]:
    return ()


class KeeperParts(NamedTuple):
    """The copies and the roles of one partition. `copies_now`: how far the copies are."""

    copies: Copies
    roles: PartitionRoles
    copies_now: Callable[[], Awaitable[Sequence[StreamCopy]]] = _no_copies
    partition: Partition = WHOLE


class Keeper:
    """One partition at one node.

    tell: called when the owner or the state has changed, which the router must know too.
    tell_roles: called when the lease was renewed, which only the roles of this partition must know.
    """

    def __init__(
        self,
        parts: KeeperParts,
        standing: Standing,
        tell: Callable[[], None],
        tell_roles: Callable[["Keeper"], None],
    ) -> None:
        self._parts = parts
        self._node = standing
        self._tell = tell
        self._tell_roles = tell_roles
        self.partition = parts.partition
        number, journal = parts.partition.number, standing.journal
        self._journal: Journal = journal if parts.partition.alone else partial(journal, partition=number)
        self.state = NodeState.STARTING
        self.lease = Lease()  # the last one seen, or ours
        self.renewed_at = 0
        self.changes = 0
        self.refused = ""
        self.copies: Sequence[StreamCopy] = ()
        self._watch = LeaseWatch()
        self._free_since: int | None = None  # the first of the looks in a row at which this node could have tried
        self._misplaced_since: int | None = None  # the first of the looks in a row that preferred another owner
        self._stays_until = 0  # it hands over to no preferred node before this
        self._unfit_until = 0
        self._revision: int | None = None  # of our lease; None: to be looked up
        self._last_term = 0
        self._newest = 0
        self._leaving: asyncio.Task[None] | None = None  # a standby role that ends while an owner's roles start

    def __repr__(self) -> str:
        return f"<Keeper of partition {self.partition.number}, {self.state}>"

    async def run(self, stopping: asyncio.Event) -> None:
        """Keep the partition until `stopping` is set. SettingsError: a role refuses its settings."""
        while not stopping.is_set():
            keeping = await self._stand_by(stopping)
            if keeping is not None:
                await self._own(keeping, stopping)

    @property
    def unfit(self) -> bool:
        """Whether the roles have lately ended again and again here."""
        return self._node.monotonic() < self._unfit_until

    async def look_at_copies(self) -> None:
        self.copies = await self._parts.copies_now()

    def tell(self, view: ClusterView) -> None:
        self._parts.roles.tell(view)

    def heed_drain(self) -> None:
        """Show a standby as drained, or as one again."""
        if self.state in (NodeState.STANDBY, NodeState.DRAINED):
            self.state = NodeState.DRAINED if self._node.drained else NodeState.STANDBY

    async def _stand_by(self, stopping: asyncio.Event) -> "asyncio.Task[None] | None":
        """Stand by until this node owns (the task that keeps its lease), or until `stopping` (None)."""
        stop_role = asyncio.Event()
        role = asyncio.create_task(self._parts.roles.stand_by(stop_role))
        follower = asyncio.create_task(self._follow())
        try:
            while not stopping.is_set():
                news = self._node.news
                for task in (role, follower):
                    if task.done():
                        task.result()
                        raise SettingsError("the standby role ended: see its message above")
                if await self._take_lease():
                    keeping = asyncio.create_task(self._keep_lease())
                    await end(follower)
                    if await self._claim(keeping, stopping):
                        self._leaving = role
                        return keeping
                    await self._let_go(keeping)
                    follower = asyncio.create_task(self._follow())
                if self.lease.holder not in ("", self._node.name):
                    self._parts.roles.expect(self._node.is_next(self.partition.number, self.lease.holder))
                await self._node.pause(LOOK_NS, stopping, news)
            return None
        finally:
            await end(follower)
            stop_role.set()
            if self._leaving is not role:
                await asyncio.wait([role])

    async def _follow(self) -> None:
        """Load the copies, and keep them up to date. A store that is refused is shown and tried again, never owned."""
        self.state = NodeState.STARTING
        while True:
            try:
                prepared = await self._parts.copies.prepare()
                break
            except StoreFailed as error:
                self._journal("node.store_refused", error=str(error))
                self.refused = str(error)
                await self._node.clock.sleep_until(self._node.clock.now() + REFUSED_PAUSE_NS)
        self.refused = ""
        self._newest = max(self._newest, prepared.newest)
        self.state = NodeState.DRAINED if self._node.drained else NodeState.STANDBY
        await self._parts.copies.follow()

    async def _take_lease(self) -> bool:
        """Look at the lease, and try to take it if the rules allow that."""
        node, number = self._node, self.partition.number
        try:
            seen = await node.peers.lease(number)
            self._saw(seen.lease or Lease())
            self._watch, try_now = rules.look(self._watch, seen, node.monotonic(), node.id)
            if not self._has_turn(try_now) or self.state is not NodeState.STANDBY or node.clock_fault() is not None:
                return False
            began = node.monotonic()
            wanted = Lease(node.name, node.id, node.url, max(self.lease.term, self._last_term) + 1)
            self._revision = await node.peers.put_lease(wanted, seen.revision, number)
        except PeersFailed as error:
            self._watch = rules.unsure(self._watch)
            node.missed(error)
            return False
        if self._revision is None:
            return False
        self.renewed_at = began
        self._saw(wanted)
        return True

    def _has_turn(self, try_now: bool) -> bool:
        """Whether this node tries: at once if it is the preferred owner, otherwise after a while."""
        if not try_now:
            self._free_since = None
            return False
        now = self._node.monotonic()
        since = self._free_since = now if self._free_since is None else self._free_since
        if self.partition.alone:
            return True
        preferred = self._node.preferred(self.partition.number) == self._node.name
        return now - self._node.joined_at >= SETTLE_NS and (preferred or now - since >= YIELD_NS)

    async def _keep_lease(self) -> None:
        """Renew our lease each second. It returns when another node has it."""
        clock = self._node.clock
        while True:
            await clock.sleep_until(clock.now() + rules.RENEW_NS)
            try:
                if not await self._renew():
                    self._journal("node.lease_lost", holder=self.lease.holder)
                    return
            except PeersFailed as error:
                self._revision = None
                self._node.missed(error)

    async def _renew(self) -> bool:
        node, ours, number = self._node, self.lease, self.partition.number
        began = node.monotonic()
        revision = self._revision
        if revision is None:
            seen = await node.peers.lease(number)
            if seen.lease is not None and seen.lease.id != node.id:
                self._saw(seen.lease)
                return False
            revision = seen.revision
        self._revision = await node.peers.put_lease(ours, revision, number)
        if self._revision is None:
            return await self._renew() if revision else True  # looked up anew, now or in a second
        self.renewed_at = began
        self._tell_roles(self)
        return True

    async def _claim(self, keeping: "asyncio.Task[None]", stopping: asyncio.Event) -> bool:
        """Own the streams: try for a while, as long as the lease is ours; then another node may try."""
        node, until = self._node, self._node.monotonic() + CLAIM_NS
        self.state = NodeState.CLAIMING
        while not keeping.done() and not stopping.is_set() and node.monotonic() < until:
            try:
                epoch = await self._parts.copies.claim()
                self._journal("node.claimed", node=node.name, term=self.lease.term, epoch=epoch)
                return True
            except StoreFailed as error:
                self._journal("node.claim_failed", error=str(error))
                await node.pause(CLAIM_PAUSE_NS, stopping)
        self._watch = rules.unclaimed(self._watch, node.monotonic())
        return False

    async def _own(self, keeping: "asyncio.Task[None]", stopping: asyncio.Event) -> None:
        node, stop_roles, since = self._node, asyncio.Event(), self._node.monotonic()
        self.state, self._misplaced_since, self._free_since = NodeState.OWNER, None, None
        self._tell()
        roles = asyncio.create_task(self._parts.roles.own(self._newest, stop_roles))
        try:
            while not (stopping.is_set() or keeping.done() or roles.done() or node.drained or self._should_yield()):
                await node.pause(LOOK_NS, stopping, node.news)
        finally:
            stop_roles.set()
            await asyncio.wait([roles] if self._leaving is None else [roles, self._leaving])
            self._watch = rules.owned(self._watch, since, node.monotonic())
            await self._let_go(keeping)
        if self.unfit:
            self._watch = rules.unclaimed(self._watch, node.monotonic())
        if roles.result():
            self._watch = rules.fenced(self._watch, node.monotonic())
            self._journal("node.fenced", node=node.name, times=self._watch.fenced)

    def _should_yield(self) -> bool:
        """Whether another node should own: this one's clock stays off, its roles fail, or the other is preferred."""
        yields = self._node.clock_stays_off() or self._fails()
        return yields or (not self.partition.alone and self._is_misplaced())

    def _fails(self) -> bool:
        """Whether the roles end again and again, for want of room on the disk say, and another node could own."""
        if not self._parts.roles.fail or not self._node.has_other(self.partition.number):
            return False
        self._unfit_until = self._node.monotonic() + UNFIT_NS
        self._journal("node.roles_fail", node=self._node.name)
        return True

    def _is_misplaced(self) -> bool:
        """Whether another node has been the preferred owner for a while, and it is this partition's turn to move."""
        node, now = self._node, self._node.monotonic()
        preferred = node.preferred(self.partition.number)
        if preferred in (None, node.name):
            self._misplaced_since = None
            return False
        since = self._misplaced_since = now if self._misplaced_since is None else self._misplaced_since
        if now - since < YIELD_NS or now < self._stays_until or not node.takes_turn_to_hand_over():
            return False
        self._stays_until = now + RETURN_NS
        self._journal("node.hands_over", to=preferred)
        return True

    async def _let_go(self, keeping: "asyncio.Task[None]") -> None:
        """Give the lease up, unless another node has it already, so that others need not wait until it runs out."""
        lost = keeping.done()
        await end(keeping)
        self.renewed_at = 0
        self.state = NodeState.DRAINED if self._node.drained else NodeState.STARTING
        if not lost and self._revision is not None:
            freed = Lease(term=self.lease.term)
            with suppress(PeersFailed):
                await self._node.peers.put_lease(freed, self._revision, self.partition.number)
            self._saw(freed)

    def _saw(self, lease: Lease) -> None:
        changed = lease.id != self.lease.id
        self.lease = lease
        self._last_term = max(self._last_term, lease.term)
        if changed:
            self.changes += 1
            self._tell()
