"""Redriving and purging: what is meant, a page at a time; crashed at every step, and each letter goes once."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.clock import ManualClock
from recapito.contracts.log import EntryKind
from recapito.contracts.registry import Document
from recapito.contracts.vault import VaultUnavailable
from recapito.domain import limits
from recapito.domain.dead_letter.record import array, path
from recapito.domain.events.segment import Segment
from recapito.domain.filters.filter import TAKE_ALL, TAKE_NONE, Filter
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.subscription import DeadLetterDirectory, FilterSince, Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import Busy, NotFound, RecordDamaged
from recapito.intake.dead_letters.redrive import Progress, Redriver
from recapito.intake.dead_letters.search import KIND, DeadLetterQuery, DeadLetterSearch, Name, parse_name
from recapito.stores.memory import MemoryDisk, MemoryLog
from recapito.vaults.memory import MemoryVault
from tests.intake.breaking import Breaking, Crash, Steps
from tests.intake.letters import letter
from tests.kit.resources import a_subscription, a_topic
from tests.stores.spoil import MemorySpoiler

NOON = 1_900_000_000 * SECOND // HOUR * HOUR
BOX = "box"
WRITES = frozenset({"append_marked", "put_document", "delete_document", "write", "delete"})


class Stage:
    """A topic, subscriptions with dead letters, and a redriver."""

    def __init__(self) -> None:
        self.disk, self.vault = MemoryDisk(), MemoryVault()
        self.log = MemoryLog(self.disk)
        self.wall = ManualClock(0)
        self.told: list[tuple[str, dict[str, object]]] = []
        self.rung = 0
        self._names = iter(range(1, 1000))

    def redriver(self, steps: Steps | None = None, check_open: Callable[[], None] = lambda: None) -> Redriver:
        """Another redriver at the same stores."""
        log, vault = (
            Breaking(MemoryLog(self.disk), steps or Steps(), WRITES),
            Breaking(self.vault, steps or Steps(), WRITES),
        )
        name = f"redrive-{next(self._names)}"
        return Redriver(
            log,
            DeadLetterSearch(log, vault),
            ManualClock(NOON),
            self.wall,
            check_open,
            self._ring,
            lambda: name,
            self._tell,
        )

    def _ring(self) -> None:
        self.rung += 1

    def _tell(self, event: str, **fields: object) -> None:
        self.told.append((event, fields))

    async def topic(self, name: str = "orders") -> Topic:
        return await self.log.put_topic(a_topic(name=name))

    async def subscribe(self, topic: Topic, name: str = "sub", filter: Filter = TAKE_ALL) -> Subscription:
        return await self.log.put_subscription(
            a_subscription(topic=topic.id, name=name, filter=filter, dead_letter=DeadLetterDirectory(BOX))
        )

    def bury(self, topic: Topic, name: str, guid: str, *events: dict[str, Any], at: int = NOON) -> str:
        """A file of dead letters."""
        where = path(name, at, guid)
        self.vault.files[BOX, where] = array([letter(topic, event) for event in events])
        return where

    async def redriven(self, topic: Topic) -> list[tuple[int, str, str]]:
        """The redriven events of a topic: for whom, from which file, and their ids."""
        entries = await self.log.read(topic.id, 1, 1 << 30)
        segments = [Segment(one.columns, one.body) for one in entries if one.kind is EntryKind.SEGMENT]
        return [(it.only, it.origin, json.loads(it.event(i))["id"]) for it in segments for i in range(len(it))]


def ids(*names: str) -> list[dict[str, Any]]:
    """Events of these ids."""
    return [{"id": name} for name in names]


async def redrive_all(redriver: Redriver, limit: int = 100) -> list[Progress]:
    """Redrive page by page."""
    pages = [await redriver.redrive(DeadLetterQuery(), None, limit)]
    while pages[-1].next is not None:
        pages.append(await redriver.redrive(DeadLetterQuery(), parse_name(pages[-1].next), limit))
    return pages


def test_redriven_for_their_subscription_alone() -> None:
    """Each letter becomes an event of the topic's log that only its subscription takes, with a trace to its file."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        sub = await stage.subscribe(topic)
        await stage.subscribe(topic, "other")
        first, second = stage.bury(topic, "sub", "a", *ids("1", "2")), stage.bury(topic, "sub", "b", *ids("3"))
        before = dict(stage.vault.files)
        (page,) = await redrive_all(stage.redriver())
        assert page == Progress(selected=3, done=3)
        wanted = [(sub.id, f"box:{first}", "1"), (sub.id, f"box:{first}", "2"), (sub.id, f"box:{second}", "3")]
        assert await stage.redriven(topic) == wanted
        assert stage.vault.files == before and stage.rung == 1
        assert [event for event, _ in stage.told] == ["deadletter.redriven"] * 2
        assert stage.told[0][1] == {
            "redrive": "redrive-1",
            "topic": "orders",
            "subscription": "sub",
            "path": first,
            "events": 2,
            "positions": [4],
        }
        assert await redrive_all(stage.redriver()) == [Progress()]  # what was redriven is not redriven again
        file = await stage.redriver().letters.find(Name(sub.id, first, 1))
        assert file.redriven[1].redrive == "redrive-1" and file.redriven[1].at == NOON

    asyncio.run(main())


class CountingVault(MemoryVault):
    """Says how often it was read from, and how often at once; and what was asked of it to find files."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.at_once = self.most = 0
        self.asked: list[str] = []

    async def folders(self, container: str) -> frozenset[str]:
        self.asked.append(container)
        return await super().folders(container)

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        self.asked.append(prefix)
        return await super().paths(container, prefix, after, limit)

    async def read(self, container: str, path: str) -> bytes | None:
        self.reads += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return await super().read(container, path)


def test_subscriptions_without_letters_are_not_asked_for() -> None:
    """Of many subscriptions that share a container only those are listed that have a folder there."""

    async def main() -> None:
        stage = Stage()
        stage.vault = vault = CountingVault()
        topic = await stage.topic()
        for n in range(20):
            await stage.subscribe(topic, f"sub-{n}")
        stage.bury(topic, "sub-7", "a", *ids("1"))
        async with aclosing(stage.redriver().letters.walk(DeadLetterQuery())) as files:
            assert [file.origin.subscription.name async for file, _ in files] == ["sub-7"]
        (container, *listed) = vault.asked
        assert "/" not in container and set(listed) == {"SUB-7/"}

    asyncio.run(main())


def test_files_are_read_ahead_by_who_needs_many() -> None:
    """A redrive that one file satisfies reads that one; one that needs many has a few read side by side."""

    async def main() -> None:
        stage = Stage()
        stage.vault = vault = CountingVault()
        topic = await stage.topic()
        await stage.subscribe(topic)
        for n in range(50):
            stage.bury(topic, "sub", f"{n:02d}", *ids(f"{n}-a", f"{n}-b"))
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 2)).done == 2
        assert (vault.reads, vault.most) == (1, 1)
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 1000)).done == 98
        assert (vault.reads, vault.most) == (51, limits.LETTER_READS)
        found = [id for *_, id in await stage.redriven(topic)]
        assert found == [f"{n}-{part}" for n in range(50) for part in "ab"]

    asyncio.run(main())


class CountingLog(MemoryLog):
    """Counts the pages of documents, and of subscriptions, that were read from it."""

    pages = subscription_pages = 0

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        self.subscription_pages += 1
        return await super().subscriptions(topic, after, limit)

    async def documents(self, kind: str, after: str, limit: int) -> list[Document]:
        self.pages += 1
        return await super().documents(kind, after, limit)


def test_marks_are_read_once() -> None:
    """A walk reads the marks of each page of files, and not again those of the pages before."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        for n in range(limits.LETTER_FILES + 10):
            stage.bury(topic, "sub", f"{n:03d}", *ids(str(n)))
        await stage.redriver().redrive(DeadLetterQuery(), None, 1000)
        log = CountingLog(stage.disk)
        async with aclosing(DeadLetterSearch(log, stage.vault).walk(DeadLetterQuery())) as files:
            assert [len(file.redriven) async for file, _ in files] == [1] * (limits.LETTER_FILES + 10)
        assert log.pages == 2

    asyncio.run(main())


def test_subscriptions_are_read_again_only_after_a_change() -> None:
    """Of many subscriptions a further walk reads those that have letters, and after a change it sees the change."""

    async def main() -> None:
        stage = Stage()
        log = CountingLog(stage.disk)
        search = DeadLetterSearch(log, stage.vault)
        topic = await stage.topic()
        for name in ("sub", "empty"):
            await stage.subscribe(topic, name)
        stage.bury(topic, "sub", "a", *ids("1"))

        async def walked() -> list[str]:
            async with aclosing(search.walk(DeadLetterQuery())) as files:
                return [file.origin.subscription.name async for file, _ in files]

        assert await walked() == await walked() == ["sub"]
        read = log.subscription_pages
        assert await walked() == ["sub"] and log.subscription_pages == read
        sub = await log.subscription(topic.id, "sub")
        assert sub is not None
        await log.put_subscription(replace(sub, id=0, name="zub"))
        stage.bury(topic, "zub", "b", *ids("2"))
        assert await walked() == ["sub", "zub"]
        await log.delete_subscription(sub.id)
        assert await walked() == ["zub"]

    asyncio.run(main())


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_page_by_page(limit: int) -> None:
    """However small the pages, every letter goes once, also when a caller begins again in the middle."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        for name in ("sub", "zub"):
            await stage.subscribe(topic, name)
            for guid in "ab":
                stage.bury(topic, name, guid, *ids(*(f"{name}-{guid}-{n}" for n in range(3))))
        await stage.redriver().redrive(DeadLetterQuery(), None, limit)
        pages = await redrive_all(stage.redriver(), limit=limit)
        assert sum(page.done for page in pages) == 12 - limit
        assert all(page.selected <= limit for page in pages)
        assert Counter(id for *_, id in await stage.redriven(topic)).most_common(1)[0][1] == 1
        assert len(await stage.redriven(topic)) == 12

    asyncio.run(main())


@pytest.mark.parametrize("done", [False, True])
def test_a_crash_at_every_step_of_a_redrive(done: bool) -> None:
    """Whichever write the process dies at, before or after it: the next one redrives the rest, each letter once."""

    async def main() -> None:
        steps = 0
        while True:
            steps += 1
            stage = Stage()
            topic = await stage.topic()
            await stage.subscribe(topic)
            for guid in "abc":
                stage.bury(topic, "sub", guid, *ids(f"{guid}1", f"{guid}2"))
            before = dict(stage.vault.files)
            try:
                await redrive_all(stage.redriver(Steps(steps, done)), limit=3)
            except Crash:
                await redrive_all(stage.redriver(), limit=3)
                assert sorted(id for *_, id in await stage.redriven(topic)) == ["a1", "a2", "b1", "b2", "c1", "c2"]
                assert stage.vault.files == before
            else:
                break
        assert steps == 3  # one commit a page

    asyncio.run(main())


@pytest.mark.parametrize("done", [False, True])
def test_a_crash_at_every_step_of_a_purge(done: bool) -> None:
    """Whichever write the process dies at: nothing that was redriven can be redriven again, and the rest is purged."""

    async def main() -> None:
        for steps in range(1, 6):
            stage = Stage()
            topic = await stage.topic()
            await stage.subscribe(topic)
            for guid in "ab":
                stage.bury(topic, "sub", guid, *ids(f"{guid}1"))
            await redrive_all(stage.redriver())
            try:
                await stage.redriver(Steps(steps, done)).purge(DeadLetterQuery(redriven=True), None, 100)
            except Crash:
                assert steps < 5
                assert await redrive_all(stage.redriver()) == [Progress()]
                await stage.redriver().purge(DeadLetterQuery(redriven=True), None, 100)
            assert stage.vault.files == {}
            assert len(await stage.redriven(topic)) == 2

    asyncio.run(main())


def test_two_at_once() -> None:
    """Two redrives of the same letters, side by side, redrive each once."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        for n in range(20):
            stage.bury(topic, "sub", f"{n:02}", *ids(str(n)))
        one = stage.redriver()
        pages = await asyncio.gather(*(one.redrive(DeadLetterQuery(), None, 100) for _ in range(3)))
        assert sum(page.done for page in pages) == 20
        assert len(await stage.redriven(topic)) == 20

    asyncio.run(main())


EVENTS = [
    {"id": "1", "eventType": "Made", "subject": "orders/1", "deadLetterReason": "TimeToLiveExceeded"},
    {"id": "2", "eventType": "Sold", "subject": "orders/2"},
    {"id": "3", "eventType": "Sold", "subject": "returns/1"},
]
SELECTIONS = [
    (DeadLetterQuery(), "123456"),
    (DeadLetterQuery(subscription="SUB"), "123"),
    (DeadLetterQuery(topic="Orders"), "123456"),
    (DeadLetterQuery(topic="other"), ""),
    (DeadLetterQuery(reason="timetoliveexceeded"), "1"),
    (DeadLetterQuery(event_type="sold"), "23"),
    (DeadLetterQuery(subject="orders/"), "12456"),
    (DeadLetterQuery(event_type="Sold", subject="orders/"), "2"),
    (DeadLetterQuery(since=NOON + 2 * HOUR), "456"),
    (DeadLetterQuery(since=NOON + HOUR // 2), "123456"),
    (DeadLetterQuery(until=NOON), ""),
    (DeadLetterQuery(until=NOON + 1), "123"),
    (DeadLetterQuery(since=NOON + HOUR, until=NOON + 2 * HOUR), ""),
]


@pytest.mark.parametrize(("selection", "wanted"), SELECTIONS)
def test_what_is_meant(selection: DeadLetterQuery, wanted: str) -> None:
    """By topic, subscription, reason, type, subject and hour; a dry run counts the same and changes nothing."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        await stage.subscribe(topic, "zub")
        stage.bury(topic, "sub", "a", *EVENTS)
        stage.bury(topic, "zub", "b", *ids("4", "5", "6"), at=NOON + 2 * HOUR)
        stage.vault.files[BOX, "SUB/notes.txt"] = b"not ours"
        tried = await stage.redriver().redrive(selection, None, 100, dry_run=True)
        assert (tried, await stage.redriven(topic)) == (Progress(selected=len(wanted)), [])
        await stage.redriver().redrive(selection, None, 100)
        assert [id for *_, id in await stage.redriven(topic)] == list(wanted)

    asyncio.run(main())


@pytest.mark.parametrize("verb", ["redrive", "purge"])
def test_one_request_reads_so_many_files(verb: str) -> None:
    """However few letters are meant, a request ends after a number of files, and says where to go on."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        files = limits.LETTER_FILES_READ + 50
        for n in range(files):
            stage.bury(
                topic, "sub", f"{n:04}", *ids(str(n)) if n < files - 1 else [{"id": "last", "eventType": "Rare"}]
            )
        selection, after, found, calls = DeadLetterQuery(event_type="rare"), None, 0, 0
        while calls == 0 or after is not None:
            page: Progress = await getattr(stage.redriver(), verb)(selection, after, 100)
            after, found, calls = None if page.next is None else parse_name(page.next), found + page.done, calls + 1
        assert (found, calls) == (1, 2)

    asyncio.run(main())


def test_a_commit_redrives_as_much_as_fits_into_a_segment() -> None:
    """Large letters go in several commits, and none is left out."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        for n in range(7):
            stage.bury(topic, "sub", f"{n}", {"id": f"{n}", "data": "x" * (limits.SEGMENT_BYTES // 3)})
        pages = await redrive_all(stage.redriver())
        assert [page.done for page in pages] == [3, 3, 1]
        assert sorted(id for *_, id in await stage.redriven(topic)) == [f"{n}" for n in range(7)]

    asyncio.run(main())


def test_names_that_are_shared() -> None:
    """Two topics' subscriptions of one name in one container: each gets the letters that name its own topic."""

    async def main() -> None:
        stage = Stage()
        topics = [await stage.topic(name) for name in ("orders", "orders-2")]
        for topic in topics:
            await stage.subscribe(topic)
        stage.bury(topics[0], "sub", "a", *ids("1"))
        stage.bury(topics[1], "sub", "b", *ids("2"))
        cloud = {"specversion": "1.0", "id": "3", "source": "/me", "type": "Made", "deadletterreason": "x"}
        stage.vault.files[BOX, path("sub", NOON, "c")] = json.dumps([cloud]).encode()
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 100)).done == 2
        assert [[id for *_, id in await stage.redriven(topic)] for topic in topics] == [["1"], ["2"]]

    asyncio.run(main())


def test_a_pace() -> None:
    """At 10 a second a call redrives what five seconds allow, and ends when they have passed."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        stage.bury(topic, "sub", "a", *ids(*map(str, range(75))))
        task = asyncio.create_task(stage.redriver().redrive(DeadLetterQuery(), None, 1000, rate=10))
        while stage.wall.next_instant() is None:
            await asyncio.sleep(0)
        assert stage.wall.next_instant() == 5 * SECOND and len(await stage.redriven(topic)) == 50
        stage.wall.move_to(5 * SECOND)
        page = await task
        assert page.done == 50 and page.next is not None

    asyncio.run(main())


def test_what_can_not_be_redriven() -> None:
    """Files that hold no letters, letters without an event, and subscriptions without consent are said, and stay."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        sub = await stage.subscribe(topic)
        stage.vault.files[BOX, path("sub", NOON, "a")] = b"not JSON"
        stage.vault.files[BOX, path("sub", NOON, "b")] = b'[{"id":"1"}]'
        stage.bury(topic, "sub", "c", *ids("2"))
        page = await stage.redriver().redrive(DeadLetterQuery(), None, 100)
        assert (page.done, page.refused) == (1, 2)
        assert "does not contain dead letters" in page.problems[0] and "whole event" in page.problems[1]
        await stage.log.put_subscription(replace(sub, filters=(FilterSince(0, TAKE_NONE),)))
        stage.bury(topic, "sub", "d", *ids("3"))
        page = await stage.redriver().redrive(DeadLetterQuery(), None, 100)
        assert (page.done, page.refused) == (0, 3) and "consent" in page.problems[-1]
        assert [id for *_, id in await stage.redriven(topic)] == ["2"]

    asyncio.run(main())


def test_a_topic_that_goes_at_the_last_moment() -> None:
    """Its letters stay and are told of; those of other topics are redriven all the same."""

    async def main() -> None:
        stage = Stage()
        topics = [await stage.topic(name) for name in ("orders", "returns")]
        for topic, name in zip(topics, ("sub", "zub"), strict=True):
            await stage.subscribe(topic, name)
            stage.bury(topic, name, "a", *ids(name))

        def delete() -> None:
            stage.disk.topics[topics[0].id].deleted = True

        page = await stage.redriver(check_open=delete).redrive(DeadLetterQuery(), None, 100)
        assert (page.done, page.refused) == (1, 1) and "the topic was deleted" in page.problems[0]
        assert [id for *_, id in await stage.redriven(topics[1])] == ["zub"]
        assert len(stage.disk.documents) == 1

    asyncio.run(main())


def test_letters_of_who_is_gone() -> None:
    """They are not lost: a subscription of the same name that keeps its letters there finds and gets them."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        gone = await stage.subscribe(topic)
        stage.bury(topic, "sub", "a", *ids("1"))
        await stage.log.delete_subscription(gone.id)
        assert await redrive_all(stage.redriver()) == [Progress()] and len(stage.vault.files) == 1
        back = await stage.subscribe(topic)
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 100)).done == 1
        assert [only for only, _, _ in await stage.redriven(topic)] == [back.id]

    asyncio.run(main())


def test_a_domain() -> None:
    """Events of a domain keep the topic that they name, in the log too."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.log.put_topic(replace(await stage.topic(), id=0, version=0, kind=TopicKind.DOMAIN))
        await stage.subscribe(topic)
        stage.bury(topic, "sub", "a", {"id": "1", "topic": f"{topic.resource_id}/topics/north"})
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 100)).done == 1
        entries = await stage.log.read(topic.id, 3, 1 << 20)
        segment = Segment(entries[0].columns, entries[0].body)
        assert (segment.domain_topics, segment.domain_topic_of) == (["north"], [0])

    asyncio.run(main())


def test_a_file_whose_mark_is_damaged_is_not_redriven() -> None:
    """The letters redriven from it are unknown: it is refused, page by page too, and the files around it are not."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        paths = [stage.bury(topic, "sub", name, *ids(name + "1", name + "2")) for name in ("a", "b", "c")]
        await redrive_all(stage.redriver())
        for where in (paths[0], paths[2]):
            await stage.log.delete_document(KIND, f"{BOX}:{where}")
        assert MemorySpoiler(stage.disk).document(KIND, f"{BOX}:{paths[1]}")
        before = Counter(id for *_, id in await stage.redriven(topic))
        pages = await redrive_all(stage.redriver(), limit=1)
        again = Counter(id for *_, id in await stage.redriven(topic)) - before
        assert again == Counter(["a1", "a2", "c1", "c2"])
        assert sum(page.refused for page in pages) >= 1
        assert any("redriven from it is damaged" in said for page in pages for said in page.problems)

    asyncio.run(main())


def test_a_damaged_topic_is_in_nobody_s_way() -> None:
    """The letters of other topics are redriven; a request that names the damaged one is refused as damaged."""

    async def main() -> None:
        stage = Stage()
        sick, well = await stage.topic("sick"), await stage.topic("well")
        for topic in (sick, well):
            await stage.subscribe(topic, topic.name)
            stage.bury(topic, topic.name, "a", *ids(topic.name))
        MemorySpoiler(stage.disk).topic(sick.id)
        assert await redrive_all(stage.redriver()) == [Progress(selected=1, done=1)]
        assert [id for *_, id in await stage.redriven(well)] == ["well"]
        with pytest.raises(RecordDamaged):
            await stage.redriver().redrive(DeadLetterQuery(topic="sick"), None, 9)

    asyncio.run(main())


def test_a_server_that_takes_nothing() -> None:
    """Where publishes are refused, because the disk is full say, nothing is redriven; nor where the vault is down."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        await stage.subscribe(topic)
        stage.bury(topic, "sub", "a", *ids("1"))

        def closed() -> None:
            raise Busy("The disk is full.")

        with pytest.raises(Busy):
            await stage.redriver(check_open=closed).redrive(DeadLetterQuery(), None, 100)
        stage.vault.down = True
        with pytest.raises(Busy):
            await stage.redriver().redrive(DeadLetterQuery(), None, 100)
        with pytest.raises(Busy):
            await stage.redriver().purge(DeadLetterQuery(), None, 100)
        stage.vault.down = False
        stage.vault.missing.add(BOX)
        assert await redrive_all(stage.redriver()) == [Progress()]
        stage.vault.missing.clear()
        assert (await stage.redriver().redrive(DeadLetterQuery(), None, 100)).done == 1

    asyncio.run(main())


def test_purging() -> None:
    """A file goes when all of its letters are meant, with its mark; one of which only some are meant stays whole."""

    async def main() -> None:
        stage = Stage()
        topic = await stage.topic()
        sub = await stage.subscribe(topic)
        mixed, whole = stage.bury(topic, "sub", "a", *EVENTS), stage.bury(topic, "sub", "b", EVENTS[1])
        meant = DeadLetterQuery(event_type="Sold")
        assert await stage.redriver().purge(meant, None, 100, dry_run=True) == Progress(selected=3, kept=1)
        assert len(stage.vault.files) == 2
        await redrive_all(stage.redriver())
        assert await stage.redriver().purge(meant, None, 100) == Progress(selected=3, done=1, kept=1)
        assert list(stage.vault.files) == [(BOX, mixed)]
        assert await stage.log.documents("redriven", "", 10) != [] and whole not in str(stage.disk.documents)
        with pytest.raises(NotFound):
            await stage.redriver().letters.find(Name(sub.id, whole, 0))
        page = await stage.redriver().purge(DeadLetterQuery(), None, 1)
        assert (page.done, stage.vault.files, stage.disk.documents) == (3, {}, {})

    asyncio.run(main())


def test_files_without_letters_are_not_purged() -> None:
    """A file that cannot be read may have letters that a person can save, so it is named and stays."""

    async def main() -> None:
        stage = Stage()
        await stage.subscribe(await stage.topic())
        stage.vault.files[BOX, path("sub", NOON, "a")] = b"not JSON"
        stage.vault.files[BOX, path("sub", NOON, "b")] = array([])
        page = await stage.redriver().purge(DeadLetterQuery(), None, 100)
        assert (page.selected, page.done, page.kept, page.refused) == (0, 0, 0, 1)
        assert len(stage.vault.files) == 2 and stage.told == []

    asyncio.run(main())


@pytest.mark.parametrize("text", ["", "1", "x/A/2030/1/2/3/a.json/0", "1/A/2030/1/2/3/a.json/x", "1/a.json/0", "1//0"])
def test_other_names(text: str) -> None:
    """A text that is not the name of a letter names none."""
    with pytest.raises(NotFound):
        parse_name(text)


class UnreadableVault(MemoryVault):
    """Lists its files, and cannot read them."""

    async def read(self, container: str, path: str) -> bytes | None:
        raise VaultUnavailable("simulated: no answer")


def test_a_vault_that_cannot_be_read_is_no_error_of_ours() -> None:
    """The caller comes again later; nothing is taken for redriven."""

    async def main() -> None:
        stage = Stage()
        stage.vault = UnreadableVault()
        topic = await stage.topic()
        await stage.subscribe(topic)
        stage.bury(topic, "sub", "a", *ids("1"))
        with pytest.raises(Busy, match="no answer"):
            await redrive_all(stage.redriver())
        assert await stage.redriven(topic) == []

    asyncio.run(main())
