"""Several partitions on several nodes in virtual time: nodes die, pause, are cut off, stop, join and drain.

The nodes, their keepers, the placement and the routers are the real ones. The peers are those in memory, behind answers
that come late or not at all; the streams of a partition are a fence with a store; the roles of an owner commit, send
and answer requests.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from starlette.types import Scope, Send

from recapito.api.errors import OutcomeUnknown as Unknown
from recapito.api.router.forward import NOT_OWNER, PARTITION, UNIX, ForwardCounts, GatheredAnswer, NoOwner
from recapito.api.router.partitions import PartitionRouter
from recapito.contracts.backend import PreparedState
from recapito.domain.cluster.lease import Lease, may_send
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.partition import Partition, home_of
from recapito.domain.cluster.view import ClusterView
from recapito.errors import PeersFailed, SettingsError, StoreFailed
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.observability.journal import silent
from recapito.peers.memory import Board, MemoryPeers
from recapito.process.keeper import KeeperParts
from recapito.process.node import Node, NodeParts
from tests.kit.peers import ask_to_drain
from tests.sim.clock import SimClock
from tests.sim.loop import SECOND, SimLoop, run

STORM_S = 150
OWNED_WITHIN_S = 60
BALANCED_AFTER_S = 180
HANDED_OVER_WITHIN_S = 4
NOTICED_NS = 5 * SECOND  # an owner that another node has replaced has noticed that, or may not send any more
UNREACHED_S = 2.0
TOPICS = [f"Topic-{number}" for number in range(12)]
ARM = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/"
_SECRET = ClusterSecret(bytes(32))


class Violation(Exception):
    """A broken law: its id, and how it broke."""


class PartitionStreams:
    """The streams of one partition: the last node that claimed writes, under its epoch."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.epoch = 0
        self.claimed_at = 0
        self.stored: dict[str, str] = {}  # the ids of events, with their topics

    def claim(self, now: int) -> int:
        self.epoch, self.claimed_at = self.epoch + 1, now
        return self.epoch

    def takes(self, epoch: int) -> bool:
        """Whether a commit under this epoch is stored."""
        return epoch == self.epoch


class SimPeers(MemoryPeers):
    """The peers as a node reaches them: late, in vain if it is cut off, and sometimes without an answer."""

    def __init__(self, host: "Host") -> None:
        super().__init__(host.world.board, host.name)
        self._host = host

    async def announce(self, member: Any, news: bool = False) -> None:
        await self._host.reach()
        await super().announce(member, news)

    async def withdraw(self, name: str) -> None:
        await self._host.reach()
        await super().withdraw(name)

    async def members(self) -> list[Any]:
        await self._host.reach()
        return await super().members()

    async def lease(self, partition: int = 0) -> Any:
        await self._host.reach()
        return await super().lease(partition)

    async def put_lease(self, lease: Lease, revision: int, partition: int = 0) -> int | None:
        await self._host.reach()
        stored = await super().put_lease(lease, revision, partition)
        if self._host.world.chance(0.01):
            raise PeersFailed("no answer")
        await self._host.reach()
        return stored

    async def drain_asked(self, id: str) -> bool | None:
        await self._host.reach()
        return await super().drain_asked(id)


class SimCopies:
    """The copies of one partition at one node. `epoch` is that of its last claim."""

    def __init__(self, host: "Host", streams: PartitionStreams) -> None:
        self._host = host
        self.streams = streams
        self.epoch = 0

    async def prepare(self) -> PreparedState:
        await self._reach()
        await self._host.clock.nap(self._host.world.rng.uniform(0.1, 4))
        return PreparedState(0, False)

    async def follow(self) -> None:
        await asyncio.Event().wait()

    async def claim(self) -> int:
        await self._reach()
        self.epoch = self.streams.claim(self._host.clock.now())
        await self._reach()
        return self.epoch

    async def commit(self, event: str, topic: str) -> bool:
        """Store an event; False if another node owns. An answer that does not come is StoreFailed."""
        await self._reach()
        if not self.streams.takes(self.epoch):
            return False
        if self.epoch != self.streams.epoch:
            raise Violation("commit", f"{self._host.name} commits in {self.streams.number}, which another node claimed")
        self.streams.stored[event] = topic
        await self._reach()
        return True

    async def _reach(self) -> None:
        try:
            await self._host.reach()
        except PeersFailed as error:
            raise StoreFailed(str(error)) from error


class SimRoles:
    """The roles of one partition at one node: while they own, they commit, send, and answer requests."""

    def __init__(self, host: "Host", copies: SimCopies) -> None:
        self._host = host
        self._copies = copies
        self.number = copies.streams.number
        self.serves = False
        self.view = ClusterView(host.name, NodeState.STARTING)

    async def stand_by(self, stopping: asyncio.Event) -> None:
        await stopping.wait()

    fail = False

    async def own(self, newest: int, stopping: asyncio.Event) -> bool:
        self.serves = True
        try:
            while not stopping.is_set():
                self._send()
                with suppress(StoreFailed):
                    if not await self._copies.commit("", ""):
                        return True
                await self._host.clock.nap(0.25)
            return False
        finally:
            self.serves = False

    def expect(self, soon: bool) -> None:
        """Nothing has to be loaded here."""

    def tell(self, view: ClusterView) -> None:
        self.view = view

    def _send(self) -> None:
        streams, now = self._copies.streams, self._host.clock.now()
        if not self._host.world.parts.may_send(self.view.renewed_at, now):
            return
        self._host.world.counts["sent"] += 1
        if self._copies.epoch != streams.epoch and now - streams.claimed_at > NOTICED_NS:
            raise Violation("send", f"{self._host.name} sends for {self.number}, which another node owns")

    async def answer(self, scope: Scope, body: bytes) -> GatheredAnswer:
        """The answer of this partition's intake."""
        if not self.serves:
            raise NoOwner("nothing listens")
        event = body.decode()
        try:
            if scope["method"] == "POST" and not await self._copies.commit(event, scope["path"]):
                raise NoOwner("another node owns")
            await self._host.reach()
        except (StoreFailed, PeersFailed) as error:
            raise Unknown from error
        content = msgspec.json.encode({"partition": self.number, "bits": 1 << self.number})
        return GatheredAnswer(200, [(b"content-type", b"application/json")], content)


class SimForwarder:
    """The way from a node to one partition, in place of `Forwarder`."""

    def __init__(self, host: "Host", number: int) -> None:
        self._host = host
        self._number = number
        self.counts = ForwardCounts()

    @property
    def is_near(self) -> bool:
        return self._owner().startswith(UNIX)

    @property
    def has_owner(self) -> bool:
        return bool(self._owner())

    def _owner(self) -> str:
        view = self._host.view
        if self._number >= len(view.partitions):
            return ""
        partition = view.partitions[self._number]
        if partition.owner != view.node:
            return partition.url
        return UNIX if partition.state is NodeState.OWNER else ""

    async def relay(self, scope: Scope, body: bytes, send: Send, publishes: bool) -> None:
        await (await self.ask(scope, body)).send(send)

    async def ask(self, scope: Scope, body: bytes = b"") -> GatheredAnswer:
        owner = self._owner()
        if not owner:
            raise NoOwner("no owner")
        if owner == UNIX:
            return await self._host.roles[self._number].answer(scope, body)
        other = self._host.world.hosts.get(owner)
        if other is None or not other.runs or other.cut or self._host.cut:
            raise NoOwner("it cannot be reached")
        signed = _SECRET.sign("10.0.0.1", int(time.time()))
        headers = [*scope["headers"], (FORWARDED, signed), (PARTITION, b"%d" % self._number)]
        answer = await other.request({**scope, "headers": headers}, body)
        if any(name == NOT_OWNER for name, _ in answer.headers):
            raise NoOwner("it does not own")
        return answer


class HostClock:
    """The clock of one machine: while it is paused, nothing there goes on."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.going = asyncio.Event()
        self.going.set()

    def now(self) -> int:
        return self._clock.now()

    async def sleep_until(self, when: int) -> None:
        await self._clock.sleep_until(when)
        await self.going.wait()

    async def nap(self, seconds: float) -> None:
        await self.sleep_until(self.now() + int(seconds * SECOND))


class Host:
    """A machine with a node, which is started and ended several times."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.clock = HostClock(world.clock)
        self.cut = False
        self.runs = False
        self.roles: list[SimRoles] = []
        self.view = ClusterView(name, NodeState.STARTING)
        self._router: PartitionRouter | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def owned(self) -> set[int]:
        return {roles.number for roles in self.roles if roles.serves and self.runs}

    def start(self) -> None:
        life = Life(self)
        self.roles = life.roles
        self.view = ClusterView(self.name, NodeState.STARTING)
        self._router = self.world.parts.router([SimForwarder(self, n) for n in range(self.world.partitions)], _SECRET)
        self._stopping = asyncio.Event()
        self.runs = True
        keepers = [
            KeeperParts(copies, roles, partition=Partition(roles.number, self.world.partitions))
            for copies, roles in zip(life.copies, life.roles, strict=True)
        ]
        parts = NodeParts(
            self.name,
            self.name,
            "1.1",
            self.world.parts.peers(self),
            keepers,
            self.clock,
            self.clock.now,
            silent,
            router=life,
        )
        self._task = asyncio.create_task(Node(parts).run(self._stopping), name=f"node {self.name}")

    async def kill(self) -> None:
        """The process is gone, with all it would still have said."""
        self.runs = False
        self.clock.going.set()
        await self._end()

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=30)
        await self.kill()

    async def _end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and isinstance(error := task.exception(), Violation):
                raise error

    def check(self) -> None:
        """Report the violation that ended a task here; a node that could not join in time is started again."""
        if self._task is None or not self._task.done():
            return
        error = None if self._task.cancelled() else self._task.exception()
        if error is not None and not isinstance(error, SettingsError):
            raise error
        self.world.counts["restarts"] += 1
        self.start()

    async def reach(self) -> None:
        """Reach the servers, after a while. PeersFailed: it is cut off, or its process is gone."""
        if not self.runs:
            raise PeersFailed("the process is gone")
        await self.clock.nap(self.world.rng.choice((0.001, 0.001, 0.01, 0.05)))
        if self.cut:
            await self.clock.nap(UNREACHED_S)
            raise PeersFailed("cut off")
        if not self.runs:
            raise PeersFailed("the process is gone")

    async def request(self, scope: Scope, body: bytes) -> GatheredAnswer:
        """The answer of this node's router."""
        parts: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            parts.append(message)

        if self._router is None or not self.runs:
            raise NoOwner("nothing listens")
        await self.clock.nap(0.001)
        await self._router(scope, receive, send)
        return GatheredAnswer(parts[0]["status"], parts[0]["headers"], b"".join(each["body"] for each in parts[1:]))


class Life:
    """The parts of one life of a node's process; its router hears views as a process of its own does."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.copies = [SimCopies(host, streams) for streams in host.world.streams]
        self.roles = [SimRoles(host, copies) for copies in self.copies]

    async def run(self, stopping: asyncio.Event) -> None:
        await stopping.wait()

    def tell(self, view: ClusterView) -> None:
        if self._host.roles is self.roles:
            self._host.view = view


class PartitionParts(NamedTuple):
    """The classes and rules of a world, so that a test can plant wrong ones."""

    streams: type[PartitionStreams] = PartitionStreams
    peers: type[SimPeers] = SimPeers
    router: Callable[[Sequence[Any], ClusterSecret], PartitionRouter] = PartitionRouter
    may_send: Callable[[int, int], bool] = may_send


SOUND = PartitionParts()


@dataclass
class ToldPartitions:
    """A history: what happened how often, and the first violation."""

    counts: Counter[str] = field(default_factory=Counter)
    violation: tuple[str, ...] = ()


class World:
    """One history."""

    def __init__(self, seed: int, loop: SimLoop, parts: PartitionParts, counts: Counter[str]) -> None:
        self.rng = random.Random(f"{seed}/partitions")
        self.clock = SimClock(loop, self.rng)
        self.parts = parts
        self.counts = counts
        self.partitions = self.rng.randint(2, 4)
        self.board = Board(self.clock.now)
        self.streams = [parts.streams(number) for number in range(self.partitions)]
        self.hosts: dict[str, Host] = {}
        self._calm = False

    def chance(self, odds: float) -> bool:
        return not self._calm and self.rng.random() < odds

    async def live(self) -> None:
        for name in "abc"[: self.rng.randint(1, 3)]:
            self._join(name)
        clients = asyncio.create_task(self._publish())
        try:
            await self._storm()
            await self._heal()
            await self._check_rest(clients)
        finally:
            clients.cancel()
            for host in self.hosts.values():
                with suppress(Violation):
                    await host.kill()

    def _join(self, name: str) -> None:
        self.hosts[name] = Host(self, name)
        self.hosts[name].start()

    async def _storm(self) -> None:
        end = self.clock.now() + STORM_S * SECOND
        faults = (self._kill, self._stop, self._pause, self._cut, self._drain, self._add)
        tasks: list[asyncio.Task[None]] = []
        while self.clock.now() < end:
            await self._watch(self.rng.uniform(2, 20))
            idle = [host for host in self.hosts.values() if host.runs and not host.cut and host.clock.going.is_set()]
            if idle:
                fault = self.rng.choice(faults)
                self.counts[fault.__name__.strip("_")] += 1
                tasks.append(asyncio.create_task(fault(self.rng.choice(idle))))
        for task in tasks:
            await task

    async def _kill(self, host: Host) -> None:
        await host.kill()
        await self._wait(0, 20)
        host.start()

    async def _stop(self, host: Host) -> None:
        await host.stop()
        await self._wait(0, 10)
        host.start()

    async def _pause(self, host: Host) -> None:
        host.clock.going.clear()
        await self._wait(1, 25)
        host.clock.going.set()

    async def _cut(self, host: Host) -> None:
        host.cut = True
        await self._wait(1, 20)
        host.cut = False

    async def _drain(self, host: Host) -> None:
        await ask_to_drain(self.board, host.name, True)
        await self._wait(2, 20)
        await ask_to_drain(self.board, host.name, False)

    async def _add(self, host: Host) -> None:
        if len(self.hosts) < 4:
            self._join("abcd"[len(self.hosts)])

    async def _wait(self, least: float, most: float) -> None:
        await self.clock.sleep_until(self.clock.now() + int(self.rng.uniform(least, most) * SECOND))

    async def _heal(self) -> None:
        self._calm = True
        for host in self.hosts.values():
            await ask_to_drain(self.board, host.name, False)

    async def _watch(self, seconds: float) -> None:
        """Let time pass, and look at the tasks of all hosts."""
        end = self.clock.now() + int(seconds * SECOND)
        while self.clock.now() < end:
            await self.clock.sleep_until(min(end, self.clock.now() + SECOND))
            for host in self.hosts.values():
                if host.runs and host.clock.going.is_set():
                    host.check()

    async def _check_rest(self, clients: "asyncio.Task[None]") -> None:
        """After everything heals: owners within a bound, then shares, then answers from every node."""
        away: Counter[int] = Counter()
        for second in range(OWNED_WITHIN_S + BALANCED_AFTER_S):
            await self._watch(1)
            if clients.done():
                clients.result()
            owners = Counter(number for host in self.hosts.values() for number in host.owned)
            for number in range(self.partitions):
                away[number] = 0 if owners[number] else away[number] + 1
                bound = OWNED_WITHIN_S if second < OWNED_WITHIN_S else HANDED_OVER_WITHIN_S
                if away[number] >= bound:
                    raise Violation("owned", f"partition {number} has had no owner for {away[number]} s")
        share = -(-self.partitions // len(self.hosts))
        for host in self.hosts.values():
            if len(host.owned) > share:
                raise Violation("balance", f"{host.name} owns {sorted(host.owned)}, its share is {share}")
        for host in self.hosts.values():
            for topic in TOPICS:
                await self._ask(host, topic, patient=True)

    async def _publish(self) -> None:
        """Clients: they publish to any topic at any node, spell names as they like, and ask for lists."""
        for number in range(1_000_000):
            await self._wait(0.2, 1)
            running = [host for host in self.hosts.values() if host.runs and host.clock.going.is_set()]
            if running:
                topic = self.rng.choice(TOPICS)
                spelt = self.rng.choice((topic, topic.lower(), topic.upper()))
                await self._ask(self.rng.choice(running), spelt, f"event-{number}")

    async def _ask(self, host: Host, topic: str, event: str = "", patient: bool = False) -> None:
        home = self.streams[home_of(topic, self.partitions)]
        published = self._scope("POST", f"/topics/{topic}/api/events") if event else self._scope("GET", ARM + topic)
        for scope, body in ((published, event.encode()), (self._scope("GET", "/lanes/totals"), b"")):
            try:
                async with asyncio.timeout(30):
                    answer = await host.request(scope, body)
            except (NoOwner, TimeoutError):
                continue
            if answer.status != 200:
                if patient:
                    raise Violation("home", f"{host.name} answers {answer.status} to {scope['path']} at rest")
                continue
            content = msgspec.json.decode(answer.body, type=dict[str, Any])
            self.counts["answers"] += 1
            if scope is published:
                if content["partition"] != home.number or (event and event not in home.stored):
                    raise Violation("home", f"{topic} of {home.number} was answered by {content['partition']}")
            elif content["bits"] + sum(1 << n for n in content.get("missingPartitions", ())) != 2**self.partitions - 1:
                raise Violation("home", f"a list of {host.name} lacks a partition and does not name it: {content}")

    @staticmethod
    def _scope(method: str, path: str) -> Scope:
        return {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "scheme": "http",
            "headers": [],
            "client": ("10.0.0.1", 1),
        }


def tell_partitions(seed: int, parts: PartitionParts = SOUND) -> ToldPartitions:
    """Live through a history."""
    told = ToldPartitions()

    async def main(loop: SimLoop) -> None:
        await World(seed, loop, parts, told.counts).live()

    try:
        run(seed, main)
    except Violation as violation:
        told.violation = violation.args
    return told
