"""The replicated store on three NATS servers of this machine, against the embedded one: commits, and a takeover.

The verbs of the stores are called directly, one commit at a time; publishers in front of them would group more.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

from bench.event import stamped, template
from bench.report import Goal, Sample
from bench.scenarios import Round
from recapito.contracts.ledger import LaneRow, Settlement
from recapito.contracts.log import NewSegment
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from tests.kit.nats_cluster import NatsCluster, running
from tests.kit.replicated import open_node

NAME = "replicated"
ROUNDS = 1
GOALS = (
    Goal("replicated batches", "appends of 100 events, replicated against embedded", 0.4),
    Goal("replicated single", "appends of one event, replicated against embedded", 0.25),
    Goal("replicated settle", "rows a second in settlements of 100 lanes with 5 retries each", 20_000, unit="rows/s"),
    Goal("takeover", "takeover by a node without copies, 10,000 parked deliveries", 12, unit="s", at_least=False),
    Goal("large takeover", "the same with 1,000,000 parked deliveries", 45, unit="s", at_least=False),
)
SECONDS = 4.0
LANES, RETRIES = 100, 5
PARKED, MANY_PARKED, TOGETHER = 10_000, 1_000_000, 500
BYTES_EACH = 4_000  # of a stream's bound for each parked delivery, with room for a compaction
_NOW = 1_800_000_000 * SECOND
_BODIES = [stamped(template(1, variant=n), 0)[1:-1] for n in range(TOGETHER)]


def measure(round: Round) -> list[Sample]:
    """All rows, on one cluster."""
    lab = round.lab
    with lab.directory("nats") as servers, lab.directory("stores") as stores, running(servers) as cluster:
        samples = asyncio.run(_measure(stores, cluster, SECONDS / 4 if lab.quick else SECONDS))
        samples.append(asyncio.run(_take_over("takeover", stores, cluster, PARKED)))
        if not lab.quick:
            samples.append(asyncio.run(_take_over("large takeover", stores, cluster, MANY_PARKED)))
    for sample in samples:
        lab.say(f"{sample.row}: {sample.detail}")
    return samples


async def _measure(directory: Path, cluster: NatsCluster, seconds: float) -> list[Sample]:
    databases = open_node(
        directory, "owner", cluster.new_streams(1 << 30), threaded=True, founding=True, make=ReplicatedDatabase
    )
    replicated = SqliteLog(databases[0], threaded=True), SqliteLedger(databases[1], threaded=True)
    embedded = SqliteLog.open(directory), SqliteLedger.open(directory)
    try:
        return [
            await _append("replicated batches", 100, replicated[0], embedded[0], seconds),
            await _append("replicated single", 1, replicated[0], embedded[0], seconds),
            await _settle(replicated[1], embedded[1], seconds),
        ]
    finally:
        for store in (*replicated, *embedded):
            await store.close()


async def _append(row: str, events: int, replicated: SqliteLog, embedded: SqliteLog, seconds: float) -> Sample:
    segment = b"\n".join(_BODIES[:events])
    rates = []
    for log in (replicated, embedded):
        topic = await log.put_topic(_topic(row))
        rates.append(await _rate(partial(log.append, [NewSegment(topic.id, events, b"columns", segment)]), seconds))
    ours, theirs = (rate * events for rate in rates)
    return Sample(row, ours / theirs, f"{ours:,.0f} events/s against {theirs:,.0f}, one commit at a time")


async def _settle(replicated: SqliteLedger, embedded: SqliteLedger, seconds: float) -> Sample:
    rates = []
    for ledger in (replicated, embedded):
        lanes = [await ledger.open_lane(id + 1, 1, "bench", 1) for id in range(LANES)]
        rates.append(await _rate(partial(_settle_next, ledger, _settlements(lanes)), seconds) * LANES * (RETRIES + 1))
    detail = f"{rates[0]:,.0f} rows/s, embedded {rates[1]:,.0f}"
    return Sample("replicated settle", rates[0], detail)


async def _settle_next(ledger: SqliteLedger, settlements: Iterator[list[Settlement]]) -> None:
    await ledger.settle(next(settlements))


def _settlements(lanes: list[LaneRow]) -> Iterator[list[Settlement]]:
    """Each lane delivers one event and parks some, time after time."""
    number = 0
    while True:
        number += 1
        cursor = Cursor((1 + number, 0))
        parked = [_parked(number, n) for n in range(RETRIES)]
        yield [
            Settlement(lane.id, number, cursor, lane.hold, matched=RETRIES + 1, delivered=1, park=parked)
            for lane in lanes
        ]


def _parked(position: int, offset: int) -> Parked:
    body = _BODIES[(position + offset) % len(_BODIES)]
    return Parked(_NOW + random.randrange(10**9), Delivery(DeliveryId(position, offset), _NOW, body, 1))


async def _take_over(row: str, directory: Path, cluster: NatsCluster, count: int) -> Sample:
    """A node without copies loads them, checks them and claims; a standby that follows has less to read."""
    streams = cluster.new_streams(max(count * BYTES_EACH, 1 << 28))
    databases = open_node(directory, f"{row} from", streams, threaded=True, founding=True, make=ReplicatedDatabase)
    ledger = SqliteLedger(databases[1], threaded=True)
    lane = await ledger.open_lane(1, 1, "bench", 1)
    for number in range(1, count // TOGETHER + 1):
        parked = [_parked(number, n) for n in range(TOGETHER)]
        await ledger.settle([Settlement(1, number, Cursor((1 + number, 0)), lane.hold, matched=TOGETHER, park=parked)])
    await ledger.close()
    databases[0].close()
    began = time.perf_counter()
    loaded = open_node(directory, f"{row} to", streams, threaded=True, make=ReplicatedDatabase)
    took = time.perf_counter() - began
    for database in loaded:
        database.close()
    return Sample(row, took, f"{took:.2f} s from an empty directory")


async def _rate(call: Callable[[], Awaitable[object]], seconds: float) -> float:
    """Calls a second."""
    began, calls = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        await call()
        calls += 1
    return calls / took


def _topic(name: str) -> Topic:
    return Topic(
        name=name.replace(" ", "-"),
        azure_subscription="s",
        resource_group="g",
        location="local",
        key1="one",
        key2="two",
        created_at=1,
        modified_at=1,
    )
