"""Group commit: all publishes that wait while the last commit ran go into one commit, one segment per topic.

Nobody gets a result before the commit of their events has returned; a failed commit fails everybody in it, and
nothing is tried again in here. What waits is bounded: beyond that a publish is refused before anything is kept.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from recapito.clock import Clock, SystemClock
from recapito.domain import limits
from recapito.domain.segment import NO_TRACES, Publish, StampedEvent, pack
from recapito.domain.topic import Topic
from recapito.errors import Busy, NotFound, StoreFailed
from recapito.intake.tally import Tallies
from recapito.status import Gauge
from recapito.store import Log, NewSegment

CLOSED_RETRY_S = 30


class Stats(msgspec.Struct):
    """What the publisher has done since it was made."""

    commits: int = 0
    publishes: int = 0
    events: int = 0
    bytes: int = 0
    failed: int = 0
    refused: int = 0
    throttled: int = 0


class _Waiter(NamedTuple):
    topic: int
    publish: Publish
    size: int
    result: asyncio.Future[None]


class Publisher:
    """Takes accepted events and answers when they are durable. `run` is its loop, one task."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        on_append: Callable[[], None],
        intake_open: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.stats = Stats()
        self.tallies = Tallies()
        self.gauge = Gauge()
        self.last_commit = (0, 0)  # when it began and ended
        self._log = log
        self._clock = clock
        self._wall = SystemClock()
        self._on_append = on_append
        self._intake_open = intake_open
        self._waiting: list[_Waiter] = []
        self._held = 0  # publishes and bytes that wait or are being committed
        self._held_bytes = 0
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()
        self._closing = False

    def __repr__(self) -> str:
        return f"<Publisher {self._held} publishes, {self._held_bytes} bytes waiting, {self.stats.commits} commits>"

    def check_open(self) -> None:
        """Raise Busy if a publish would be refused now. Asked before a body is read, and again before it is kept."""
        reason = self._intake_open()
        if reason is not None:
            self._refuse(reason, CLOSED_RETRY_S)
        if self._closing or self._stopped.is_set():
            self._refuse("Intake is starting or stopping.")
        if self._held >= limits.WAITING_PUBLISHES or self._held_bytes >= limits.WAITING_BYTES:
            self._refuse("Too many publish requests are waiting to be stored.")

    async def publish(self, topic: Topic, events: list[StampedEvent], size: int) -> None:
        """Return when the events are durable. A caller that is cancelled changes nothing for what is stored."""
        await self.submit(topic, events, size)

    def submit(
        self,
        topic: Topic,
        events: list[StampedEvent],
        size: int,
        published_at: int | None = None,
        traces: Mapping[int, str] = NO_TRACES,
    ) -> asyncio.Future[None]:
        """Take the events; the future is done when they are durable, or says why not.

        `published_at` is this instant, if the caller has asked the clock for it already; `traces` are the
        traceparents of those events that are traced.
        """
        self.check_open()
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        now = self._clock.now() if published_at is None else published_at
        self._waiting.append(_Waiter(topic.id, Publish(now, events, traces), size, result))
        self._held += 1
        self._held_bytes += size
        self._wake.set()
        return result

    async def run(self) -> None:
        """Commit what waits, again and again, until closed."""
        self._stopped.clear()
        try:
            while not self._closing or self._waiting:
                if self._waiting:
                    await self._commit(self._take())
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._stopped.set()
            self._finish(self._take(), partial(StoreFailed, "Intake stopped before this was stored."))

    async def close(self) -> None:
        """Refuse what comes, finish what waits."""
        self._closing = True
        self._wake.set()
        await self._stopped.wait()

    def _refuse(self, reason: str, retry_after_s: int = 1) -> None:
        self.stats.refused += 1
        raise Busy(reason, retry_after_s)

    def _take(self) -> list[_Waiter]:
        group, self._waiting = self._waiting, []
        return group

    async def _commit(self, group: list[_Waiter]) -> None:
        began = self._wall.now()
        try:
            await self._log.append(list(_segments(group)))
        except StoreFailed as error:
            self._finish(group, partial(StoreFailed, str(error)))
            self._on_append()  # it may be stored all the same
        except KeyError:
            await self._commit_apart(group)
        except BaseException:
            self._finish(group, partial(StoreFailed, "Whether this was stored is unknown."))
            raise
        else:
            took = self._wall.now() - began
            self.gauge.committed(took, len(group))
            now = self._clock.now()
            self.last_commit = (now - took, now)
            self._finish(group)
            self._on_append()

    async def _commit_apart(self, group: list[_Waiter]) -> None:
        """A topic of the group was deleted and nothing was stored: it must not take the other topics with it."""
        topics = {waiter.topic for waiter in group}
        if len(topics) == 1:
            self._finish(group, partial(NotFound, "ResourceNotFound", "The topic was deleted."))
            return
        for topic in topics:
            await self._commit([waiter for waiter in group if waiter.topic == topic])

    def _finish(self, group: list[_Waiter], error: Callable[[], Exception] | None = None) -> None:
        """Give everybody their result, an error each of its own: a raised one grows a traceback."""
        for waiter in group:
            self._held -= 1
            self._held_bytes -= waiter.size
            if waiter.result.done():
                continue  # its caller went away; what was stored stays stored
            if error is None:
                waiter.result.set_result(None)
            else:
                waiter.result.set_exception(error())
        if error is None:
            self._count(group)
        else:
            self.stats.failed += len(group)

    def _count(self, group: list[_Waiter]) -> None:
        self.stats.commits += 1
        self.stats.publishes += len(group)
        self.stats.events += sum(len(waiter.publish.events) for waiter in group)
        self.stats.bytes += sum(waiter.size for waiter in group)
        now = self._clock.now()
        for topic, publish, size, _ in group:
            self.tallies.stored(topic, len(publish.events), size, now - publish.published_at)


def _segments(group: Iterable[_Waiter]) -> Iterable[NewSegment]:
    """The group's publishes, each topic's packed together; a segment closes before it would grow beyond its limits."""
    by_topic: dict[int, list[_Waiter]] = {}
    for waiter in group:
        by_topic.setdefault(waiter.topic, []).append(waiter)
    for topic, waiters in by_topic.items():
        for part in _within_limits(waiters):
            columns, body = pack([waiter.publish for waiter in part])
            yield NewSegment(topic, sum(len(waiter.publish.events) for waiter in part), columns, body)


def _within_limits(waiters: list[_Waiter]) -> Iterable[list[_Waiter]]:
    part: list[_Waiter] = []
    events = size = 0
    for waiter in waiters:
        events += len(waiter.publish.events)
        size += waiter.size
        if part and (events > limits.SEGMENT_EVENTS or size > limits.SEGMENT_BYTES):
            yield part
            part, events, size = [], len(waiter.publish.events), waiter.size
        part.append(waiter)
    yield part
