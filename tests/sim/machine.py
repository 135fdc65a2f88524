"""The machine: intake and dispatch as two roles on one disk, each of which can be killed, stopped and started alone.

A crash ends a role between two steps: its tasks and its memory are gone, and nothing that they still try has an effect.
A stop cancels it and lets it finish what it does on the way out.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from recapito.clock import Clock
from recapito.contracts.history import HistoryBounds
from recapito.contracts.sender import Sender
from recapito.contracts.vault import Vault
from recapito.dispatch.capacity import Slots
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.dispatch.service import DispatchService
from recapito.domain import limits
from recapito.domain.instant import DAY, SECOND
from recapito.errors import StoreDamaged, StoreFailed
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.dead_letters.search import DeadLetterSearch
from recapito.intake.maintenance.blob_notifier import BlobNotifier
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.intake.maintenance.janitor import Janitor
from recapito.intake.maintenance.notice_publisher import NoticePublisher
from recapito.intake.maintenance.retention import NOTHING, RetentionBounds
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.replayer import Replayer
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Changes, Topics
from recapito.stores.memory import MemoryHistory
from recapito.vaults.memory import MemoryVault
from tests.kit.dispatch import make_dispatch
from tests.sim.clock import SimClock
from tests.sim.endpoints import Network, SimSender
from tests.sim.faults import LEDGER_COMMITS, LOG_COMMITS, Faults, FaultyStore, FaultyVault, Life, Role
from tests.sim.oracle import Oracle
from tests.sim.storage import MemoryStorage, Storage
from tests.sim.tiny import AMPLE, Tiny
from tests.sim.witness import Witness

T = TypeVar("T")
DRAIN_NS = 40 * SECOND
ALL = 1 << 31


class ConnectionLost(Exception):
    """The server died under a request: whether it was done is unknown."""


@dataclass
class Parts:
    """The parts of the machine; a planted bug replaces one. Limits are small in some seeds."""

    storage: Storage = field(default_factory=MemoryStorage)
    vault: Callable[[MemoryVault], Vault] = lambda vault: vault
    sender: Callable[[Sender], Sender] = lambda sender: sender
    log: Callable[[Any], Any] = lambda log: log
    dispatch_clock: Callable[[Clock], Clock] = lambda clock: clock
    late: Callable[[], LateAnswers] = LateAnswers
    slots: Callable[[], Slots] = Slots
    segment_bytes: int = limits.SEGMENT_CACHE_BYTES
    tiny: Tiny = AMPLE
    falls: Callable[[Role], int | None] = lambda role: None  # after how many waits a new life dies
    jitter: Callable[[random.Random], Callable[[], float]] = lambda rng: rng.random
    publisher: type[Publisher] = Publisher
    publish_patience: int = SECOND // 50  # shorter than most commits of a slow disk
    redriver: type[Redriver] = Redriver
    replayer: type[Replayer] = Replayer
    dispatcher: type[Dispatcher] = Dispatcher
    default_profile: str = "2021-03"
    keep_for_ever: bool = False
    keeping: RetentionBounds = NOTHING
    poisoned: bool = False  # then a lane may stop


class TrimLock:
    """The lock that trims and renewals of lanes exclude each other by; it ends with the process that holds it."""

    def __init__(self) -> None:
        self._held = False

    @contextmanager
    def __call__(self) -> Iterator[bool]:
        if self._held:
            yield False
            return
        self._held = True
        try:
            yield True
        finally:
            self._held = False


class Machine:
    """Runs the two roles until closed, and starts one again whenever it ends."""

    def __init__(
        self, parts: Parts, clock: SimClock, network: Network, faults: Faults, oracle: Oracle, rng: random.Random
    ) -> None:
        self.files = MemoryVault()
        self.vault = FaultyVault(parts.vault(self.files), faults)
        self.dispatch: DispatchService | None = None
        self.dispatcher: Dispatcher | None = None
        self.publisher: Publisher | None = None
        self.topics: Topics | None = None
        self.subscriptions: Subscriptions | None = None
        self.janitor: Janitor | None = None
        self.notifier: BlobNotifier | None = None
        self.redriver: Redriver | None = None
        self.replayer: Replayer | None = None
        self.damages: DamageReport | None = None
        self.crashes = 0
        self._log: Any = None  # as intake sees it
        self.janitor_every_s = 1200.0
        self._sweeping = asyncio.Lock()
        self._trim_lock = TrimLock()
        self._parts = parts
        self._clock = clock
        self._network = network
        self._faults = faults
        self._oracle = oracle
        self._witness = Witness(oracle)
        self._rng = rng
        self._lives = 0
        self._roots: dict[Role, tuple[Life, asyncio.Task[None]]] = {}
        self._handlers: set[asyncio.Task[Any]] = set()
        oracle.vault_files = self.files.files

    async def run(self) -> None:
        """Keep both roles running."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep(Role.INTAKE, self._intake))
            tasks.create_task(self._keep(Role.DISPATCH, self._dispatch))

    def alive(self, role: Role) -> bool:
        """Whether the role runs."""
        return role in self._roots and self._roots[role][0].alive

    def crash(self, role: Role) -> None:
        """Kill a role: no matter where it is, it does nothing more."""
        if not self.alive(role):
            return
        life, root = self._roots[role]
        self.crashes += 1
        self._oracle.note("crash", role)
        self._oracle.disturb()
        life.die()
        root.cancel()

    def cancel(self, role: Role) -> None:
        """Stop a role where it waits."""
        if self.alive(role):
            self._oracle.note("stop", role)
            self._oracle.disturb()
            self._roots[role][1].cancel()

    def steady(self) -> None:
        """No life dies while it starts, from now on."""
        self._parts.falls = lambda role: None
        for life, _ in self._roots.values():
            life.waits_left = None

    async def drain(self, role: Role) -> None:
        """Stop a role when it has finished what is under way."""
        life = self._roots[role][0] if role in self._roots else None
        self._oracle.note("drain", role)
        if role is Role.DISPATCH and self.dispatch is not None:
            await self.dispatch.drain(self._clock.now() + DRAIN_NS)
        elif role is Role.INTAKE and self.publisher is not None:
            await self.publisher.close()
        if life is not None and life.alive:
            self.cancel(role)

    async def request(self, handle: Callable[[], Awaitable[T]]) -> T:
        """Do something in the intake process, for a client who loses the connection when it dies."""
        if not self.alive(Role.INTAKE) or self.publisher is None:
            raise ConnectionLost
        handler = asyncio.ensure_future(handle())
        handler.set_name(f"handler-{self._oracle.time_s():020.9f}-{len(self._handlers)}")
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)
        await asyncio.wait([handler])
        if handler.cancelled() or not self.alive(Role.INTAKE):
            if not handler.cancelled():
                handler.exception()
            raise ConnectionLost
        return handler.result()

    def ring(self) -> None:
        """Wake dispatch: the message takes a moment, and is lost if dispatch is down."""
        asyncio.get_running_loop().call_later(self._rng.uniform(0, 0.01), self._deliver_ring)

    def _ring_in_a_second(self) -> None:
        """A server rings every second: a change whose commit failed may be stored, and is seen then."""
        asyncio.get_running_loop().call_later(1.0, self._deliver_ring)

    def _deliver_ring(self) -> None:
        if self.dispatcher is not None and self.alive(Role.DISPATCH):
            self.dispatcher.notify()

    def _ring_notifier(self) -> None:
        """Wake intake: the message is lost if intake is down."""
        if self.notifier is not None and self.alive(Role.INTAKE):
            self.notifier.ring()

    async def _keep(self, role: Role, body: Callable[[Life], Awaitable[None]]) -> None:
        while True:
            self._lives += 1
            life = Life(role, self._lives, partial(self.crash, role))
            life.waits_left = self._parts.falls(role)
            root = asyncio.create_task(self._live(life, body), name=f"{role}-{self._lives}")
            self._roots[role] = (life, root)
            await asyncio.wait([root])
            await asyncio.sleep(self._rng.choice((0.0, 0.05, 1.0, self._rng.uniform(1, 60))))

    async def _live(self, life: Life, body: Callable[[Life], Awaitable[None]]) -> None:
        """One life. That it ends by itself is a finding, unless its store had just failed."""
        try:
            await body(life)
        except asyncio.CancelledError:
            pass  # it was killed, or stopped
        except StoreDamaged as error:  # damage lasts, and so would a role that ends at each start
            self._oracle.fail("I24", f"{life.role} died of damage: {error}")
        except StoreFailed:
            self._oracle.note("died of a store failure", life.role)
        except Exception as error:
            self._oracle.fail("I24", f"{life.role} died of {error!r}: {getattr(error, 'exceptions', '')}")

    async def _intake(self, life: Life) -> None:
        storage = self._parts.storage
        raw_log, raw_ledger = storage.open_log(write=True), storage.open_ledger(write=False)
        log: Any = FaultyStore(raw_log, LOG_COMMITS, life, self._faults, self._witness)
        ledger: Any = FaultyStore(raw_ledger, LEDGER_COMMITS, life, self._faults, self._witness)
        self._log = log
        publisher = self._parts.publisher(
            log, self._clock, self.ring, wall=self._clock, patience=self._parts.publish_patience
        )
        changes = Changes(self.ring)
        self.topics = Topics(
            log, self._clock, self._rng.randbytes, changes, default_profile=self._parts.default_profile
        )
        self.damages = DamageReport(log, ledger)
        self.subscriptions = Subscriptions(log, self._clock, self.topics, changes)
        self.janitor = Janitor(log, log, ledger, self._clock, self._trim_lock, keeping=self._parts.keeping)
        notices = NoticePublisher(log, log, self._clock, lambda: None, self.ring, self._journal)
        self.notifier = BlobNotifier(notices, log, ledger, self._clock, self._journal)
        self.redriver = self._parts.redriver(
            log,
            DeadLetterSearch(log, self.vault.seen_by(life)),
            self._clock,
            self._clock,
            publisher.check_open,
            self.ring,
            self._new_guid,
            self._journal,
        )
        self.replayer = self._parts.replayer(
            log, log, ledger, self._clock, True, publisher.check_open, self.ring, self._journal
        )
        self.publisher = publisher
        life.at_death = self._intake_died
        life.at_failure = self._ring_in_a_second
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publisher.run())
                tasks.create_task(self._sweep())
                tasks.create_task(self.notifier.run())
                self._oracle.intake_started()
                self.ring()  # what was appended just before the last life ended may not have been heard
        finally:
            life.die()
            storage.close(raw_log)
            storage.close(raw_ledger)

    async def sweep(self) -> None:
        """A round of the janitor, who makes one after the other."""
        assert self.janitor is not None
        async with self._sweeping:
            await self.janitor.run_once()

    async def read_all(self) -> None:
        """Read all records, as the pages of an operator do."""
        assert self._log is not None
        await self._log.topics("", ALL)
        await self._log.subscriptions(None, 0, ALL)
        for kind in sorted({kind for kind, _ in self._oracle.documents}):
            await self._log.documents(kind, "", ALL)

    async def _sweep(self) -> None:
        """The janitor's rounds, at odd moments instead of every second."""
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self.janitor_every_s))
            try:
                await self.sweep()
            except StoreFailed:
                continue

    async def _dispatch(self, life: Life) -> None:
        parts = self._parts
        raw_log, raw_ledger = parts.storage.open_log(write=False), parts.storage.open_ledger(write=True)
        log: Any = parts.log(FaultyStore(raw_log, LOG_COMMITS, life, self._faults, self._witness))
        ledger: Any = FaultyStore(raw_ledger, LEDGER_COMMITS, life, self._faults, self._witness)
        sender = SimSender(self._network, life.number)
        clock = parts.dispatch_clock(self._clock)
        context = DispatchContext(
            log_id=log.id,
            clock=clock,
            sender=parts.sender(sender),
            segments=SegmentCache(log, parts.segment_bytes),
            tail_entries=parts.tiny.tail_entries,
            no_trimming=self._trim_lock,
            slots=parts.slots(),
            late=parts.late(),
            random=parts.jitter(self._rng),
            journal=self._journal,
            history=MemoryHistory(HistoryBounds(DAY, 0), clock.now, capacity=1000),
            commit_budget=parts.tiny.commit_budget(),
            retry_budget=parts.tiny.retry_budget(),
            window=parts.tiny.window,
            commit_bytes=parts.tiny.commit_bytes,
        )
        service = make_dispatch(
            log,
            ledger,
            self.vault.seen_by(life),
            context,
            self._clock,
            parts.default_profile,
            parts.dispatcher,
            self._new_guid,
            parts.keep_for_ever,
            self._ring_notifier,
            parts.tiny.group_events,
        )
        self.dispatch = service
        self.dispatcher = service.dispatcher
        self._oracle.dispatch_started(life.number)
        self._ring_notifier()  # what was written just before the last life ended may not have been heard
        life.at_death = partial(self._dispatch_died, sender)
        try:
            await service.run()
        finally:
            life.die()
            parts.storage.close(raw_log)
            parts.storage.close(raw_ledger)

    def _intake_died(self) -> None:
        self.publisher = None
        for handler in sorted(self._handlers, key=lambda task: task.get_name()):
            handler.cancel()

    def _dispatch_died(self, sender: SimSender) -> None:
        sender.die()
        self._oracle.dispatch_died()

    def _new_guid(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _journal(self, event: str, **fields: object) -> None:
        if event == "lane.stopped" and not self._parts.poisoned:
            lane = int(str(fields["lane"]))
            self._oracle.note("lane stopped", lane, fields["why"])
            if not self._oracle.may_stop(lane):
                self._oracle.fail("I24", f"lane {lane} stopped: {fields['why']}")
