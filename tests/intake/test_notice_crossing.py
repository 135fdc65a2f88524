"""Notices between partitions: whichever partition is silent, slow or crashes, each blob is one event in the end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from recapito.clock import ManualClock
from recapito.contracts.ledger import Notice
from recapito.contracts.registry import TAKEN_KIND
from recapito.domain import limits
from recapito.domain.cluster.partition import Partition
from recapito.domain.dead_letter.blob_notice import BlobNotice, CrossedMark, encode_notice
from recapito.domain.instant import SECOND
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import Busy, StoreFailed
from recapito.intake.maintenance.crossing_notifier import CrossingNotifier
from recapito.intake.maintenance.notice_taker import NoticeTaker
from recapito.stores.memory import MemoryDisk, MemoryLedger, MemoryLog
from tests.intake.breaking import Breaking, Crash, Steps
from tests.intake.notices import ACCOUNT, NOW, NoticeStage
from tests.stores.spoil import MemorySpoiler

P = 3
WRITER = 1
Story = Callable[["Partitions"], Awaitable[None]]


class MarklessTaker(NoticeTaker):
    """A planted bug: it does not know what it has taken."""

    async def _mark(self, key: str) -> CrossedMark:
        return CrossedMark()


class HastyNotifier(CrossingNotifier):
    """A planted bug: it lets go of notices that one partition has taken."""

    async def _settle(self, taken: int) -> None:
        self._crossed = dict.fromkeys(self._crossed, max(self._crossed.values()))
        await super()._settle(taken)


class SlowLog(MemoryLog):
    """A log that appends only after the gate opens."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def append_marked(self, *arguments: Any) -> list[int]:
        self.asked.set()
        await self.gate.wait()
        return await super().append_marked(*arguments)


class Partitions:
    """Three partitions in memory; partition 1 writes dead letters, and calls the others directly.

    silent: partitions that do not answer. deaf: partitions that take a page, and whose answer is lost, once.
    """

    def __init__(
        self, taker: type[NoticeTaker] = NoticeTaker, notifier: type[CrossingNotifier] = CrossingNotifier
    ) -> None:
        self.stages = [NoticeStage(Partition(number, P)) for number in range(P)]
        self.silent: set[int] = set()
        self.deaf: set[int] = set()
        self.pages: list[tuple[int, list[int]]] = []
        self.told: list[tuple[str, dict[str, object]]] = []
        self._taker, self._notifier = taker, notifier
        self.clock = ManualClock(0)
        self.steps = Steps()  # until the partitions that take crash

    @property
    def others(self) -> Sequence[int]:
        return [number for number in range(P) if number != WRITER]

    async def cross(self, partition: int, notices: Sequence[Notice]) -> str | None:
        if partition in self.silent:
            return "it does not answer"
        self.pages.append((partition, [notice.number for notice in notices]))
        try:
            await self.taker(partition).take(WRITER, notices)
        except (Busy, StoreFailed) as error:
            return str(error)
        except Crash:
            return "it crashed"
        if partition in self.deaf:
            self.deaf.discard(partition)
            return "it does not answer"
        return None

    def taker(self, partition: int) -> NoticeTaker:
        """A process that takes notices, on a log that may break."""
        stage = self.stages[partition]
        log = Breaking(MemoryLog(stage.disk), self.steps)
        return self._taker(stage.publisher(log), log)

    def notifier(self, steps: Steps | None = None) -> CrossingNotifier:
        """The notifier of the partition that writes, as a process that has just started."""
        stage, steps = self.stages[WRITER], steps or Steps()
        log = Breaking(MemoryLog(stage.disk), steps)
        ledger = Breaking(MemoryLedger(stage.disk), steps)
        taker = self._taker(stage.publisher(log), log)
        return self._notifier(log, ledger, self.clock, self._journal, self, taker, WRITER)

    def _journal(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    async def write(self, *topics: str) -> None:
        """Have a dead letter of each of these topics written as a blob."""
        for topic in topics:
            await self.stages[WRITER].bury(name=topic)
        await self.stages[WRITER].write()

    async def publish(self, steps: Steps | None = None) -> None:
        """Have all notices published."""
        notifier = self.notifier(steps)
        while await notifier.run_once():
            continue

    async def expect(self, number: int, topic: Topic) -> None:
        """Each blob is one event of a topic of this partition."""
        subjects = [event["subject"] for event in await self.stages[number].told(topic)]
        blobs = [f"/blobServices/default/containers/dead/blobs/{path}" for _, path in self.stages[WRITER].vault.files]
        assert sorted(subjects) == sorted(blobs), (subjects, blobs)


def act(story: Story, **planted: Any) -> None:
    """Tell a story of three partitions."""
    asyncio.run(asyncio.wait_for(story(Partitions(**planted)), 20))


@pytest.mark.parametrize("home", range(P))
def test_a_blob_is_told_of_in_another_partition(home: int) -> None:
    """Wherever the account's system topic is, it has one event for each blob; the other partitions store nothing."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[home].listen()
        await them.write("one", "two")
        await them.publish()
        await them.expect(home, topic)
        sequencers = {event["data"]["sequencer"][32:] for event in await them.stages[home].told(topic)}
        assert sequencers == {f"{Partition(WRITER, P).first_id + number:016x}" for number in (1, 2)}
        for number in set(them.others) - {home}:
            assert await them.stages[number].log.documents(TAKEN_KIND, "", 9) == []
        await them.write("three")
        assert len(await them.stages[WRITER].ledger.notices(0, 9)) == 1  # what was taken is forgotten with the next

    act(story)


async def a_partition_is_silent(them: Partitions) -> None:
    """One partition does not answer for a while, and has the system topic; another one too, and answers."""
    late, soon = await them.stages[2].listen(), await them.stages[0].listen()
    await them.write("one")
    them.silent = {2}
    for _ in range(3):
        try:
            await them.publish()
        except StoreFailed as error:
            assert str(error) == "Notices wait for partition 2: it does not answer"
    await them.expect(0, soon)
    await them.write("two")
    them.silent = set()
    await them.publish()
    await them.expect(0, soon)
    await them.expect(2, late)


async def an_answer_is_lost(them: Partitions) -> None:
    """A partition takes a page, but its answer is lost; the page comes again, with more behind it."""
    topic = await them.stages[0].listen()
    await them.write("one", "two")
    them.deaf = {0}
    with pytest.raises(StoreFailed):
        await them.publish()
    await them.write("three")
    await them.publish()
    assert [page for number, page in them.pages if number == 0] == [[1, 2], [1, 2, 3]]
    await them.expect(0, topic)


@pytest.mark.parametrize("story", [a_partition_is_silent, an_answer_is_lost])
def test_a_partition_without_an_answer(story: Story) -> None:
    """Notices wait for it; nothing is lost and nothing is published twice."""
    act(story)


def test_planted_bugs_are_found() -> None:
    """Without the mark a blob is told of twice; if notices go before all have taken them, a blob is never told of."""
    with pytest.raises(AssertionError):
        act(an_answer_is_lost, taker=MarklessTaker)
    with pytest.raises(AssertionError):
        act(a_partition_is_silent, notifier=HastyNotifier)


def test_a_partition_that_is_silent_delays_no_other() -> None:
    """The others, that of the writer included, get each notice at once and once; the silent one gets all together."""

    async def story(them: Partitions) -> None:
        own = await them.stages[WRITER].listen()
        them.silent = {2}
        notifier = them.notifier()
        for topic in ("one", "two"):
            await them.write(topic)
            for _ in range(3):
                with pytest.raises(StoreFailed):
                    await notifier.run_once()
            await them.expect(WRITER, own)
        them.silent = set()
        assert await notifier.run_once() == 2
        assert await notifier.run_once() == 0
        assert them.pages == [(0, [1]), (0, [2]), (2, [1, 2])]
        await them.write("three")
        assert len(await them.stages[WRITER].ledger.notices(0, 9)) == 1

    act(story)


def test_the_loop_waits_for_a_silent_partition() -> None:
    """It tries each second, tells of it once, and publishes when the partition answers."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[2].listen()
        await them.write("one")
        them.silent = {2}
        notifier, clock = them.notifier(), them.clock
        running = asyncio.create_task(notifier.run())
        for second in range(1, 4):
            while clock.next_instant() != second * SECOND:
                await asyncio.sleep(0)
            them.silent = {2} if second < 3 else set()
            clock.move_to(second * SECOND)
        while not notifier.quiet():
            await asyncio.sleep(0)
        running.cancel()
        assert them.told == [("notice.failed", {"why": "Notices wait for partition 2: it does not answer"})]
        await them.expect(2, topic)

    act(story)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("role", ["writer", "taker"])
def test_each_blob_is_told_of_once_wherever_a_partition_crashes(role: str, done: bool) -> None:
    """Whichever call of either partition is the last before a crash, done or not, three blobs are three events."""

    async def story(them: Partitions, count: int) -> bool:
        topic, own = await them.stages[2].listen(), await them.stages[WRITER].listen("own")
        await them.write("one", "two", "three")
        crashing, crashed = Steps(count, done), False
        if role == "taker":
            them.steps = crashing
        try:
            await them.publish(crashing if role == "writer" else None)
        except (Crash, StoreFailed):
            crashed = True
        them.steps = Steps()
        await them.publish()
        await them.expect(2, topic)
        await them.expect(WRITER, own)
        return crashed

    count = 1
    while asyncio.run(story(Partitions(), count)):
        count += 1
    assert count > 4


def test_a_closed_partition_takes_nothing() -> None:
    """A partition whose intake is closed refuses notices with its reason; they wait, and are taken afterwards."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[0].listen()
        await them.write("one")
        them.stages[0].closed = "The disk is nearly full."
        with pytest.raises(StoreFailed, match="partition 0: The disk is nearly full"):
            await them.publish()
        assert await them.stages[0].told(topic) == []
        them.stages[0].closed = None
        await them.publish()
        await them.expect(0, topic)

    act(story)


def test_two_pages_at_once_are_not_taken() -> None:
    """A page that is sent again while the first is still being taken is refused, and publishes nothing twice."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[0].listen()
        await them.write("one")
        notices, log = await them.stages[WRITER].ledger.notices(0, 9), SlowLog(them.stages[0].disk)
        taker = NoticeTaker(them.stages[0].publisher(log), log)
        first = asyncio.create_task(taker.take(WRITER, notices))
        await log.asked.wait()
        with pytest.raises(Busy):
            await taker.take(WRITER, notices)
        other = asyncio.create_task(taker.take(2, notices))  # that of another partition does not wait
        log.gate.set()
        await first
        await other
        await taker.take(WRITER, notices)
        assert len(await them.stages[0].told(topic)) == 2

    act(story)


def test_numbers_that_come_again_after_a_restore_are_new() -> None:
    """A restored ledger gives numbers again that another partition has taken: later blobs are told of nevertheless."""

    def notice(number: int, at: int) -> Notice:
        path = f"{number}-{at}.json"
        return Notice(number, encode_notice(BlobNotice(ACCOUNT, "dead", path, at, 1, f"https://x/{path}", "", "", "")))

    async def story(them: Partitions) -> None:
        topic, taker = await them.stages[0].listen(), them.taker(0)
        await taker.take(WRITER, [notice(6, NOW), notice(7, NOW + 1)])
        for at in (NOW + 100, NOW + 100, NOW + 200):
            await taker.take(WRITER, [notice(6, at)])
        await taker.take(2, [notice(6, NOW)])  # another partition has numbers of its own
        assert [event["subject"].rpartition("/")[2] for event in await them.stages[0].told(topic)] == [
            f"6-{NOW}.json", f"7-{NOW + 1}.json", f"6-{NOW + 100}.json", f"6-{NOW + 200}.json", f"6-{NOW}.json",
        ]  # fmt: skip

    act(story)


def test_a_damaged_mark() -> None:
    """It counts as none: the page is published once more, with the same ids, and the mark is whole again."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[0].listen()
        await them.write("one")
        notices = await them.stages[WRITER].ledger.notices(0, 9)
        await them.taker(0).take(WRITER, notices)
        assert MemorySpoiler(them.stages[0].disk).document(TAKEN_KIND, f"from-{WRITER}")
        for _ in range(2):
            await them.taker(0).take(WRITER, notices)
        ids = [event["id"] for event in await them.stages[0].told(topic)]
        assert len(ids) == 2 and len(set(ids)) == 1

    act(story)


def test_a_damaged_notice_stays_at_home() -> None:
    """It does not cross, and the notices behind it do."""

    async def story(them: Partitions) -> None:
        topic = await them.stages[0].listen()
        await them.write("one", "two")
        assert MemorySpoiler(them.stages[WRITER].disk).notice(1)
        await them.publish()
        assert them.pages == [(0, [2]), (2, [2])]
        assert len(await them.stages[0].told(topic)) == 1

    act(story)


def test_a_page_is_bounded() -> None:
    """Notices that do not fit into one call cross in several."""

    async def story(them: Partitions) -> None:
        await them.write("one", "two", "three")
        notices = them.stages[WRITER].disk.notices
        notices |= dict.fromkeys(notices, b"x" * (limits.NOTICE_PAGE_BYTES // 2))
        await them.publish()
        assert [page for number, page in them.pages if number == 0] == [[1, 2], [3]]

    act(story)


def test_a_notice_that_begets_none() -> None:
    """Dead letters of a system topic's own subscription make no notice, though another partition might listen."""

    async def story(them: Partitions) -> None:
        await them.stages[WRITER].bury(TopicKind.SYSTEM, "storage")
        await them.stages[WRITER].write()
        assert len(them.stages[WRITER].vault.files) == 1
        assert await them.stages[WRITER].ledger.notices(0, 9) == []

    act(story)
