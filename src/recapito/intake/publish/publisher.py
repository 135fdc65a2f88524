"""Group commit: all publishes that wait while a commit runs go into the next one, one segment per topic.

No publish gets a result before the commit of its events has returned. A failed commit fails every publish in it, and
the publisher never tries again. Only AppendFailed leaves open whether events are stored. The queue is bounded in
publishes, bytes and time: a publish that has waited too long is refused while still in the queue, and so is a group for
whose commit the volume has no room; nothing of a refused publish is stored. A publish in a commit gets its result.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from recapito.clock import Clock, SystemClock
from recapito.contracts.log import Log, NewSegment
from recapito.domain import limits
from recapito.domain.capacity import LastCommit, expected_wait, needed
from recapito.domain.events.segment import NO_TRACES, Publish, StampedEvent, pack
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic
from recapito.errors import AppendFailed, Busy, NotFound, RecordDamaged, StoreFailed
from recapito.intake.publish.counters import PublishCounters
from recapito.observability.status import Gauge

CLOSED_RETRY_S = 30


class Stats(msgspec.Struct):
    """Totals since the publisher was created."""

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
    since: int
    result: asyncio.Future[None]


class Publisher:
    """Stores accepted events, and completes a future when they are durable. `run` is its loop, one task.

    log: the log to append to.
    clock: the service's clock, for the time of publishing.
    on_append: called after each commit, and after one that failed: its segments may be stored nevertheless.
    intake_open: returns the reason why intake is closed, None while it is open.
    reserve: returns the reason why N bytes may not be written, None if they may.
    patience: nanoseconds that a publish waits at most before its commit begins.
    wall: real time, which measures `patience`, because clients wait in real time whatever the service's clock does.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        on_append: Callable[[], None],
        intake_open: Callable[[], str | None] = lambda: None,
        reserve: Callable[[int], str | None] = lambda size: None,
        *,
        patience: int = limits.PUBLISH_WAIT_NS,
        wall: Clock | None = None,
    ) -> None:
        self.stats = Stats()
        self.counters = PublishCounters()
        self.gauge = Gauge()
        self.last_commit = (0, 0)  # its beginning and its end
        self._log = log
        self._clock = clock
        self._wall = wall or SystemClock()
        self._patience = patience
        self._last = LastCommit()
        self._running_since: int | None = None  # the beginning of the commit under way
        self._on_append = on_append
        self._intake_open = intake_open
        self._reserve = reserve
        self._waiting: list[_Waiter] = []
        self._held = 0  # publishes that wait or are being committed, and their bytes
        self._held_bytes = 0
        self._wake = asyncio.Event()  # wakes the loop that commits
        self._queued = asyncio.Event()  # wakes the task that watches the queue
        self._stopped = asyncio.Event()
        self._stopped.set()
        self._closing = False

    def __repr__(self) -> str:
        return f"<Publisher {self._held} publishes, {self._held_bytes} bytes waiting, {self.stats.commits} commits>"

    def check_open(self, size: int = 0) -> None:
        """Raise Busy if a publish would be refused now. Called before a body is read, and again before it is kept.

        A caller that appends to the log itself passes the size, for which there must be room.
        """
        reason = self._reserve(size) if size else self._intake_open()
        if reason is not None:
            self._refuse(reason, CLOSED_RETRY_S)
        if self._closing or self._stopped.is_set():
            self._refuse("Intake is starting or stopping.")
        if self._held >= limits.WAITING_PUBLISHES or self._held_bytes >= limits.WAITING_BYTES:
            self._refuse("Too many publish requests are waiting to be stored. Nothing was stored.")
        if self._running_since is not None:  # an idle store refuses no publish, so that some always pass
            wait = expected_wait(self._last, self._running_since, len(self._waiting), self._wall.now())
            if wait > self._patience:
                self._refuse("Storing takes too long at the moment. Nothing was stored.", -(-wait // SECOND))

    async def publish(self, topic: Topic, events: list[StampedEvent], size: int) -> None:
        """Return when the events are durable. Cancelling the caller does not undo what is stored."""
        await self.submit(topic, events, size)

    def submit(
        self,
        topic: Topic,
        events: list[StampedEvent],
        size: int,
        published_at: int | None = None,
        traces: Mapping[int, str] = NO_TRACES,
        passed: str = "",
    ) -> asyncio.Future[None]:
        """Queue the events; the future completes when they are durable, or raises the reason why they are not.

        `published_at` is the current instant, if the caller has it already; `traces` are the traceparents of the traced
        events, by index; `passed` are the waymarks of the topics that forwarded events came by.
        """
        self.check_open()
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        now = self._clock.now() if published_at is None else published_at
        self._waiting.append(_Waiter(topic.id, Publish(now, events, traces, passed), size, self._wall.now(), result))
        self._held += 1
        self._held_bytes += size
        self._wake.set()
        self._queued.set()
        return result

    async def run(self) -> None:
        """Commit waiting publishes until closed."""
        self._stopped.clear()
        watching = asyncio.create_task(self._watch_waiting())
        try:
            while not self._closing or self._waiting:
                self._refuse_overdue()
                if self._waiting:
                    await self._commit(self._take())
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            watching.cancel()
            self._stopped.set()
            self._finish(self._take(), partial(Busy, "Intake stopped before this was stored."))

    async def close(self) -> None:
        """Refuse new publishes and finish the waiting ones."""
        self._closing = True
        self._wake.set()
        await self._stopped.wait()

    def _refuse(self, reason: str, retry_after_s: int = 1) -> None:
        self.stats.refused += 1
        raise Busy(reason, retry_after_s)

    def _take(self) -> list[_Waiter]:
        group, self._waiting = self._waiting, []
        return group

    async def _watch_waiting(self) -> None:
        """Refuse overdue publishes also while a commit hangs."""
        while True:
            if not self._waiting:
                self._queued.clear()
                await self._queued.wait()
            if self._waiting:
                await self._wall.sleep_until(self._waiting[0].since + self._patience + 1)
                self._refuse_overdue()

    def _refuse_overdue(self) -> None:
        """Refuse the publishes at the head of the queue that have waited too long."""
        since = self._wall.now() - self._patience
        count = next((n for n, waiter in enumerate(self._waiting) if waiter.since >= since), len(self._waiting))
        if count:
            overdue, self._waiting = self._waiting[:count], self._waiting[count:]
            seconds = self._patience / SECOND
            self.stats.refused += count
            self._answer(overdue, partial(Busy, f"Storing took longer than {seconds:g} s. Nothing was stored."))

    async def _commit(self, group: list[_Waiter]) -> None:
        self._running_since = began = self._wall.now()
        segments = list(_segments(group))
        size = sum(len(segment.columns) + len(segment.body) for segment in segments)
        no_room = self._reserve(needed(size, len(segments)))
        if no_room is not None:
            self.stats.refused += len(group)
            self._running_since = None
            self._answer(group, partial(Busy, no_room, CLOSED_RETRY_S))
            return
        try:
            await self._log.append(segments)
        except RecordDamaged as error:
            await self._commit_apart(group, partial(RecordDamaged, str(error)))
        except StoreFailed as error:
            self._finish(group, partial(AppendFailed, str(error)))
            self._on_append()  # it may be stored nevertheless
        except KeyError:
            await self._commit_apart(group, partial(NotFound, "ResourceNotFound", "The topic was deleted."))
        except BaseException:
            self._finish(group, partial(AppendFailed, "The commit was cancelled."))
            raise
        else:
            took = self._wall.now() - began
            self._last = LastCommit(took, len(group))
            self.gauge.committed(took, len(group))
            now = self._clock.now()
            self.last_commit = (now - took, now)
            self._finish(group)
            self._on_append()
        finally:
            self._running_since = None

    async def _commit_apart(self, group: list[_Waiter], error: Callable[[], Exception]) -> None:
        """Store each topic alone, after a group failed because one of its topics is deleted or damaged."""
        topics = {waiter.topic for waiter in group}
        if len(topics) == 1:
            self._finish(group, error)
            return
        for topic in topics:
            await self._commit([waiter for waiter in group if waiter.topic == topic])

    def _finish(self, group: list[_Waiter], error: Callable[[], Exception] | None = None) -> None:
        """Give every publish of a group its result, and count it."""
        self._answer(group, error)
        if error is None:
            self._count(group)
        else:
            self.stats.failed += len(group)

    def _answer(self, group: list[_Waiter], error: Callable[[], Exception] | None) -> None:
        """Give every publish its result. Each gets an error of its own, because a raised one grows a traceback."""
        for waiter in group:
            self._held -= 1
            self._held_bytes -= waiter.size
            if waiter.result.done():
                continue  # its caller is gone; stored events stay stored
            if error is None:
                waiter.result.set_result(None)
            else:
                waiter.result.set_exception(error())

    def _count(self, group: list[_Waiter]) -> None:
        self.stats.commits += 1
        self.stats.publishes += len(group)
        self.stats.events += sum(len(waiter.publish.events) for waiter in group)
        self.stats.bytes += sum(waiter.size for waiter in group)
        now = self._clock.now()
        for topic, publish, size, *_ in group:
            self.counters.stored(topic, len(publish.events), size, now - publish.published_at)


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
