"""A server with a past: thousands of subscriptions, made over its API, and a million attempts, dead letters and all.

What took days to gather is written by the project's own stores while the server is stopped: attempts by the writer of
history, under the names that the registry has, and dead letters by the vault.
"""

import asyncio
import json
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.server import Recapito
from recapito.clock import SystemClock
from recapito.contracts.history import HistoryBounds
from recapito.domain import limits
from recapito.domain.delivery.vocabulary import DispositionKind, Rule
from recapito.domain.history.attempt import Attempt, EventDisposition, LaneLabel
from recapito.domain.instant import HOUR, MILLISECOND, SECOND
from recapito.settings import settings
from recapito.stores.sqlite import SqliteLog
from recapito.stores.sqlite.history import SqliteHistory
from recapito.vaults.directory import DirectoryVault

SUBSCRIPTIONS_EACH = 500  # of a topic: the most that it may have
SPAN = 12 * HOUR  # over which the attempts lie
FAILING = 7  # every seventh attempt fails
LETTERS = 1000
_TOGETHER = 20_000
_CONNECTIONS = 8
_CONTAINER = "dead"
_TRIMMED = 1_000_000  # positions that the logs have not: the events themselves are gone


class Past(NamedTuple):
    """The written data: the ids of its oldest and its newest event, and the number of kept attempts."""

    oldest: str
    newest: str
    attempts: int


def topic_name(n: int) -> str:
    """The name of the n-th topic."""
    return f"topic-{n:03}"


def subscription_name(topic: int, n: int) -> str:
    """The name of the n-th subscription of a topic; no other has it."""
    return f"sub-{topic:03}-{n:03}"


def subscribe(server: Recapito, topics: int, url: str, failing_url: str, each: int = SUBSCRIPTIONS_EACH) -> None:
    """Make the topics with `each` subscriptions, all with dead letters; the very last one fails."""

    def make(place: tuple[int, int]) -> None:
        topic, n = place
        last = place == (topics - 1, each - 1)
        vault = {"endpointType": "Directory", "properties": {"name": _CONTAINER}}
        name, endpoint = subscription_name(topic, n), failing_url if last else url
        server.subscribe(topic_name(topic), name, endpoint, (100, 64), deadLetterDestination=vault)

    for topic in range(topics):
        server.topic(topic_name(topic))
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        list(pool.map(make, ((topic, n) for topic in range(topics) for n in range(each))))


def give_past(data: Path, attempts: int, failing: str) -> Past:
    """Write N attempts, of all subscriptions alike, and dead letters of the one that fails."""
    return asyncio.run(_give_past(data, attempts, failing))


async def _give_past(data: Path, attempts: int, failing: str) -> Past:
    clock, chosen = SystemClock(), settings.load(environment={}).history
    labels = await _labels(data)
    keep = HistoryBounds(chosen.keep_hours * HOUR, chosen.keep_mb * limits.MB)
    history = SqliteHistory(data, keep, clock.now, clock, threaded=False)
    ids = []
    try:
        for n, attempt in enumerate(_attempts(labels, attempts, clock.now() - SPAN), 1):
            history.record(attempt)
            if n in (1, attempts):
                ids.append(attempt.ids[0])
            if n % _TOGETHER == 0:
                await history.flush()
        await history.flush()
        kept = (await history.extent()).attempts
    finally:
        await history.close()
    await _bury(data, next(label for label in labels if label.subscription == failing))
    return Past(ids[0], ids[-1], kept)


async def _labels(data: Path) -> list[LaneLabel]:
    """Every subscription, as attempts name it."""
    log = SqliteLog.open_reader(data)
    try:
        names: dict[int, str] = {}
        labels: list[LaneLabel] = []
        while page := await log.subscriptions(None, labels[-1].lane if labels else 0, 1000):
            for one in page:
                if one.topic not in names:
                    topic = await log.topic_by_id(one.topic)
                    names[one.topic] = topic.name if topic else ""
                labels.append(LaneLabel(one.id, one.topic, names[one.topic], one.name))
        return labels
    finally:
        await log.close()


def _attempts(labels: list[LaneLabel], count: int, since: int) -> Iterator[Attempt]:
    """Single events, each with an id of its own, at even intervals, of subscriptions by chance."""
    chance = random.Random(1)
    for n in range(count):
        at, label = since + n * SPAN // count, chance.choice(labels)
        id, took = str(uuid.UUID(int=chance.getrandbits(128))), chance.randrange(1, 50) * MILLISECOND
        position = ((1, _TRIMMED + n),)
        if n % FAILING:
            yield Attempt(label, at, took, "Success", 200, "", False, False, (id,), position, (0,))
        else:
            again = EventDisposition(DispositionKind.RETRY, at + 10 * SECOND, Rule.SCHEDULE)
            yield Attempt(
                *(label, at, took, "Busy", 503, "too busy", False, False, (id,), position, (0,)), dispositions=(again,)
            )


async def _bury(data: Path, label: LaneLabel) -> None:
    """A file of dead letters of one subscription, as Event Grid has them."""
    letters = [_letter(label, n) for n in range(LETTERS)]
    path = f"{label.subscription.upper()}/2026/1/1/0/{uuid.UUID(int=1)}.json"
    await DirectoryVault(data / "deadletters").write(_CONTAINER, path, json.dumps(letters).encode())


def _letter(label: LaneLabel, n: int) -> dict[str, Any]:
    return {
        "id": f"letter-{n:04}",
        "eventType": "Bench.Event",
        "subject": f"bench/{n}",
        "eventTime": "2026-01-01T00:00:00Z",
        "topic": label.topic_name,
        "dataVersion": "1",
        "data": {"pad": "x" * 500},
        "deadLetterReason": "MaxDeliveryAttemptsExceeded",
        "deliveryAttempts": 30,
        "lastDeliveryOutcome": "Busy",
        "publishTime": "2026-01-01T00:00:00Z",
        "lastDeliveryAttemptTime": "2026-01-01T01:00:00Z",
    }
