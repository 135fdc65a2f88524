"""The cost of a retry for the ledger when ten thousand deliveries are parked, and when a million are.

Both sets are arranged alike, and only rows that lie as they were parked are taken. Twice: as first retries lie, nearly
in the order of their due times, and as retries of the last steps do, whose jitter is hours: in no order at all.
"""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.event import stamped, template
from bench.lab import Lab
from bench.report import Goal, Sample
from bench.scenarios import Round
from recapito.contracts.ledger import Settlement
from recapito.domain import limits
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.instant import DAY, SECOND
from recapito.stores.sqlite import SqliteLedger

NAME = "parked"
ROUNDS = 1
GOALS = (
    Goal("parked", "cost of a first retry among 1,000,000 parked, against 10,000", 1.5, at_least=False),
    Goal("parked late", "cost of a late retry among 1,000,000 parked, against 10,000", 1.5, at_least=False),
)
FEW, MANY, QUICK_MANY = 10_000, 1_000_000, 200_000
REPEATS = 9  # each takes a slice; together they must leave some of the smaller set
TOGETHER = 250  # retries that one commit settles
FAILURES_S = 5_000
_LANE = 1
_START = 1_800_000_000 * SECOND
_NOW = _START + DAY  # when everything that was parked at first is due
_BODY = stamped(template(1), 0)[1:-1]


def measure(round: Round) -> list[Sample]:
    """Both arrangements, one after the other."""
    many = QUICK_MANY if round.lab.quick else MANY
    first = asyncio.run(_measure(round.lab, "parked", many, _first_retry))
    return first + asyncio.run(_measure(round.lab, "parked late", many, _late_retry))


def _first_retry(number: int) -> int:
    """Due 10 s after its failure and up to a tenth of that more, at N failures a second."""
    return _START + number * SECOND // FAILURES_S + int(random.uniform(10.0, 11.0) * SECOND)


def _late_retry(number: int) -> int:
    """Due at any time of an hour, whenever it failed."""
    return _START + int(random.uniform(0.0, 3600.0) * SECOND)


async def _measure(lab: Lab, row: str, many: int, due: Callable[[int], int]) -> list[Sample]:
    with lab.directory("few") as here, lab.directory("many") as there:
        small, large = SqliteLedger.open(here), SqliteLedger.open(there)
        try:
            await _fill(small, FEW, due)
            await _fill(large, many, due)
            lab.say(f"{many:,} deliveries parked, {_size_mb(there):,.0f} MB")
            samples = [_sample(row, many, await _retry_us(small), await _retry_us(large)) for _ in range(REPEATS)]
        finally:
            await small.close()
            await large.close()
    for sample in samples:
        lab.say(f"{row}: {sample.detail}")
    return samples


def _sample(row: str, many: int, few_us: float, many_us: float) -> Sample:
    return Sample(row, many_us / few_us, f"{many_us:.0f} µs among {many:,} against {few_us:.0f} µs among {FEW:,}")


async def _fill(ledger: SqliteLedger, count: int, due: Callable[[int], int]) -> None:
    """Park N deliveries of one lane."""
    await ledger.open_lane(_LANE, 1, "bench", 1)
    for first in range(0, count, limits.PARKED_SLICE):
        numbers = range(first, min(first + limits.PARKED_SLICE, count))
        rows = [Parked(due(n), Delivery(DeliveryId(1 + n // 1000, n % 1000), _START, _BODY, 1)) for n in numbers]
        await _settle(ledger, rows, matched=len(rows))


async def _retry_us(ledger: SqliteLedger) -> float:
    """Fetch a slice that is due and park it for another day, as when every retry fails; microseconds for each."""
    began = time.perf_counter()
    due = (await ledger.due(_LANE, _NOW, limits.PARKED_SLICE)).parked
    for first in range(0, len(due), TOGETHER):
        await _settle(ledger, [_again(row) for row in due[first : first + TOGETHER]])
    return (time.perf_counter() - began) / len(due) * 1e6


def _again(row: Parked) -> Parked:
    delivery = msgspec.structs.replace(row.delivery, attempts=row.delivery.attempts + 1, last_attempt_at=_NOW)
    return Parked(_NOW + int(random.uniform(1.0, 1.1) * DAY), delivery)


async def _settle(ledger: SqliteLedger, rows: list[Parked], matched: int = 0) -> None:
    lane = await ledger.lane(_LANE)
    assert lane is not None
    await ledger.settle([Settlement(lane.id, lane.version, lane.cursor, lane.hold, matched=matched, park=rows)])


def _size_mb(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.iterdir()) / 1e6
