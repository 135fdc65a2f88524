"""One seed's world: people and faults play on a scene, as the seed's plan says.

A history has a stormy part of at least 24 hours; then everything is healed, and all must come to an end.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from recapito.dispatch.capacity import Slots
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.domain.instant import SECOND
from recapito.domain.profiles.profile import load
from recapito.domain.resources.subscription import Batching, RetryPolicy
from recapito.intake.maintenance.retention import RetentionBounds
from tests.sim import checkers, liveness, replays
from tests.sim.behaviour import HEALTHY, draw_sickness
from tests.sim.books import State
from tests.sim.facts import Violation
from tests.sim.faults import Role
from tests.sim.loop import Deadlock, Livelock, SimLoop, run
from tests.sim.machine import Parts
from tests.sim.pages import PageRot
from tests.sim.plan import Episode, Picky, Plan, draw_plan
from tests.sim.publication import Published
from tests.sim.scene import Scene
from tests.sim.storage import SqliteStorage
from tests.sim.tiny import AMPLE
from tests.sim.workload import draw_sleepy_filter

KEPT_BYTES = 200_000
LIMITS = ((1, None), (2, None), (None, 1), (None, 3), (None, 20), (1, 5), (3, 2), (None, None))
ROWS = {State.PARKED: "parked", State.BURIED: "burial", State.NAMED: "burial"}
LOUD = ("crash", "stop", "suspended", "dispatch starts", "dispatch ends", "VIOLATION", "fault", "healed")


@dataclass
class Story:
    """The result of a seed."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    trace: list[tuple[object, ...]] = field(default_factory=list)
    virtual_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    events: int = 0
    attempts: int = 0
    duplicates: int = 0

    @property
    def digest(self) -> str:
        """A hash of everything that happened."""
        return blake2b(repr(self.trace).encode(), digest_size=16).hexdigest()

    def excerpt(self, lines: int = 60) -> list[str]:
        """The last lines of the trace that are about the event, or the lane, of the first violation."""
        first = self.violations[0]
        about: set[object] = {first.event} if first.event else {first.lane}
        kept = [line for line in self.trace if line[1] in LOUD or about & set(line[2:])]
        return [f"{float(str(line[0])):14.6f}  {' '.join(map(str, line[1:]))}" for line in kept[-lines:]]


class World:
    """Plays a plan on a scene."""

    def __init__(self, scene: Scene, plan: Plan) -> None:
        self.plan = plan
        self.scene = scene
        self.rng = random.Random(f"{plan.seed}/world")
        self.dice = random.Random(f"{plan.seed}/rot")
        self._operator = random.Random(f"{plan.seed}/operator")
        self._repeater = random.Random(f"{plan.seed}/repeater")
        self._limiter = random.Random(f"{plan.seed}/limiter")
        self._start_dice = random.Random(f"{plan.seed}/fall")
        self._healed = False
        storage = scene.parts.storage
        small = isinstance(storage, SqliteStorage) and storage.small_pages
        self._rot = PageRot(scene, storage, random.Random(f"{plan.seed}/pages")) if small else None
        self._topics = [f"topic-{n}" for n in range(len(plan.profiles))]
        self._acts: set[asyncio.Task[None]] = set()
        scene.oracle.keeps_log = bool(plan.replays_s)
        scene.oracle.late_limited = plan.small_late is not None
        scene.oracle.slots_limited = plan.small_slots is not None or plan.tiny != AMPLE

    async def history(self) -> None:
        """From the first topic to the last check."""
        await self._settle_in()
        self.scene.parts.falls = self._falls
        for at_s in self.plan.redrives_s:
            self._start(self._later(at_s - self.scene.loop.time(), self._redrive))
        for at_s in self.plan.replays_s:
            self._start(self._later(at_s - self.scene.loop.time(), self._replay))
        for at_s in self.plan.limits_s:
            self._start(self._later(at_s - self.scene.loop.time(), self._limit))
        for at_s in self.plan.drip_s:
            self._start(self._later(at_s - self.scene.loop.time(), self._drip))
        damage = {"event": self._damage_event, "lane": self._damage_lane, "record": self._damage_record}
        for at_s, kind in self.plan.damages_s:
            self._start(self._later(at_s - self.scene.loop.time(), damage[kind]))
        for at_s in self.plan.pages_s if self._rot is not None else ():
            self._start(self._later(at_s - self.scene.loop.time(), self._damage_page))
        for at_s, seconds in self.plan.full_disks_s:
            self._start(self._later(at_s - self.scene.loop.time(), partial(self._fill_disk, seconds)))
        for _ in range(self._operator.choice((0, 0, 0, 3, 8))):
            at_s = self._operator.uniform(self.scene.loop.time(), self.plan.horizon_s)
            self._start(self._later(at_s - self.scene.loop.time(), self._retry_now))
        for episode in sorted(self.plan.episodes, key=lambda episode: episode.at_s):
            await self._sleep_until(episode.at_s)
            self._play(episode)
        await self._sleep_until(self.plan.horizon_s)
        await self._heal()
        await self.scene.quiet()
        if self.plan.redrives_s:
            await self.scene.people.redrive()
            await self.scene.quiet()
        await self.scene.close_the_books()
        liveness.check_accepted(self.scene.oracle)
        if self.plan.calm:
            checkers.check_calm(self.scene.oracle)

    async def _settle_in(self) -> None:
        """Topics and first subscriptions, in peace. One subscription's endpoint stays healthy for good.

        Some more subscriptions wait for one type of events, and mostly sleep.
        """
        await asyncio.sleep(1)
        for n, name in enumerate(self._topics):
            await self.scene.people.put_topic(name, self.plan.profiles[n])
            for m in range(self.plan.subscriptions[n]):
                await self._create(name, f"sub-{m}", healthy=n == 0 and m == 0)
        for n in range(self.plan.sleepers):
            filter = draw_sleepy_filter(self.rng)
            draft = self.scene.people.fixed_draft(f"sleeper-{n}", f"host-{n % self.plan.hosts}", filter=filter)
            await self.scene.people.put_subscription(self._topics[-1], draft)
        for n, picky in enumerate(self.plan.picky):
            await self._create_picky(f"picky-{n}", picky)

    async def _create_picky(self, name: str, picky: Picky) -> None:
        """A subscription of the first topic, which is never deleted or changed."""
        profile = load(self.plan.profiles[0] or self.plan.default_profile)
        batching = Batching(picky.batch) if picky.batch > 1 and profile.batching else Batching()
        policy = RetryPolicy() if picky.policy is None else RetryPolicy(*picky.policy)
        await self.scene.subscribe_picky(
            picky.subjects, picky.status, name, topic=self._topics[0], batching=batching, retry_policy=policy
        )

    async def _create(self, topic: str, name: str, healthy: bool = False) -> None:
        host = "steady" if healthy else f"host-{self.rng.randrange(self.plan.hosts)}"
        profile = self.plan.profiles[self._topics.index(topic)] or self.plan.default_profile
        people = self.scene.people
        id = await people.put_subscription(topic, people.draft(name, host, profile))
        if healthy and id is not None:
            self.scene.oracle.always_healthy.add(id)

    def _play(self, episode: Episode) -> None:
        for _ in range(episode.publishes):
            topic, count = self.rng.choice(self._topics), self.rng.choice((1, 1, 2, 5, 20))
            self._soon(episode, partial(self.scene.people.publish, topic, count))
        for _ in range(episode.changes):
            self._soon(episode, self._change)
        for kind in episode.faults:
            self._soon(episode, partial(self._break, kind))

    def _soon(self, episode: Episode, action: Callable[[], Awaitable[object]]) -> None:
        self._start(self._later(self.rng.uniform(0, episode.spread_s), action))

    def _start(self, act: Awaitable[None]) -> None:
        task = asyncio.ensure_future(act)
        task.set_name(f"act-{len(self._acts):06d}")
        task.add_done_callback(self._ended)
        self._acts.add(task)

    def _ended(self, act: asyncio.Task[None]) -> None:
        if not act.cancelled() and act.exception() is not None:
            self.scene.oracle.fail("I24", f"a request died of {act.exception()!r}")

    async def _later(self, delay: float, action: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(delay)
        if not self._healed:
            await action()

    async def _change(self) -> None:
        """One change: a subscription put, deleted, or both under one name; rarely a topic deleted and made again."""
        rng, people = self.rng, self.scene.people
        topic = rng.choice(self._topics)
        name = f"sub-{rng.randrange(self.plan.subscriptions[self._topics.index(topic)])}"
        if topic == self._topics[0] and name == "sub-0":
            name = "sub-extra"  # the healthy one stays as it is
        kind = rng.choice(("put", "put", "put", "delete", "delete", "recreate", "recreate", "topic"))
        self.scene.oracle.note("change", kind, topic, name)
        if kind == "topic" and topic != self._topics[0]:
            await people.delete_topic(topic)
            await people.put_topic(topic, self.plan.profiles[self._topics.index(topic)])
        elif kind in ("delete", "recreate"):
            await people.delete_subscription(topic, name)
        if kind != "delete":
            await self._create(topic, name)

    def _falls(self, role: Role) -> int | None:
        """After how many waits a new life dies: mostly before it has read what it needs to begin."""
        falls = self._start_dice.random() < self.plan.start_crashes
        self.scene.faults.counts["crash at start"] += falls
        return self._start_dice.randrange(30) if falls else None

    async def _redrive(self) -> None:
        """An operator redrives all dead letters, a few in each request."""
        self.scene.oracle.note("redrive")
        await self.scene.people.redrive(self.rng.choice((1, 2, 10, 1000)))

    async def _replay(self) -> None:
        """An operator replays to a subscription some of what has come to an end there, or was before its time."""
        rng, oracle = self._repeater, self.scene.oracle
        lanes = [lane for id, lane in sorted(oracle.lanes.items()) if lane.deleted_at is None]
        if not lanes:
            return
        lane = rng.choice(lanes)
        places = sorted({at.position for id, at in oracle.appended.items() if oracle.published[id].topic == lane.topic})
        start = rng.choice([1, *places])
        until = replays.last_settled(oracle, lane, start)
        oracle.note("replay", lane.id, start, until)
        if until >= start:
            done = await self.scene.people.replay(lane.id, start, until)
            self.scene.faults.counts["replayed"] += done

    async def _limit(self) -> None:
        """An operator limits a subscription, or lifts its limits; then many events come."""
        rng, oracle = self._limiter, self.scene.oracle
        lanes = [lane for id, lane in sorted(oracle.lanes.items()) if lane.deleted_at is None]
        well = [lane for lane in lanes if lane.id in oracle.always_healthy]
        if not lanes:
            return
        lane = rng.choice(well if well and rng.random() < 0.5 else lanes)
        requests, rate = rng.choice(LIMITS)
        oracle.note("limit", lane.id, requests, rate)
        await self.scene.people.limit(lane.id, requests, rate)
        await asyncio.sleep(rng.choice((0.0, 1.0, 40.0)))
        await self.scene.people.publish(oracle.topics[lane.topic].name, rng.choice((5, 30, 100)))

    async def _retry_now(self) -> None:
        """An operator wants everything tried that is parked, of a lane with such deliveries if there is one."""
        oracle = self.scene.oracle
        lanes = [lane for id, lane in sorted(oracle.lanes.items()) if lane.deleted_at is None]
        waiting = [lane for lane in lanes if lane.books.parked] or lanes
        if waiting:
            lane = self._operator.choice(waiting)
            oracle.note("retry now", lane.id, len(lane.books.parked))
            await self.scene.people.retry_now(lane.id)

    async def _drip(self) -> None:
        """Some events for the picky."""
        await self.scene.people.publish(self._topics[0], self.rng.choice((1, 1, 5, 15)))

    async def _damage_lane(self) -> None:
        """The row of a lane rots, be it sleeping, busy, ended, or not yet read by anybody."""
        if self.scene.oracle.page_damaged:
            return
        lanes = [self.scene.oracle.lanes[id] for id in sorted(self.scene.oracle.lanes)]
        lane, part = self.dice.choice(lanes), self.dice.choice(("cursor", "version", "books"))
        count = self.dice.choice(("matched", "delivered", "parked", "buried"))
        if not lane.rotten and self.scene.parts.storage.spoil.lane(lane.id, part, count):
            self.scene.oracle.spoilt_lane(lane, f"{part} {count}" if part == "books" else part)
            self.scene.faults.counts["damaged lane"] += 1

    async def _damage_record(self) -> None:
        """A record of the registry rots; later a person, who is shown it, stops the server and restores a backup."""
        if self.scene.oracle.page_damaged:
            return
        rng, oracle, spoil = self.dice, self.scene.oracle, self.scene.parts.storage.spoil
        lane = rng.choice([oracle.lanes[id] for id in sorted(oracle.lanes)])
        table = rng.choice(("topic", "subscription", "subscription", "document"))
        record: object = lane.topic if table == "topic" else lane.id
        if table == "document":
            if not oracle.documents:
                return
            record = rng.choice(oracle.documents)
        key = record if isinstance(record, tuple) else (record,)
        if (table, record) in oracle.rotten or not getattr(spoil, table)(*key):
            return
        oracle.spoilt_record(table, record)
        self.scene.faults.counts["damaged record"] += 1
        if rng.random() < 0.7:  # whoever starts now meets it
            self.scene.machine.crash(Role.DISPATCH)
        await asyncio.sleep(rng.choice((60.0, 1800.0, 4 * 3600.0)))
        await self._restore()

    async def _restore(self) -> None:
        """A person looks at what is damaged, and restores a backup of the registry: the server starts anew."""
        if not self.scene.oracle.rotten:
            return
        await self.scene.look_at_damage()
        self.scene.parts.storage.spoil.restore()
        self.scene.oracle.restored()
        for role in Role:
            self.scene.machine.cancel(role)

    async def _damage_page(self) -> None:
        """A page of a file rots, so promptness is not expected; later a person restores a backup."""
        assert self._rot is not None
        if not await self._rot.spoil():
            return
        until = self.scene.loop.time() + self.dice.choice((20.0, 60.0, 300.0))
        while self.scene.loop.time() < until and not self._healed:
            self.scene.oracle.disturb()
            await asyncio.sleep(2)
        if not self._healed:
            await self._rot.restore()

    async def _damage_event(self) -> None:
        """A row of events rots: an entry, unread, just published or anywhere; or one that waits in the ledger."""
        if self.scene.oracle.page_damaged:
            return
        rng, scene = self.dice, self.scene
        lanes = [scene.oracle.lanes[id] for id in sorted(scene.oracle.lanes)]
        rows = [(lane, owed) for lane in lanes for owed in lane.books.owed.values() if owed.state in ROWS]
        unread = [(lane.topic, at.position) for lane in lanes for at in lane.books.unread_events()]
        if rows and rng.random() < 0.5:
            lane, owed = rng.choice(rows)
            if scene.parts.storage.spoil.row(ROWS[owed.state], lane.id, owed.identity):
                scene.oracle.spoilt_row(lane, owed.identity)
            return
        if not unread or rng.random() < 0.3:
            await scene.people.publish(rng.choice(self._topics), rng.choice((1, 3, 20)))
        if rng.random() < 0.2:
            unread = [(topic, position) for topic in scene.oracle.topics for position in range(1, 200)]
        unread = unread or [(event.topic, scene.oracle.appended[id].position) for id, event in self._stored()][-3:]
        rng.shuffle(unread)
        for topic, position in unread:
            if scene.parts.storage.spoil.entry(topic, position):
                scene.oracle.spoilt_entry(topic, position)
                scene.faults.counts["damage"] += 1
                return

    def _stored(self) -> list[tuple[str, Published]]:
        oracle = self.scene.oracle
        return [(id, event) for id, event in oracle.published.items() if id in oracle.appended]

    async def _break(self, kind: str) -> None:
        """One fault."""
        rng, scene = self.rng, self.scene
        scene.oracle.note("fault", kind)
        scene.faults.counts[kind] += 1
        role = Role.DISPATCH if rng.random() < 0.7 else Role.INTAKE
        match kind:
            case "crash":
                for victim in (Role.INTAKE, Role.DISPATCH) if rng.random() < 0.1 else (role,):
                    scene.machine.crash(victim)
            case "stop":
                if rng.random() < 0.5:
                    scene.machine.cancel(role)
                else:
                    await scene.machine.drain(role)
            case "trap":
                scene.faults.arm(role, rng.choice(self.plan.traps), rng.choice((0, 0, 1, 2, 5, 20)))
            case "suspend":
                scene.clock.suspend(int(rng.choice((5.0, 40.0, 200.0, 3600.0, 8 * 3600.0)) * SECOND))
                scene.oracle.suspended()
            case "sickness":
                await self._sicken()
            case "vault":
                await self._lose_vault()
            case "slow disk":
                await self._slow_down()

    async def _sicken(self) -> None:
        """An endpoint falls ill for a while."""
        endpoint = self.scene.network.endpoint(f"http://host-{self.rng.randrange(self.plan.hosts)}/")
        endpoint.behaviour = draw_sickness(self.rng, self.plan.timed)
        await asyncio.sleep(self.rng.choice((20.0, 400.0, 3600.0, 6 * 3600.0, 40 * 3600.0)))
        endpoint.behaviour = HEALTHY

    async def _lose_vault(self) -> None:
        container = f"box-{self.rng.randrange(3)}"
        vault = self.scene.machine.vault
        (lost,) = self.rng.choices((vault.down, vault.missing, vault.hung), (5, 3, 2))
        lost.add(container)
        self.scene.oracle.container_lost(container)
        await asyncio.sleep(self.rng.choice((60.0, 3600.0, 3 * 3600.0, 6 * 3600.0)))
        lost.discard(container)
        if container not in vault.down | vault.missing | vault.hung:
            self.scene.oracle.container_back(container)

    async def _slow_down(self) -> None:
        """The disk is slow for a while, so promptness is not expected."""
        until = self.scene.loop.time() + self.rng.uniform(5, 120)
        while self.scene.loop.time() < until and not self._healed:
            self.scene.faults.slow_disk = True
            self.scene.oracle.disturb()
            await asyncio.sleep(2)
        self.scene.faults.slow_disk = False
        self.scene.oracle.disturb()

    async def _fill_disk(self, seconds: float) -> None:
        """For a while no commit is stored, so promptness is not expected."""
        self.scene.faults.counts["full disk"] += 1
        self.scene.oracle.note("fault", "full disk")
        until = self.scene.loop.time() + seconds
        while self.scene.loop.time() < until and not self._healed:
            self.scene.faults.full_disk = True
            self.scene.oracle.disturb()
            await asyncio.sleep(min(2, seconds))
        self.scene.faults.full_disk = False
        self.scene.oracle.disturb()

    async def _heal(self) -> None:
        """Everything works again, for good; a role that is down comes up."""
        self._healed = True
        scene = self.scene
        scene.oracle.note("healed")
        scene.faults.disarm()
        scene.machine.steady()
        await self._restore()
        if self._rot is not None:
            await self._rot.restore()
        vault = scene.machine.vault
        for container in sorted(vault.down | vault.missing | vault.hung):
            scene.oracle.container_back(container)
        for lost in (vault.down, vault.missing, vault.hung):
            lost.clear()
        for endpoint in scene.network.endpoints.values():
            endpoint.behaviour, endpoint.judge = HEALTHY, None
        await asyncio.sleep(90)
        for lane in scene.oracle.lanes.values():
            by = checkers.probe_by(scene.oracle, lane)
            if by is not None:
                self._start(self._expect_use(lane.id, scene.oracle.requests_of[lane.id], by))
        for name in self._topics:
            await scene.people.publish(name, 1)

    async def _expect_use(self, lane: int, requests: int, by: int) -> None:
        """A recovered endpoint is in use again within one hold (I18)."""
        oracle = self.scene.oracle
        await self.scene.clock.sleep_until(by)
        overdue = checkers.probe_by(oracle, oracle.lanes[lane])
        if oracle.requests_of[lane] == requests and overdue is not None and overdue - checkers.PROBE_NS <= by:
            oracle.fail("I18", "is not in use again", lane=lane)

    async def _sleep_until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self.scene.loop.time()))


def tell(seed: int, parts: Parts | None = None, plan: Plan | None = None) -> Story:
    """Live through one seed."""
    plan = plan or draw_plan(seed)
    parts = parts or Parts()
    _shrink(parts, plan)
    story = Story(seed)

    async def main(loop: SimLoop) -> None:
        scene = Scene(loop, seed, parts)
        try:
            await scene.play(World(scene, plan).history())
        finally:
            _remember(story, scene)

    try:
        run(seed, main)
    except (Deadlock, Livelock) as error:
        story.violations.append(Violation("I24", f"{type(error).__name__}: {error}", 0))
    return story


def _remember(story: Story, scene: Scene) -> None:
    for unhandled in scene.loop.unhandled:
        scene.oracle.fail("I24", unhandled)
    story.violations = scene.oracle.violations
    began = scene.oracle.trace[0][0] if scene.oracle.trace else 0
    story.trace = [((line[0] - began) / SECOND, *line[1:]) for line in scene.oracle.trace]
    story.virtual_s = scene.loop.time()
    story.faults = scene.faults.counts
    story.crashes = scene.machine.crashes
    story.events = len(scene.oracle.appended)
    story.attempts = scene.oracle.requests_of.total()
    story.duplicates = scene.oracle.duplicates


def _shrink(parts: Parts, plan: Plan) -> None:
    """Limits as small as the plan wants them."""
    parts.default_profile = plan.default_profile
    parts.keep_for_ever = plan.keep_for_ever
    parts.tiny = plan.tiny
    if plan.replays_s:
        parts.keeping = RetentionBounds(KEPT_BYTES)
    if plan.small_slots:
        parts.slots = partial(Slots, plan.small_slots)
    if plan.small_late:
        parts.late = partial(LateAnswers, plan.small_late)
    if plan.small_cache:
        parts.segment_bytes = 1
