"""The store in memory and those on SQLite, driven side by side: every answer and all the books are the same."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from recapito.contracts.ledger import AttemptTotals, Drop, LaneRow, Settlement, SkippedDeadLetters
from recapito.contracts.stream import Streams
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.hold import Hold
from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import FilterSince
from recapito.errors import Conflict, StoreStale
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from tests.kit.fake_stream import FakeServer, FakeStreams
from tests.kit.nats_cluster import NatsCluster
from tests.kit.replicated import open_node
from tests.stores.values import burial, new_subscription, new_topic, parked, segment

LOG_ID = "log"
NAMES = st.sampled_from(["one", "ONE", "two", "Three"])
IDS = st.integers(1, 4)
LANES = st.integers(1, 3)
FILTERS = st.builds(Filter, event_types=st.sampled_from([None, ("a",), ("b",)]))
BODIES = st.binary(max_size=40)
POSITIONS = st.integers(0, 12)
INSTANTS = st.integers(0, 30)
IDENTITIES = st.builds(DeliveryId, st.integers(1, 3), st.integers(0, 2))
SOME = st.lists(IDENTITIES, max_size=3)
CONTAINERS = st.sampled_from(["dead", "other"])
PASSED = st.builds(
    SkippedDeadLetters, st.frozensets(CONTAINERS, max_size=1), st.frozensets(st.tuples(LANES, CONTAINERS), max_size=3)
)
PATHS = st.sampled_from(["p1", "p2", "p3"])
REASONS = st.sampled_from(["Canceled", "TimeToLiveExceeded"])
COUNTED = st.dictionaries(REASONS, st.integers(1, 2))
ATTEMPTS = st.builds(
    AttemptTotals,
    st.integers(0, 3),
    st.integers(0, 1 << 40),
    st.dictionaries(st.sampled_from(["Busy", "TimedOut"]), st.integers(1, 5)),
)


class Side:
    """One of the two stores."""

    log: Any
    ledger: Any


class StoresAgree(RuleBasedStateMachine):
    """Random verbs, with arguments from a world so small that they meet."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(tempfile.mkdtemp(prefix="recapito-agree-"))
        self.disk = MemoryDisk()
        self.model, self.real = Side(), Side()
        self.open()

    def open(self) -> None:
        self.model.log, self.model.ledger = MemoryLog(self.disk), MemoryLedger(self.disk)
        self.open_real()

    def open_real(self) -> None:
        self.real.log = SqliteLog.open(self.directory, threaded=False)
        self.real.ledger = SqliteLedger.open(self.directory, threaded=False)

    def close(self) -> None:
        self.runner.run(self.real.log.close())
        self.runner.run(self.real.ledger.close())

    def teardown(self) -> None:
        self.close()
        self.runner.close()
        shutil.rmtree(self.directory)

    def both(self, verb: Callable[[Side], Awaitable[Any]]) -> Any:
        """Do the same on both sides: the same answer, or the same kind of error."""
        answers = [self.runner.run(_answer(verb(side))) for side in (self.model, self.real)]
        assert answers[0] == answers[1]
        return answers[0]

    def topic(self, id: int) -> Any:
        return self.both(lambda side: side.log.topic_by_id(id))

    def subscription(self, id: int) -> Any:
        return self.both(lambda side: side.log.subscription_by_id(id))

    # The registry.

    @rule(name=NAMES)
    def create_topic(self, name: str) -> None:
        self.both(lambda side: side.log.put_topic(new_topic(name)))

    @rule(id=IDS, name=NAMES, newer=st.integers(0, 1))
    def replace_topic(self, id: int, name: str, newer: int) -> None:
        stored = self.topic(id) or new_topic(name, id=id)
        self.both(lambda side: side.log.put_topic(replace(stored, name=name, version=stored.version + newer)))

    @rule(id=IDS)
    def delete_topic(self, id: int) -> None:
        self.both(lambda side: side.log.delete_topic(id))

    @rule(topic=IDS, name=NAMES, filter=FILTERS)
    def create_subscription(self, topic: int, name: str, filter: Filter) -> None:
        self.both(lambda side: side.log.put_subscription(new_subscription(topic, name, filter)))

    @rule(id=IDS, name=NAMES, filter=FILTERS, newer=st.integers(0, 1))
    def replace_subscription(self, id: int, name: str, filter: Filter, newer: int) -> None:
        stored = self.subscription(id) or new_subscription(1, name, id=id)
        put = replace(stored, name=name, filters=(FilterSince(0, filter),), version=stored.version + newer)
        self.both(lambda side: side.log.put_subscription(put))

    @rule(id=IDS)
    def delete_subscription(self, id: int) -> None:
        self.both(lambda side: side.log.delete_subscription(id))

    @rule(id=IDS)
    def forget(self, id: int) -> None:
        self.both(lambda side: side.log.forget(id))

    @rule(topic=st.none() | IDS, after=st.integers(0, 3), name=NAMES, limit=st.integers(0, 3))
    def list_resources(self, topic: int | None, after: int, name: str, limit: int) -> None:
        self.both(lambda side: side.log.topics(name, limit))
        self.both(lambda side: side.log.subscriptions(topic, after, limit))
        self.both(lambda side: side.log.subscription_counts([topic, 1, 2]))
        self.both(lambda side: side.ledger.some_lanes([after, limit, 1]))
        self.both(lambda side: side.ledger.lanes_after(after, limit))
        self.both(lambda side: side.ledger.troubled_lanes(after, limit))
        self.both(lambda side: side.ledger.lane_versions())
        self.both(lambda side: side.log.topic(name))
        self.both(lambda side: side.log.subscription(topic or 1, name))

    @rule(kind=NAMES, key=NAMES, content=BODIES, limit=st.integers(0, 3))
    def put_document(self, kind: str, key: str, content: bytes, limit: int) -> None:
        self.both(lambda side: side.log.put_document(kind, key, content))
        self.both(lambda side: side.log.documents(kind, "", limit))

    @rule(kind=NAMES, key=NAMES)
    def delete_document(self, kind: str, key: str) -> None:
        self.both(lambda side: side.log.delete_document(kind, key))
        self.both(lambda side: side.log.document(kind, key))

    # The log.

    @rule(segments=st.lists(st.builds(segment, IDS, BODIES, BODIES), max_size=4))
    def append(self, segments: list[Any]) -> None:
        self.both(lambda side: side.log.append(segments))

    @rule(topic=IDS, position=POSITIONS, limit=st.integers(0, 100))
    def read(self, topic: int, position: int, limit: int) -> None:
        self.both(lambda side: side.log.read(topic, position, limit))

    @rule(topic=IDS, below=POSITIONS)
    def trim(self, topic: int, below: int) -> None:
        self.both(lambda side: side.log.trim(topic, below))

    @rule(back=st.integers(0, 3))
    def news(self, back: int) -> None:
        mark = self.both(lambda side: side.log.news(0)).mark
        self.both(lambda side: side.log.news(max(mark - back, 0)))
        self.both(lambda side: side.log.news(mark + 1))

    # The ledger.

    @rule(id=LANES, position=POSITIONS)
    def open_lane(self, id: int, position: int) -> None:
        self.both(lambda side: side.ledger.open_lane(id, 1, LOG_ID, position))

    @rule(id=LANES)
    def close_lane(self, id: int) -> None:
        self.both(lambda side: side.ledger.close_lane(id))

    @rule(data=st.data(), ids=st.lists(LANES, min_size=1, max_size=3, unique=True))
    def settle(self, data: st.DataObject, ids: list[int]) -> None:
        """As a lane would: a delivery that has no row is counted as matched when it gets one."""
        settlements = [data.draw(self.lawful(id)) for id in ids]
        self.both(lambda side: side.ledger.settle(settlements))

    @rule(data=st.data(), id=LANES)
    def settle_anything(self, data: st.DataObject, id: int) -> None:
        """As no lane should: whatever the books then say, both say it."""
        settlement = data.draw(self.any_settlement(id))
        self.both(lambda side: side.ledger.settle([settlement]))

    def lawful(self, id: int) -> st.SearchStrategy[Settlement]:
        lane = self.both(lambda side: side.ledger.lane(id))
        stored = self.disk.lanes.get(id)
        waiting = {*stored.parked, *stored.burials} if stored else set()
        part = st.fixed_dictionaries(
            {
                "free": st.lists(IDENTITIES, max_size=4, unique=True),
                "kinds": st.lists(st.integers(0, 3), min_size=4, max_size=4),
                "delivered": st.integers(0, 2),
                "unmatched": st.integers(0, 2),
                "low": POSITIONS,
                "due_at": INSTANTS,
                "container": CONTAINERS,
                "reason": REASONS,
                "ended": st.booleans(),
                "attempts": ATTEMPTS,
                "hold": st.builds(Hold, st.integers(0, 3), INSTANTS),
                "stale": st.integers(0, 9).map(lambda n: n == 0),
            }
        )
        return part.map(lambda drawn: _lawful(id, lane, stored, waiting, drawn))

    def any_settlement(self, id: int) -> st.SearchStrategy[Settlement]:
        lane = self.both(lambda side: side.ledger.lane(id))
        return st.builds(
            Settlement,
            st.just(id),
            st.just(lane.version if lane else 1),
            st.builds(Cursor, st.tuples(POSITIONS, POSITIONS)),
            st.just(Hold()),
            matched=st.integers(0, 3),
            unmatched=st.integers(0, 3),
            delivered=st.integers(0, 2),
            finish=SOME,
            park=st.lists(st.builds(_parked, IDENTITIES, INSTANTS, BODIES), max_size=2),
            bury=st.lists(st.builds(_burial, IDENTITIES, INSTANTS, CONTAINERS), max_size=2),
            drop=st.lists(st.builds(Drop, IDENTITIES, REASONS), max_size=2),
            evaluated=st.integers(0, 3),
            attempts=ATTEMPTS,
        )

    @rule(lane=LANES, now=INSTANTS, limit=st.integers(0, 5))
    def due(self, lane: int, now: int, limit: int) -> None:
        self.both(lambda side: side.ledger.due(lane, now, limit))
        self.both(lambda side: side.ledger.parked(lane, limit, (now, DeliveryId(1, 0))))
        self.both(lambda side: side.ledger.parked(lane, limit))

    @rule(now=INSTANTS, limit=st.integers(1, 3), limit_bytes=st.integers(0, 20), passed=PASSED)
    def burials_due(self, now: int, limit: int, limit_bytes: int, passed: SkippedDeadLetters) -> None:
        self.both(lambda side: side.ledger.burials_due(now, limit, limit_bytes, passed))

    @rule(now=INSTANTS, limit=st.integers(1, 3), path=PATHS)
    def name_group(self, now: int, limit: int, path: str) -> None:
        group = self.both(lambda side: side.ledger.burials_due(now, limit, 100, SkippedDeadLetters()))
        if group is not None and group.path is None and path not in self.disk.lanes[group.lane].first_tried_at:
            self.both(lambda side: side.ledger.name_group(group, path, now))

    @rule(lane=LANES, path=PATHS, notice=st.none() | BODIES, taken=st.integers(0, 3), reasons=COUNTED)
    def written(self, lane: int, path: str, notice: bytes | None, taken: int, reasons: dict[str, int]) -> None:
        self.both(lambda side: side.ledger.written(lane, path, notice, taken, reasons))
        self.both(lambda side: side.ledger.notices(0, 99))

    @rule(lane=LANES, path=PATHS, reason=REASONS)
    def abandon(self, lane: int, path: str, reason: str) -> None:
        self.both(lambda side: side.ledger.abandon(lane, path, reason))

    # Both.

    @rule()
    def reopen(self) -> None:
        self.close()
        self.open()

    @invariant()
    def the_books_balance(self) -> None:
        for lane in self.both(lambda side: side.ledger.lanes()):
            assert lane.counts.pending == lane.counts.parked + lane.counts.buried
            assert sum(lane.counts.reasons.values()) <= lane.counts.dead_lettered
            assert lane.counts.parked == len(self.both(lambda side, id=lane.id: side.ledger.parked(id, 1000)))
        self.both(lambda side: side.ledger.next_burial_at())

    @invariant()
    def the_logs_agree(self) -> None:
        for topic in self.both(lambda side: side.log.news(0)).ends:
            self.both(lambda side, topic=topic: side.log.end(topic))


async def _answer(verb: Awaitable[Any]) -> Any:
    try:
        return await verb
    except (LookupError, Conflict, StoreStale, ValueError) as error:
        return KeyError if isinstance(error, KeyError | LookupError) else type(error)


def _parked(identity: DeliveryId, due_at: int, body: bytes) -> Any:
    return parked(*identity, due_at, body)


def _burial(identity: DeliveryId, write_at: int, container: str) -> Any:
    return burial(*identity, write_at, container)


def _lawful(id: int, lane: LaneRow | None, stored: Any, waiting: set[DeliveryId], drawn: dict[str, Any]) -> Settlement:
    parts: dict[str, list[Any]] = {"finish": [], "park": [], "bury": [], "drop": []}
    fresh = 0
    for identity, kind in zip(drawn["free"], drawn["kinds"], strict=False):
        buried = stored is not None and identity in stored.burials
        if kind == 0 or buried:  # a dead letter that waits can only be delivered late
            parts["finish"].append(identity)
            continue
        fresh += identity not in waiting
        if kind == 1:
            parts["park"].append(_parked(identity, drawn["due_at"], b"body"))
        elif kind == 2:
            parts["bury"].append(_burial(identity, drawn["due_at"], drawn["container"]))
        else:
            parts["drop"].append(Drop(identity, drawn["reason"]))
    return Settlement(
        id,
        (lane.version if lane else 1) + drawn["stale"],
        Cursor((drawn["low"], 0)),
        drawn["hold"],
        matched=fresh + drawn["delivered"],
        unmatched=drawn["unmatched"],
        evaluated=drawn["unmatched"],
        delivered=drawn["delivered"],
        ended=drawn["ended"],
        attempts=drawn["attempts"],
        **parts,
    )


class ReplicatedStoresAgree(StoresAgree):
    """The same with the store of a cluster: each reopening is a takeover by the other one of two nodes."""

    def __init__(self, streams: Streams | None = None) -> None:
        fake = FakeStreams(FakeServer("LOG", max_body=4096), FakeServer("LANES", max_body=4096))
        self.streams: Streams = fake if streams is None else streams
        self.nodes = itertools.count()
        super().__init__()

    def open_real(self) -> None:
        turn = next(self.nodes)
        self.databases = open_node(self.directory, f"node{turn % 2}", self.streams, founding=turn == 0)
        self.real.log, self.real.ledger = (
            SqliteLog(self.databases[0], threaded=False),
            SqliteLedger(self.databases[1], threaded=False),
        )

    def close(self) -> None:
        for database in self.databases:
            assert database.digest() == database.note.digest
        super().close()


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestReplicatedStoresAgree = ReplicatedStoresAgree.TestCase
TestReplicatedStoresAgree.settings = settings(TestStoresAgree.settings, max_examples=25)


@pytest.mark.xdist_group("nats")
def test_stores_agree_on_real_servers(nats: NatsCluster) -> None:
    """The same on three real NATS servers."""
    few = settings(TestStoresAgree.settings, max_examples=6, stateful_step_count=40)
    run_state_machine_as_test(lambda: ReplicatedStoresAgree(nats.emptied_streams()), settings=few)
