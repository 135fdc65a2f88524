"""What a retry costs the ledger when ten thousand deliveries are parked, and when a million are."""

import asyncio
import random
import time
from pathlib import Path

import msgspec

from bench.event import stamped, template
from bench.lab import Lab
from bench.report import Goal, Sample
from bench.scenarios import Round
from recapito.domain import limits
from recapito.domain.delivery import Delivery, Identity, Parked
from recapito.domain.instant import HOUR, SECOND
from recapito.store import Settlement
from recapito.stores.sqlite import SqliteLedger

NAME = "parked"
ROUNDS = 1
REPEATS = 9
GOALS = (Goal("parked", "cost of a retry among 1,000,000 parked, against 10,000", 1.5, at_least=False),)
FEW, MANY, QUICK_MANY = 10_000, 1_000_000, 200_000
RETRIES = 10_000
FAILURES_S = 5_000
TOGETHER = 250  # retries that one commit settles
_LANE = 1
_START = 1_800_000_000 * SECOND
_BODY = stamped(template(1), 0)[1:-1]


def measure(round: Round) -> list[Sample]:
    """Both sets side by side, in turns."""
    return asyncio.run(_measure(round.lab))


async def _measure(lab: Lab) -> list[Sample]:
    many = QUICK_MANY if lab.quick else MANY
    with lab.directory("few") as here, lab.directory("many") as there:
        ledgers = SqliteLedger.open(here), SqliteLedger.open(there)
        try:
            await _fill(ledgers[0], FEW)
            await _fill(ledgers[1], many)
            lab.say(f"{many:,} deliveries parked, {_size_mb(there):,.0f} MB")
            return [await _sample(lab, turn, many, *ledgers) for turn in range(REPEATS)]
        finally:
            for ledger in ledgers:
                await ledger.close()


async def _sample(lab: Lab, turn: int, many: int, small: SqliteLedger, large: SqliteLedger) -> Sample:
    now = _START + (turn + 1) * HOUR
    few_us, many_us = await _retry_us(small, now), await _retry_us(large, now)
    detail = f"{many_us:.0f} µs among {many:,} against {few_us:.0f} µs among {FEW:,}"
    lab.say(detail)
    return Sample("parked", many_us / few_us, detail)


async def _fill(ledger: SqliteLedger, count: int) -> None:
    """Park so many deliveries of one lane, as their first attempts would fail at 5,000 a second."""
    await ledger.open_lane(_LANE, 1, "bench", 1)
    for first in range(0, count, limits.PARKED_SLICE):
        part = [_parked(n) for n in range(first, min(first + limits.PARKED_SLICE, count))]
        await _settle(ledger, part, matched=len(part))


def _parked(number: int) -> Parked:
    return Parked(
        _due(_START + number * SECOND // FAILURES_S, 10),
        Delivery(Identity(1 + number // 1000, number % 1000), _START, _BODY, 1),
    )


async def _retry_us(ledger: SqliteLedger, now: int) -> float:
    """Fetch what is due and park it again, as when every retry fails; microseconds for each."""
    began = time.perf_counter()
    done = 0
    while done < RETRIES:
        due = (await ledger.due(_LANE, now, limits.PARKED_SLICE)).parked
        for first in range(0, len(due), TOGETHER):
            await _settle(ledger, [_again(row, now) for row in due[first : first + TOGETHER]])
        done += len(due)
    return (time.perf_counter() - began) / done * 1e6


def _again(row: Parked, now: int) -> Parked:
    delivery = msgspec.structs.replace(row.delivery, attempts=row.delivery.attempts + 1, last_attempt_at=now)
    return Parked(_due(now, 30), delivery)


def _due(failed_at: int, delay_s: int) -> int:
    """When a retry is due: after the schedule's delay and up to a tenth of it more, by chance."""
    return failed_at + int(delay_s * SECOND * random.uniform(1.0, 1.1))


async def _settle(ledger: SqliteLedger, rows: list[Parked], matched: int = 0) -> None:
    lane = await ledger.lane(_LANE)
    assert lane is not None
    await ledger.settle([Settlement(lane.id, lane.version, lane.cursor, lane.hold, matched=matched, park=rows)])


def _size_mb(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.iterdir()) / 1e6
