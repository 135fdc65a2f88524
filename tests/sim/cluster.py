"""The simulation of a replicated store: two nodes on streams in memory, with the faults that real streams have shown.

One seed is one history. The nodes take turns as owner: the owner dies, is paused and goes on too late, is restarted, or
hands over; answers are lost, messages are stored late, replicas lag, have gaps or flipped bits, and streams are full.
The oracle is the store in memory. A verb that failed may have been done or not, so the oracle keeps both possibilities
until the store shows which one is true; a store that fits none of them is a violation.
"""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recapito.contracts.ledger import Drop, SkippedDeadLetters
from recapito.contracts.stream import StreamMissing
from recapito.errors import Conflict, StoreDamaged, StoreFailed, StoreLost, StoreStale
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.replicated.rows import Diverged
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.connection import DISPATCH, LOG
from tests.kit.fake_stream import PUBLISH_FAULTS, READ_FAULTS, STATE_FAULTS, FakeServer, FakeStream
from tests.kit.replicated import COPY, CompactingDatabase
from tests.stores.values import burial, new_subscription, new_topic, parked, segment, settlement

STEPS = 90
FAULT_CHANCE = 0.12
LARGE = 1 << 20
EVERYBODY = SkippedDeadLetters()
POSSIBLE = 16  # possibilities that the oracle keeps at once
FAILURES = 10  # of one file, one after the other; that many by chance are out of the question
REFUSALS = (KeyError, LookupError, Conflict)

Verb = Callable[[Any], Awaitable[Any]]


class Violation(Exception):
    """The store did what it must not do."""


@dataclass
class Told:
    """A history that was lived through."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    violation: str = ""


class Side:
    """One of the two files, with its stream, its oracle, and the verbs that are tried on it."""

    def __init__(self, is_log: bool, rng: random.Random) -> None:
        self.kind = LOG if is_log else DISPATCH
        self.server = FakeServer("LOG" if is_log else "LANES", max_body=2048)
        self.possible = [MemoryDisk(log_id="sim")]
        self.failures = 0
        self.is_log = is_log
        self._rng = rng

    def model(self, disk: MemoryDisk) -> Any:
        return MemoryLog(disk) if self.is_log else MemoryLedger(disk)

    def store(self, database: ReplicatedDatabase) -> Any:
        return SqliteLog(database, threaded=False) if self.is_log else SqliteLedger(database, threaded=False)

    async def verb(self) -> Verb:
        """A verb that makes sense in one of the possible worlds."""
        model = self.model(copy.deepcopy(self._rng.choice(self.possible)))
        return await (self._verb_of_log(model) if self.is_log else self._verb_of_ledger(model))

    def certain_verb(self) -> Verb:
        """A verb that changes something in any case."""
        number = self._rng.randrange(10**9)
        if self.is_log:
            return lambda store: store.put_document("certain", "key", b"%d" % number)
        return lambda store: store.open_lane(number, 1, "log", 1)

    async def dump(self, store: Any) -> Any:
        """Everything that the store shows."""
        if not self.is_log:
            lanes = await store.lanes()
            waiting = [await store.parked(lane.id, 1000) for lane in lanes]
            return lanes, waiting, await store.burials_due(1 << 60, 1000, LARGE, EVERYBODY), await store.notices(0, 99)
        news = await store.news(0)
        logs = {}
        for topic, end in news.ends.items():
            first = await store.first(topic)
            logs[topic] = (first, end, await store.read(topic, first, LARGE))
        documents = [await store.documents(kind, "", 99) for kind in ("certain", "kind")]
        return await store.topics("", 99), await store.subscriptions(None, 0, 99), logs, documents

    async def _verb_of_log(self, model: Any) -> Verb:
        rng = self._rng
        topics = await model.topics("", 99)
        if len(topics) < 2 or rng.random() < 0.05:
            name = f"topic{rng.randrange(6)}"
            return lambda store: store.put_topic(new_topic(name))
        topic = rng.choice(topics)
        body = rng.randbytes(rng.choice([1, 50, 700, 3000]))
        choices: list[Verb] = [
            *[lambda store: store.append([segment(topic.id, body), segment(topic.id, body[:9])])] * 4,
            lambda store: store.put_topic(topic),
            lambda store: store.put_document("kind", f"key{len(body) % 4}", body),
            lambda store: store.delete_document("kind", f"key{len(body) % 4}"),
            lambda store: store.put_subscription(new_subscription(topic.id, f"s{len(body) % 3}")),
        ]
        end = await model.end(topic.id)
        choices += [lambda store: store.trim(topic.id, end)] * 2
        subscriptions = await model.subscriptions(topic.id, 0, 99)
        if subscriptions:
            one = rng.choice(subscriptions)
            choices.append(lambda store: store.delete_subscription(one.id))
            choices.append(lambda store: store.forget(one.id))
        if len(topics) > 3:
            choices.append(lambda store: store.delete_topic(topic.id))
        return rng.choice(choices)

    async def _verb_of_ledger(self, model: Any) -> Verb:
        rng = self._rng
        lanes = await model.lanes()
        if len(lanes) < 3 or rng.random() < 0.1:
            id = rng.randrange(1, 6)
            return lambda store: store.open_lane(id, 1, "log", 1)
        group = await model.burials_due(1 << 60, 3, LARGE, EVERYBODY)
        if group is not None and rng.random() < 0.3:
            path = group.path or f"path{rng.randrange(10**9)}"
            if group.path is None:
                return lambda store: store.name_group(group, path, 5)
            if rng.random() < 0.3:
                return lambda store: store.abandon(group.lane, path, "Gone")
            return lambda store: store.written(group.lane, path, b"notice", 0, {})
        chosen = rng.sample(lanes, rng.randint(1, len(lanes)))
        parts = []
        for lane in chosen:
            waiting = [row.delivery.identity for row in await model.parked(lane.id, 1000)]
            rng.shuffle(waiting)
            finish, drop, bury = waiting[:2], waiting[2:3], waiting[3:4]
            new = [(rng.randrange(1, 10**6), n) for n in range(rng.randrange(4))]
            park = [parked(*identity, rng.randrange(99)) for identity in (*new, *waiting[4:5])]
            parts.append(
                settlement(
                    lane,
                    matched=len(new) + 2,
                    delivered=2,
                    finish=finish,
                    park=park,
                    drop=[Drop(identity, "Gone") for identity in drop],
                    bury=[burial(*identity) for identity in bury],
                )
            )
        return lambda store: store.settle(parts)


class Cluster:
    """Two nodes, their files, and the faults of their streams."""

    def __init__(self, seed: int, directory: Path, make: type[ReplicatedDatabase]) -> None:
        self.told = Told(seed)
        self._rng = random.Random(seed)
        self._directory = directory
        self._make = make
        self._stormy = True
        self._sides = [Side(True, self._rng), Side(False, self._rng)]
        self._owners: list[tuple[str, Any, ReplicatedDatabase]] = []
        self._paused: list[list[Any]] = [[], []]

    async def live(self) -> None:
        """The whole history."""
        self._stormy = False
        for side in self._sides:
            self._owners.append(await self._start(side, "a", founding=True))
        self._stormy = True
        for step in range(STEPS):
            if step == STEPS - 10:
                self._heal()
            side = self._rng.choice([0, 1])
            await self._step(side)
        await self._end()

    async def _step(self, n: int) -> None:
        side, chance = self._sides[n], self._rng.random()
        if chance < 0.70:
            await self._try(n, await side.verb())
        elif chance < 0.76:
            side.server.apply_late()
        elif chance < 0.80:
            await self._resist(n)
        elif chance < 0.86:
            self._follow(n)
        elif chance < 0.90:
            await self._restart(n)
        elif chance < 0.92:
            await self._fill(n)
        else:
            await self._take_over(n)

    async def _try(self, n: int, verb: Verb) -> None:
        """One verb at the owner, and at the oracle."""
        side, (_, store, _) = self._sides[n], self._owners[n]
        try:
            answer = await _answer(verb, store)
        except StoreLost as error:
            raise Violation(f"the owner of {side.server.name} was fenced without a rival: {error}") from error
        except StoreDamaged as error:
            raise Violation(f"{side.server.name} is damaged: {error}") from error
        except StoreFailed:
            self.told.counts["unknown"] += 1
            side.failures += 1
            if side.failures > FAILURES:
                raise Violation(f"{side.server.name} does not recover") from None
            await self._fork(side, verb)
            return
        side.failures = 0
        self.told.counts["verbs"] += 1
        fitting = []
        for disk in side.possible:
            if await _answer(verb, side.model(disk)) == answer:
                fitting.append(disk)
        if not fitting:
            raise Violation(f"{side.server.name} answered {answer!r}, which no possible history explains")
        side.possible = fitting
        await self._compare(n)

    async def _fork(self, side: Side, verb: Verb) -> None:
        for disk in list(side.possible):
            done = copy.deepcopy(disk)
            await _answer(verb, side.model(done))
            side.possible.append(done)
        if len(side.possible) > POSSIBLE:
            await self._settle_doubt(side)

    async def _settle_doubt(self, side: Side) -> None:
        """Heal until the store shows which possibility is true."""
        stormy, self._stormy = self._stormy, False
        await self._compare(self._sides.index(side), patient=True)
        self._stormy = stormy

    async def _compare(self, n: int, patient: bool = False) -> None:
        """The whole content is that of one possibility."""
        side, (name, store, database) = self._sides[n], self._owners[n]
        try:
            shown = await side.dump(store)
        except StoreLost as error:
            raise Violation(f"the owner {name} of {side.server.name} was fenced without a rival: {error}") from error
        except StoreFailed as error:
            if patient:
                raise Violation(f"{side.server.name} does not recover: {error}") from error
            return
        if database.digest() != database.note.digest:
            raise Violation(f"the digest of {side.server.name} is wrong")
        fitting = [disk for disk in side.possible if await side.dump(side.model(disk)) == shown]
        if not fitting:
            raise Violation(f"{side.server.name} shows a content that no possible history explains")
        side.possible = fitting[:1]

    async def _resist(self, n: int) -> None:
        """A paused owner goes on, and must find out that it is none."""
        for store in self._paused[n]:
            self.told.counts["resisted"] += 1
            try:
                await self._sides[n].certain_verb()(store)
            except StoreFailed:
                continue
            raise Violation(f"a former owner of {self._sides[n].server.name} committed")

    def _follow(self, n: int) -> None:
        """The standby reads."""
        side = self._sides[n]
        standby = "b" if self._owners[n][0] == "a" else "a"
        if self._paused[n]:
            return  # its file is open
        try:
            database = self._database(side, standby)
            try:
                database.catch_up()
            finally:
                database.close()
        except StoreDamaged as error:
            raise Violation(f"a standby of {side.server.name}: {error}") from error
        except (StoreFailed, StreamMissing):
            self.told.counts["follower failed"] += 1

    async def _restart(self, n: int) -> None:
        """The owner dies between two instants, and its process is started again."""
        name, store, _ = self._owners[n]
        _abandon(store)
        for _ in range(50):
            database = self._database(self._sides[n], name)
            try:
                database.resume()
                self._owners[n] = (name, self._sides[n].store(database), database)
                break
            except StoreLost as error:
                raise Violation(f"{name} does not own what it owned: {error}") from error
            except StoreFailed:
                database.close()
        else:
            raise Violation(f"a restarted owner of {self._sides[n].server.name} does not resume")
        self.told.counts["restarts"] += 1
        await self._compare(n)

    async def _fill(self, n: int) -> None:
        """The stream has no room for the next message."""
        self._sides[n].server.full_once = True
        await self._try(n, await self._sides[n].verb())

    async def _take_over(self, n: int) -> None:
        """The other node claims: the owner is dead, or only paused."""
        side, (name, store, _) = self._sides[n], self._owners[n]
        for former in self._paused[n]:
            _abandon(former)
        self._paused[n].clear()
        if self._rng.random() < 0.5:
            _abandon(store)
        else:
            self._paused[n].append(store)
        other = "b" if name == "a" else "a"
        for attempt in range(50):
            if attempt == 40:
                self._heal()
            try:
                self._owners[n] = await self._start(side, other)
                break
            except StoreDamaged as error:
                raise Violation(f"{other} cannot load {side.server.name}: {error}") from error
            except StoreFailed:
                self.told.counts["claims failed"] += 1
        else:
            raise Violation(f"{other} cannot claim {side.server.name}")
        self.told.counts["takeovers"] += 1
        await self._compare(n)

    async def _end(self) -> None:
        """A node that was never there loads everything."""
        self._heal()
        for n, side in enumerate(self._sides):
            await self._compare(n, patient=True)
            await self._resist(n)
            for store in self._paused[n]:
                _abandon(store)
            _abandon(self._owners[n][1])
            try:
                self._owners[n] = await self._start(side, "new")
            except StoreFailed as error:
                raise Violation(f"a new node cannot load {side.server.name}: {error}") from error
            await self._compare(n, patient=True)
            _abandon(self._owners[n][1])
            self.told.counts["published"] += side.server.published

    async def _start(self, side: Side, name: str, founding: bool = False) -> tuple[str, Any, ReplicatedDatabase]:
        database = self._database(side, name, founding)
        try:
            database.found() if founding else database.claim()
            return name, side.store(database), database
        except BaseException:
            database.close()
            raise

    def _database(self, side: Side, name: str, founding: bool = False) -> ReplicatedDatabase:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        stream = FakeStream(side.server, self._fault)
        return self._make(directory / side.kind.file, side.kind, stream, name, COPY, threaded=False, founding=founding)

    def _fault(self, verb: str) -> str:
        if not self._stormy or self._rng.random() > FAULT_CHANCE:
            return ""
        faults = {"publish": PUBLISH_FAULTS, "read": READ_FAULTS, "state": STATE_FAULTS, "purge": ("unreachable",)}
        fault = self._rng.choice(faults[verb])
        self.told.counts[fault] += 1
        return fault

    def _heal(self) -> None:
        self._stormy = False
        for side in self._sides:
            side.server.full_once = False  # the verb that it was meant for may have published nothing


async def _answer(verb: Verb, store: Any) -> Any:
    """The answer of a verb; a refusal is one too. A call that is wrong in two ways may be refused for either."""
    try:
        return await verb(store)
    except (StoreStale, ValueError):
        return "refused"
    except REFUSALS as error:
        return type(error).__name__


def _abandon(store: Any) -> None:
    """The process that had it open is gone."""
    store.database.close()


def tell_cluster(seed: int, directory: Path, make: type[ReplicatedDatabase] = CompactingDatabase) -> Told:
    """Live through a history."""
    cluster = Cluster(seed, directory, make)
    try:
        asyncio.run(cluster.live())
    except (Violation, Diverged) as violation:
        cluster.told.violation = str(violation)
    return cluster.told
