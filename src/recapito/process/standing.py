"""The standing of a node, once for all its partitions: its name, its peers, the other members, its clock's fault."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from recapito.clock import Clock
from recapito.contracts.peers import Peers
from recapito.domain.cluster.member import CLOCK_LOOKS, Sighting, clock_problem, has_successor
from recapito.domain.cluster.placement import HAND_OVERS_NS, SPARE_NS, able_nodes, heirs_of, place
from recapito.errors import PeersFailed
from recapito.observability.journal import Journal

CANCEL_S = 0.5


class Standing:
    """The node as its keepers see it.

    monotonic: the clock of leases, which all processes of a machine share.
    partitions: the number of all partitions.
    """

    def __init__(
        self,
        name: str,
        id: str,
        url: str,
        peers: Peers,
        clock: Clock,
        monotonic: Callable[[], int],
        journal: Journal,
        partitions: int,
    ) -> None:
        self.name = name
        self.id = id
        self.url = url
        self.peers = peers
        self.clock = clock
        self.monotonic = monotonic
        self.journal = journal
        self.members: Sequence[Sighting] = ()
        self.joined_at = monotonic()
        self.drained = False
        self.leaving = False  # it stops
        self.unreachable = ""
        self.news = asyncio.Event()  # a new one after each piece of news
        self.loops: Sequence[asyncio.Task[None]] = ()
        self._partitions = partitions
        self._clock_off = 0  # the looks in a row that found our clock off
        self._handed_over_at: int | None = None
        self._able: dict[str, Collection[int]] = {}
        self._placed: dict[int, str] = {}
        self._heirs: dict[str, dict[int, str]] = {}  # by owner

    def __repr__(self) -> str:
        return f"<Standing of {self.name}, {len(self.members)} members>"

    def saw(self, members: Sequence[Sighting]) -> None:
        """Take in a look at the members."""
        self.members = members
        self._clock_off = self._clock_off + 1 if self.clock_fault() else 0
        self._able = able_nodes(members)
        self._placed = place(self._partitions, self._able)
        self._heirs = {}

    def missed(self, error: PeersFailed) -> None:
        self.unreachable = str(error)

    def wake(self) -> None:
        """Have all loops look now."""
        self.news.set()
        self.news = asyncio.Event()

    def preferred(self, partition: int) -> str | None:
        """The node that should own a partition; None if no node can."""
        return self._placed.get(partition)

    def has_other(self, partition: int) -> bool:
        """Whether another node could own a partition."""
        return any(name != self.name and partition not in lacks for name, lacks in self._able.items())

    def is_next(self, partition: int, owner: str) -> bool:
        """Whether this node should own a partition that another one owns: now, or once that one is gone."""
        if self.drained or self.monotonic() - self.joined_at < SPARE_NS:
            return False
        if owner not in self._heirs:
            self._heirs[owner] = heirs_of(owner, self._partitions, self._able)
        return self.name in (self.preferred(partition), self._heirs[owner].get(partition))

    def takes_turn_to_hand_over(self) -> bool:
        """Whether a partition may be handed over to its preferred owner now: a node moves one at a time."""
        now = self.monotonic()
        if self._handed_over_at is not None and now - self._handed_over_at < HAND_OVERS_NS:
            return False
        self._handed_over_at = now
        return True

    def clock_fault(self) -> str | None:
        """The reason why this node's clock, as the cluster saw it, forbids it to own."""
        ours = next((seen for seen in self.members if seen.member.id == self.id), None)
        return None if ours is None else clock_problem(ours)

    def clock_stays_off(self) -> bool:
        """Whether the clock of this owner stays off, and another node could own."""
        yields = self._clock_off >= CLOCK_LOOKS and has_successor(self.id, self.members)
        if yields:
            self.journal("node.clock_off", why=self.clock_fault())
        return yields

    async def pause(self, ns: int, stopping: asyncio.Event, news: asyncio.Event | None = None) -> None:
        """Wait, or until `stopping` or `news`. The error of a loop that failed is raised: a silent node must end."""
        for loop in self.loops:
            if loop.done():
                loop.result()
        wakers = (stopping,) if news is None else (stopping, news)
        await first(self.clock.sleep_until(self.clock.now() + ns), *(waker.wait() for waker in wakers))


async def end(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and wait until it has ended, however it ends.

    Python 3.11 loses a cancellation that meets the answer to a request: then the task is cancelled again.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_S)
    if not task.cancelled():
        task.exception()


async def first(*work: Awaitable[object]) -> None:
    """Wait until one of these has ended, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
