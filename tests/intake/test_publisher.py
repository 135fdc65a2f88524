"""Group commit: who waits for what, what goes into one commit, and what a failure means."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.clock import ManualClock
from recapito.domain import limits
from recapito.domain.events.segment import Segment
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic
from recapito.errors import AppendFailed, Busy, NotFound, RecordDamaged, StoreFailed
from recapito.intake.publish.publisher import Publisher
from tests.intake.doubles import ScriptedLog, StillClock, bodies, events, topic_named


class Bench:
    """A running publisher on a scripted log, with two topics."""

    def __init__(self, log: ScriptedLog, **options: Any) -> None:
        self.log = log
        self.clock = StillClock()
        self.wakes = 0
        self.publisher = Publisher(log, self.clock, self._woken, **options)

    def _woken(self) -> None:
        self.wakes += 1

    async def __aenter__(self) -> "Bench":
        self.orders: Topic = await self.log.put_topic(topic_named("orders"))
        self.bills: Topic = await self.log.put_topic(topic_named("bills"))
        self.loop = asyncio.create_task(self.publisher.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.gate.set()
        await self.publisher.close()
        await self.loop

    def publish(self, *content: bytes, topic: Topic | None = None, size: int | None = None) -> asyncio.Task[None]:
        total = sum(map(len, content)) if size is None else size
        return asyncio.create_task(self.publisher.publish(topic or self.orders, events(*content), total))


def run(test: Callable[[Bench], Awaitable[None]], log: Callable[[], ScriptedLog], **options: Any) -> None:
    async def whole() -> None:
        async with Bench(log(), **options) as bench:
            await test(bench)

    asyncio.run(whole())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def held() -> ScriptedLog:
    return ScriptedLog(held=True)


def test_nobody_is_answered_before_the_commit_returned() -> None:
    """A publish waits until its commit has returned, and dispatch is woken then."""

    async def test(bench: Bench) -> None:
        waiting = bench.publish(b"{}")
        await settle()
        assert len(bench.log.commits) == 1
        assert not waiting.done()
        assert bench.wakes == 0
        bench.log.gate.set()
        await waiting
        assert bench.wakes == 1

    run(test, held)


def test_all_that_waited_go_into_one_commit_with_a_segment_per_topic() -> None:
    """Publishes that arrive while a commit runs are committed together, in order, one segment for each topic."""

    async def test(bench: Bench) -> None:
        first = bench.publish(b"0")
        await settle()
        rest = [bench.publish(b"%d" % n, topic=bench.bills if n % 2 else bench.orders) for n in range(1, 7)]
        await settle()
        bench.log.gate.set()
        await asyncio.gather(first, *rest)
        one, group = bench.log.commits
        assert [bodies(segment) for segment in one] == [[b"0"]]
        assert {segment.topic: bodies(segment) for segment in group} == {
            bench.bills.id: [b"1", b"3", b"5"],
            bench.orders.id: [b"2", b"4", b"6"],
        }
        assert [segment.events for segment in group] == [3, 3]

    run(test, held)


def test_publishes_of_one_moment_share_their_commit() -> None:
    """An idle publisher does not commit the first of a burst alone."""

    async def test(bench: Bench) -> None:
        await asyncio.gather(*(bench.publish(b"%d" % n) for n in range(5)))
        assert len(bench.log.commits) == 1

    run(test, ScriptedLog)


def test_events_are_stamped_with_the_time_of_acceptance() -> None:
    """The publish time is that of acceptance, not of the commit."""

    async def test(bench: Bench) -> None:
        bench.clock.instant = 5
        waiting = bench.publish(b"1", b"2")
        await settle()
        bench.clock.instant = 9
        later = bench.publish(b"3")
        await settle()
        bench.clock.instant = 11
        bench.log.gate.set()
        await asyncio.gather(waiting, later)
        times = [Segment(s.columns, s.body).published_at for commit in bench.log.commits for s in commit]
        assert times == [[5, 5], [9]]

    run(test, held)


def test_a_segment_closes_at_its_limits_and_never_splits_a_publish() -> None:
    """Publishes that do not fit go into a further segment of the same commit; each stays whole."""

    async def test(bench: Bench) -> None:
        big = limits.SEGMENT_BYTES // 2 + 1
        many = [b"e"] * (limits.SEGMENT_EVENTS - 1)
        waiting = [bench.publish(b"first")]
        await settle()
        waiting += [bench.publish(b"a", size=big), bench.publish(b"b", size=big), bench.publish(b"c", size=1)]
        waiting += [bench.publish(b"x", b"y", topic=bench.bills), bench.publish(*many, topic=bench.bills)]
        await settle()
        bench.log.gate.set()
        await asyncio.gather(*waiting)
        group = bench.log.commits[1]
        assert [bodies(s) for s in group if s.topic == bench.orders.id] == [[b"a"], [b"b", b"c"]]
        assert [s.events for s in group if s.topic == bench.bills.id] == [2, limits.SEGMENT_EVENTS - 1]

    run(test, held)


def test_a_failed_commit_fails_everybody_in_it_and_nobody_after() -> None:
    """All waiters of a failed commit get StoreFailed, nothing is tried again, and the next commit is fine."""

    async def test(bench: Bench) -> None:
        group = [bench.publish(b"1"), bench.publish(b"2", topic=bench.bills)]
        await settle()
        later = bench.publish(b"3")
        await settle()
        bench.log.gate.set()
        failures = await asyncio.gather(*group, return_exceptions=True)
        assert [type(failure) for failure in failures] == [AppendFailed, AppendFailed]
        assert failures[0] is not failures[1]
        await later
        assert [[bodies(s) for s in commit] for commit in bench.log.commits] == [[[b"1"], [b"2"]], [[b"3"]]]
        stats = bench.publisher.stats
        assert (stats.commits, stats.publishes, stats.events, stats.failed) == (1, 1, 1, 2)
        assert bench.wakes == 2  # dispatch looks after a failed commit too: it may be stored

    run(test, lambda: ScriptedLog([StoreFailed("disk I/O error")], held=True))


def test_a_deleted_topic_takes_only_its_own_publishes_with_it() -> None:
    """If a topic of the group was deleted meanwhile, its publishers are told, and the others are stored."""

    async def test(bench: Bench) -> None:
        gone = bench.publish(b"1")
        kept = bench.publish(b"2", topic=bench.bills)
        await bench.log.delete_topic(bench.orders.id)
        with pytest.raises(NotFound):
            await gone
        await kept
        assert await bench.log.end(bench.bills.id) == 2

    run(test, ScriptedLog)


class DamagedLog(ScriptedLog):
    """A log of whose topics the first is damaged."""

    async def append(self, segments: Any) -> list[int]:
        if any(segment.topic == 1 for segment in segments):
            raise RecordDamaged("The record of topic 1 is damaged.")
        return await super().append(segments)


def test_a_damaged_topic_takes_only_its_own_publishes_with_it() -> None:
    """Its publishers are refused, and the others of the group are stored."""

    async def test(bench: Bench) -> None:
        refused, kept = bench.publish(b"1"), bench.publish(b"2", topic=bench.bills)
        with pytest.raises(RecordDamaged):
            await refused
        await kept
        assert await bench.log.end(bench.bills.id) == 2

    run(test, DamagedLog)


def test_a_publisher_that_hangs_up_changes_nothing_for_what_is_committed() -> None:
    """A cancelled waiter's events are stored all the same, with those of the others in the group."""

    async def test(bench: Bench) -> None:
        first = bench.publish(b"1")
        await settle()
        queued, other = bench.publish(b"2"), bench.publish(b"3")
        await settle()
        first.cancel()
        queued.cancel()
        await settle()
        bench.log.gate.set()
        await other
        assert [[bodies(s) for s in commit] for commit in bench.log.commits] == [[[b"1"]], [[b"2", b"3"]]]
        assert bench.publisher.stats.publishes == 3
        await bench.publish(b"4")

    run(test, held)


def test_a_full_queue_refuses_before_anything_is_kept() -> None:
    """Beyond the limit of bytes that wait a publish is refused with Busy, and taken again when there is room."""

    async def test(bench: Bench) -> None:
        waiting = [bench.publish(b"1", size=limits.WAITING_BYTES - 1), bench.publish(b"2", size=1)]
        await settle()
        with pytest.raises(Busy) as refused:
            await bench.publish(b"3")
        assert refused.value.retry_after_s >= 1
        bench.log.gate.set()
        await asyncio.gather(*waiting)
        await bench.publish(b"4")
        assert bench.publisher.stats.refused == 1

    run(test, held)


def test_a_long_queue_refuses() -> None:
    """Beyond the limit of publishes that wait, however small, a publish is refused."""

    async def test(bench: Bench) -> None:
        waiting = [bench.publish(b"1", size=0) for _ in range(limits.WAITING_PUBLISHES)]
        await settle()
        with pytest.raises(Busy):
            await bench.publish(b"2")
        bench.log.gate.set()
        await asyncio.gather(*waiting)

    run(test, held)


def test_a_closed_gate_refuses_with_its_reason() -> None:
    """While intake is closed a publish is refused with the reason, and told to come again later."""

    async def test(bench: Bench) -> None:
        with pytest.raises(Busy, match="nearly full") as refused:
            await bench.publish(b"1")
        assert refused.value.retry_after_s > 1
        assert bench.log.commits == []

    run(test, ScriptedLog, intake_open=lambda: "The disk is nearly full.")


def test_a_group_without_room_is_refused_and_not_stored() -> None:
    """The room for a commit is asked for before it is made; without room every publish in it is refused."""
    asked: list[int] = []

    def reserve(size: int) -> str | None:
        asked.append(size)
        return "The disk is nearly full." if size > limits.MB else None

    async def test(bench: Bench) -> None:
        await bench.publish(b"1")
        large = bench.publish(b"2" * limits.MB)
        with pytest.raises(Busy, match="nearly full") as refused:
            await large
        assert refused.value.retry_after_s > 1
        assert (len(bench.log.commits), bench.publisher.stats.refused) == (1, 1)
        with pytest.raises(Busy, match="nearly full"):
            bench.publisher.check_open(2 * limits.MB)
        await bench.publish(b"3")
        assert len(bench.log.commits) == 2

    run(test, ScriptedLog, reserve=reserve)
    assert all(size > 1 for size in asked)


def test_close_finishes_what_waits_and_refuses_what_comes() -> None:
    """Closing commits the open group, answers it, and takes nothing more."""

    async def test(bench: Bench) -> None:
        running = bench.publish(b"1")
        await settle()
        queued = bench.publish(b"2")
        await settle()
        closing = asyncio.create_task(bench.publisher.close())
        await settle()
        with pytest.raises(Busy):
            await bench.publish(b"3")
        bench.log.gate.set()
        await asyncio.gather(closing, running, queued)
        assert len(bench.log.commits) == 2

    run(test, held)


def test_before_it_runs_a_publisher_refuses() -> None:
    """No publish waits on a publisher that is not running, and closing it returns at once."""

    async def test() -> None:
        publisher = Publisher(ScriptedLog(), StillClock(), lambda: None)
        with pytest.raises(Busy):
            publisher.check_open()
        await publisher.close()

    asyncio.run(test())


@pytest.mark.parametrize("stop", ["cancel", "crash"])
def test_a_loop_that_ends_leaves_nobody_waiting(stop: str) -> None:
    """If the loop is cancelled or dies in a commit, its publishers get an unknown outcome, those who wait a refusal."""

    async def test() -> None:
        log = ScriptedLog([RuntimeError("a bug")], held=True)
        topic = await log.put_topic(topic_named("orders"))
        publisher = Publisher(log, StillClock(), lambda: None)
        loop = asyncio.create_task(publisher.run())
        await asyncio.sleep(0)
        running = asyncio.create_task(publisher.publish(topic, events(b"1"), 1))
        await settle()
        queued = asyncio.create_task(publisher.publish(topic, events(b"2"), 1))
        await settle()
        if stop == "cancel":
            loop.cancel()
        log.gate.set()
        failures = await asyncio.gather(running, queued, loop, return_exceptions=True)
        assert [type(failure) for failure in failures[:2]] == [AppendFailed, Busy]
        assert isinstance(failures[2], asyncio.CancelledError if stop == "cancel" else RuntimeError)
        with pytest.raises(Busy):
            publisher.check_open()

    asyncio.run(test())


class Waiting:
    """A publisher on virtual real time whose first commit hangs until the test lets it go."""

    def __init__(self) -> None:
        self.wall = ManualClock(0)
        self.options = {"wall": self.wall, "patience": 2 * SECOND}

    async def pass_time(self, seconds: float) -> None:
        """Let real time pass, from sleeper to sleeper."""
        await settle()
        end = self.wall.now() + int(seconds * SECOND)
        while (instant := self.wall.next_instant()) is not None and instant <= end:
            self.wall.move_to(instant)
            await settle()
        self.wall.move_to(end)
        await settle()


def test_a_publish_that_waits_too_long_is_refused_and_not_stored() -> None:
    """Behind a commit that hangs, a publish gets Busy after its patience; its events are in no later commit."""
    time = Waiting()

    async def test(bench: Bench) -> None:
        hanging = bench.publish(b"0")
        await settle()
        early = bench.publish(b"1")
        await time.pass_time(1)
        late = bench.publish(b"2")
        await settle()
        await time.pass_time(0.999)
        assert not early.done()
        await time.pass_time(0.002)
        with pytest.raises(Busy, match="Nothing was stored") as refused:
            await early
        assert refused.value.retry_after_s >= 1
        assert not hanging.done() and not late.done()
        bench.log.gate.set()
        await asyncio.gather(hanging, late)
        assert [[bodies(s) for s in commit] for commit in bench.log.commits] == [[[b"0"]], [[b"2"]]]
        assert (bench.publisher.stats.refused, bench.publisher.stats.failed) == (1, 0)

    run(test, held, **time.options)


def test_whoever_is_overdue_when_the_group_is_cut_is_left_out_of_it() -> None:
    """The commit returns at the very moment at which a publish is overdue: it is judged before the queue is taken."""
    time = Waiting()

    async def test(bench: Bench) -> None:
        hanging = bench.publish(b"0")
        await settle()
        overdue = bench.publish(b"1")
        await settle()
        time.wall.move_to(2 * SECOND + 1)  # nobody has run yet
        bench.log.gate.set()
        await hanging
        with pytest.raises(Busy):
            await overdue
        await settle()
        assert len(bench.log.commits) == 1

    run(test, held, **time.options)


def test_a_publish_that_would_wait_too_long_is_refused_at_once() -> None:
    """While a commit takes longer than the patience, no publish is let into the queue; afterwards every one is."""
    time = Waiting()

    async def test(bench: Bench) -> None:
        hanging = bench.publish(b"0")
        await settle()
        await time.pass_time(3)
        with pytest.raises(Busy, match="Nothing was stored") as refused:
            await bench.publish(b"1")
        assert refused.value.retry_after_s == 3
        bench.log.gate.set()
        await hanging
        await bench.publish(b"2")
        assert [[bodies(s) for s in commit] for commit in bench.log.commits] == [[[b"0"]], [[b"2"]]]

    run(test, held, **time.options)


def test_a_publish_in_a_commit_is_never_refused() -> None:
    """However long its commit takes, it gets the result of that."""
    time = Waiting()

    async def test(bench: Bench) -> None:
        hanging = bench.publish(b"0")
        await settle()
        await time.pass_time(600)
        assert not hanging.done()
        bench.log.gate.set()
        await hanging

    run(test, held, **time.options)
