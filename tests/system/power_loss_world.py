"""The stores on a disk that loses power, beside the reference model on one that does not.

After a cut the stores must show what the model has: with or without the one verb that was under way, nothing else.
"""

import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self, TypeVar

import apsw

from recapito.contracts.ledger import Drop, LaneRow, Settlement, SkippedDeadLetters
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId
from recapito.errors import SettingsError
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.connection import FileMedium
from tests.stores.values import burial, new_subscription, new_topic, parked, segment, settlement
from tests.system.power_loss_disk import Disk, PowerLoss, PowerLossVFS

T = TypeVar("T")
CHECKPOINT_BYTES = 24 * 4096
EVERYTHING = 1 << 62
NOBODY = SkippedDeadLetters()


class Lost(Exception):
    """The stores do not have what was acknowledged."""


class Pair(NamedTuple):
    """A log and a ledger: the real ones or the model's."""

    log: Any
    ledger: Any


Verb = Callable[[Pair], Coroutine[Any, Any, Any]]


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("an inline store has nothing to wait for")


class World:
    """One disk with the stores on it, and the model of what was acknowledged.

    Leaving the context abandons the stores, also when a check failed: a connection that only the garbage collector
    closes calls a VFS that may be gone already.
    """

    def __init__(
        self, vfs: PowerLossVFS, seed: int, synchronous: str = "FULL", checkpoint_bytes: int = CHECKPOINT_BYTES
    ) -> None:
        self.chance = random.Random(seed)
        self.vfs = vfs
        self.vfs.disk = Disk(seed)
        self._medium = FileMedium(vfs.name, synchronous, checkpoint_bytes, names=vfs)
        self._memory = MemoryDisk(log_id="")
        self.model = Pair(MemoryLog(self._memory), MemoryLedger(self._memory))
        self.real: Pair | None = None
        self.positions = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    @property
    def disk(self) -> Disk:
        return self.vfs.disk

    def open(self) -> None:
        """Open the stores; the power may go meanwhile."""
        with self.powered():
            log = SqliteLog.open(self.disk.directory, threaded=False, medium=self._medium)
            try:
                ledger = SqliteLedger.open(self.disk.directory, threaded=False, medium=self._medium)
            except BaseException:
                _abandon(log)
                raise
            self.real = Pair(log, ledger)
        self._memory.log_id = self._memory.log_id or log.id

    @contextmanager
    def powered(self) -> Iterator[None]:
        """The result of work during which the power went is lost."""
        try:
            yield
        finally:
            if self.disk.off:
                raise PowerLoss

    def do(self, verb: Verb) -> Any:
        """Do a verb, on the real stores first. What raises there is unknown, and not done on the model."""
        assert self.real is not None
        with self.powered():
            answer = finish(verb(self.real))
        assert finish(verb(self.model)) == answer
        return answer

    def lose_power(self, cut_in_recovery: Callable[[], int | None] = lambda: None) -> None:
        """Cut, and open again on what is left; the power may go again while that is done."""
        while True:
            self.abandon()
            self.vfs.disk = self.disk.lose_power()
            delay = cut_in_recovery()
            self.disk.cut_at = None if delay is None else self.disk.operations + delay
            try:
                self.open()
            except PowerLoss:
                continue
            except SettingsError as error:
                raise Lost(f"cannot be opened: {error}") from error
            self.disk.cut_at = None
            return

    def lose_process(self) -> None:
        """The process is killed; the power stays."""
        self.abandon()
        self.vfs.disk = self.disk.lose_process()

    def abandon(self) -> None:
        """Let go of the stores as a process does that is killed."""
        if self.real is not None:
            self.disk.off, self.disk.fault = True, None
            _abandon(self.real.log)
            _abandon(self.real.ledger)
            self.real = None

    def close(self) -> None:
        """Close the stores as they should be."""
        assert self.real is not None
        finish(self.real.log.close())
        finish(self.real.ledger.close())
        self.real = None

    def check(self, under_way: Verb | None = None) -> bool:
        """See that the stores are sound and show the model; whether with the verb that was under way."""
        assert self.real is not None
        for store in self.real:
            found = store.database.read(lambda connection: connection.pragma("integrity_check"))
            if found != "ok":
                raise Lost(f"{store} is corrupt: {found}")
        shown = show(self.real)
        if shown == show(self.model):
            return False
        if under_way is not None:
            finish(under_way(self.model))
        wanted = show(self.model)
        for part in (part for part in shown if shown[part] != wanted[part]):
            raise Lost(f"{part}: {str(shown[part])[:300]} is there, acknowledged was {str(wanted[part])[:300]}")
        return True

    def random_verb(self) -> Verb:
        """Something that intake or dispatch might do now."""
        return self.chance.choices((self.append, self.settle, self.trim, self.manage, self.bury), (8, 8, 2, 2, 2))[0]()

    def append(self) -> Verb:
        topics = finish(self.model.log.topics("", 10))
        if len(topics) < 2:
            name = f"topic{finish(self.model.log.news(0)).mark}"
            return lambda pair: pair.log.put_topic(new_topic(name))
        count = self.chance.randrange(1, 4)
        sizes = [self.chance.randrange(10, 3000) for _ in range(count)]
        segments = [segment(self.chance.choice(topics).id, self.chance.randbytes(size)) for size in sizes]
        return lambda pair: pair.log.append(segments)

    def settle(self) -> Verb:
        lanes = finish(self.model.ledger.lanes())
        if len(lanes) < 3:
            log_id = self._memory.log_id
            return lambda pair: pair.ledger.open_lane(len(lanes) + 1, 1, log_id, 1)
        chosen = self.chance.sample(lanes, self.chance.randrange(1, 4))
        settlements = [self._settlement(lane) for lane in chosen]
        return lambda pair: pair.ledger.settle(settlements)

    def _settlement(self, lane: LaneRow) -> Settlement:
        """A lane passes some events, and tries again what is parked; each ends one way or another."""
        parts: dict[str, list[Any]] = {"finish": [], "park": [], "bury": [], "drop": []}
        waiting = [row.delivery.identity for row in finish(self.model.ledger.parked(lane.id, 4))]
        fresh = [self._new_identity() for _ in range(self.chance.randrange(4))]
        for identity in (*waiting, *fresh):
            part = self.chance.choice(["finish", "finish", "park", "bury", "drop"])
            parts[part].append(self._row(part, identity))
        delivered = sum(identity in fresh for identity in parts["finish"])
        parts["finish"] = [identity for identity in parts["finish"] if identity not in fresh]
        cursor = Cursor((lane.cursor.low[0] + len(fresh), 0))
        return settlement(lane, cursor=cursor, matched=len(fresh), delivered=delivered, **parts)

    def _new_identity(self) -> DeliveryId:
        self.positions += 1
        return DeliveryId(self.positions, self.chance.randrange(3))

    def _row(self, part: str, identity: DeliveryId) -> Any:
        at = self.chance.randrange(100)
        if part == "park":
            return parked(*identity, at, self.chance.randbytes(self.chance.randrange(10, 600)))
        if part == "bury":
            return burial(*identity, at)
        return Drop(identity, "Canceled") if part == "drop" else identity

    def trim(self) -> Verb:
        topic = self.chance.randrange(1, 3)
        below = max(finish(self.model.log.end(topic)) - 10, 0)
        return lambda pair: pair.log.trim(topic, below)

    def manage(self) -> Verb:
        """Make, delete and forget subscriptions, and now and then a topic with all it has."""
        subscriptions = finish(self.model.log.subscriptions(None, 0, 10))
        topics = finish(self.model.log.topics("", 10))
        if not topics:
            return self.append()
        if len(subscriptions) < 3:
            topic, name = self.chance.choice(topics).id, f"name{finish(self.model.log.news(0)).mark}"
            return lambda pair: pair.log.put_subscription(new_subscription(topic, name))
        if self.chance.random() < 0.1:
            id = self.chance.choice(topics).id
            return lambda pair: pair.log.delete_topic(id)
        first = subscriptions[0]
        if first.deleted_position is None:
            return lambda pair: pair.log.delete_subscription(first.id)
        return lambda pair: pair.log.forget(first.id)

    def bury(self) -> Verb:
        """Name the group of dead letters that is due, or write or abandon the one that has a name."""
        group = finish(self.model.ledger.burials_due(EVERYTHING, 3, EVERYTHING, NOBODY))
        if group is None:
            return self.settle()
        if group.path is None:
            path = f"path{self.positions}"
            return lambda pair: pair.ledger.name_group(group, path, 1)
        if self.chance.random() < 0.5:
            return lambda pair: pair.ledger.written(group.lane, group.path)
        return lambda pair: pair.ledger.abandon(group.lane, group.path, "DeadLetterUnavailable")


def show(pair: Pair) -> dict[str, Any]:
    """All that a store shows."""
    news = finish(pair.log.news(0))
    lanes = finish(pair.ledger.lanes())
    return {
        "id": pair.log.id,
        "news": news,
        "topics": finish(pair.log.topics("", 100)),
        "subscriptions": finish(pair.log.subscriptions(None, 0, 100)),
        "entries": {topic: _entries(pair.log, topic, end) for topic, end in news.ends.items()},
        "lanes": lanes,
        "parked": [finish(pair.ledger.parked(lane.id, 1000)) for lane in lanes],
        "dead letters": [_group(pair.ledger, lane, lanes) for lane in lanes],
    }


def _entries(log: Any, topic: int, end: int) -> list[Any]:
    """From the first that is left on."""
    for position in range(max(end - 100, 1), end + 2):
        try:
            entries: list[Any] = finish(log.read(topic, position, EVERYTHING))
        except LookupError:
            continue
        return entries
    return []


def _group(ledger: Any, lane: LaneRow, lanes: list[LaneRow]) -> Any:
    others = SkippedDeadLetters(places=frozenset((other.id, "dead") for other in lanes if other.id != lane.id))
    return finish(ledger.burials_due(EVERYTHING, 1000, EVERYTHING, others))


def _abandon(store: Any) -> None:
    with suppress(PowerLoss, apsw.Error):
        store.database.close()
