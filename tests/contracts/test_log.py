"""The contract of the Log."""

import asyncio
from typing import Any

import pytest

from recapito.contracts.log import Entry, EntryKind, SearchPage
from recapito.contracts.registry import Document
from recapito.domain import limits
from tests.stores.values import new_subscription, new_topic, segment

LARGE = 1 << 20


def test_positions_are_dense_and_start_after_the_create_mark(log: Any, run: Any) -> None:
    """Each append of a topic takes the next position, several in one commit too."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    assert run(log.append([segment(a), segment(b), segment(a)])) == [2, 2, 3]
    assert run(log.append([segment(a)])) == [4]
    assert (run(log.end(a)), run(log.end(b))) == (4, 2)


def test_nothing_to_append_is_nothing_done(log: Any, run: Any) -> None:
    """An empty append succeeds and moves no mark."""
    run(log.put_topic(new_topic()))
    mark = run(log.news(0)).mark
    assert run(log.append([])) == []
    assert run(log.news(0)).mark == mark


def test_what_was_appended_is_read_back(log: Any, run: Any) -> None:
    """Entries come back byte by byte, change marks without content."""
    topic = run(log.put_topic(new_topic())).id
    body = bytes(range(256)) * 40
    run(log.append([segment(topic, body, b"\x00\xff"), segment(topic, b"", b"")]))
    assert run(log.read(topic, 1, LARGE)) == [
        Entry(1, EntryKind.CHANGE, b"", b""),
        Entry(2, EntryKind.SEGMENT, b"\x00\xff", body, 1),
        Entry(3, EntryKind.SEGMENT, b"", b"", 1),
    ]


def test_searching_goes_back_in_slices(log: Any, run: Any) -> None:
    """Segments whose columns hold some bytes are found, newest first, among N entries; then the place to go on."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, columns=b"-%d-\0" % (n % 3)) for n in range(9)]))  # at positions 2 to 10
    assert run(log.search(topic, b"-1-\0", LARGE, 100)) == SearchPage([9, 6, 3], None)
    assert run(log.search(topic, b"-1-", LARGE, 5)) == SearchPage([9, 6], 6)
    assert run(log.search(topic, b"-1-", 6, 5)) == SearchPage([3], 1)
    assert run(log.search(topic, b"-1-", 1, 5)) == SearchPage([], None)
    assert run(log.search(topic, b"body", LARGE, 100)) == SearchPage([], None)
    assert run(log.search(999, b"-1-", LARGE, 5)) == SearchPage([], None)


def test_the_size_of_entries(log: Any, run: Any) -> None:
    """The bytes of entries are counted between two positions, and trimmed ones count for nothing."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, b"x" * 10 * n, b"yy") for n in (1, 2, 3)]))
    assert run(log.size(topic, 1, 5)) == 66
    assert run(log.size(topic, 3, 4)) == 22
    run(log.trim(topic, 3))
    assert run(log.size(topic, 1, 2)) == 0
    run(log.trim(topic, 4))
    assert run(log.size(topic, 0, LARGE)) == 32
    assert run(log.size(999, 0, LARGE)) == 0


def test_the_events_of_entries(log: Any, run: Any) -> None:
    """Events are counted between two positions; a mark has none."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, b"a")._replace(events=n) for n in (1, 20, 300)]))
    assert run(log.events(topic, 1, 5)) == 321
    assert run(log.events(topic, 3, 4)) == 20
    assert run(log.events(topic, 5, LARGE)) == run(log.events(999, 0, LARGE)) == 0


def test_many_topics_in_one_commit(log: Any, run: Any) -> None:
    """More segments than fit in one statement are still one commit."""
    topic = run(log.put_topic(new_topic())).id
    mark = run(log.news(0)).mark
    assert run(log.append([segment(topic, b"%d" % n) for n in range(2500)])) == list(range(2, 2502))
    assert [entry.body for entry in run(log.read(topic, 2499, LARGE))] == [b"2497", b"2498", b"2499"]
    assert run(log.news(mark)).mark == mark + 1


def test_a_topic_that_is_gone_takes_no_events(log: Any, run: Any) -> None:
    """Appending to a deleted or unknown topic is a KeyError, and the rest of the commit does not happen either."""
    kept, deleted = (run(log.put_topic(new_topic(name))).id for name in ("kept", "deleted"))
    run(log.put_subscription(new_subscription(deleted)))
    run(log.delete_topic(deleted))
    for gone in (deleted, 999):
        with pytest.raises(KeyError):
            run(log.append([segment(kept), segment(gone)]))
    assert run(log.end(kept)) == 1


def test_segments_and_a_mark_are_one_commit(log: Any, run: Any) -> None:
    """A mark is there with what it speaks of, replaces the one before, and is not there if nothing was appended."""
    topic = run(log.put_topic(new_topic())).id
    before = run(log.news(0)).mark
    assert run(log.append_marked([segment(topic, b"a"), segment(topic, b"b")], "kind", [Document("key", b"1")])) == [
        2,
        3,
    ]
    assert run(log.news(before)).mark == before + 1
    assert run(log.document("kind", "key")) == b"1"
    assert run(log.append_marked([segment(topic, b"c")], "kind", [Document("key", b"2")])) == [4]
    with pytest.raises(KeyError):
        run(log.append_marked([segment(topic), segment(999)], "kind", [Document("key", b"3")]))
    assert run(log.document("kind", "key")) == b"2"
    assert [entry.body for entry in run(log.read(topic, 2, LARGE))] == [b"a", b"b", b"c"]


def test_a_mark_alone(log: Any, run: Any) -> None:
    """Where there was nothing to append, the mark says so all the same."""
    assert run(log.append_marked([], "kind", [Document("key", b"1")])) == []
    assert run(log.document("kind", "key")) == b"1"


def test_reading_stops_where_the_limit_is(log: Any, run: Any) -> None:
    """Entries come while they fit, at least one however large, and the next read goes on behind them."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, b"x" * size, b"") for size in (10, 20, 30, 40)]))
    assert [entry.position for entry in run(log.read(topic, 2, 60))] == [2, 3, 4]
    assert [entry.position for entry in run(log.read(topic, 2, 59))] == [2, 3]
    assert [entry.position for entry in run(log.read(topic, 4, 1))] == [4]
    assert [entry.position for entry in run(log.read(topic, 4, 0))] == [4]


def test_reading_at_the_end(log: Any, run: Any) -> None:
    """The next position has nothing yet; one beyond it, or below the first, is an error."""
    topic = run(log.put_topic(new_topic())).id
    assert run(log.read(topic, 2, LARGE)) == []
    for position in (-1, 0, 3, 1000):
        with pytest.raises(LookupError):
            run(log.read(topic, position, LARGE))


def test_reading_an_unknown_topic(log: Any, run: Any) -> None:
    """There is no log of a topic that never was: an error, and an end of 0."""
    with pytest.raises(LookupError):
        run(log.read(7, 1, LARGE))
    assert run(log.end(7)) == 0
    assert run(log.trim(7, 10)) == 0


def test_trimmed_positions_are_gone_for_ever(log: Any, run: Any) -> None:
    """A trimmed position is a LookupError; the other entries, and the numbering, stay."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic, b"%d" % n) for n in range(4)]))
    assert run(log.trim(topic, 3)) == 2
    assert run(log.trim(topic, 3)) == 0
    for position in (1, 2):
        with pytest.raises(LookupError):
            run(log.read(topic, position, LARGE))
    assert [entry.position for entry in run(log.read(topic, 3, LARGE))] == [3, 4, 5]
    assert run(log.trim(topic, 100)) == 3
    assert run(log.read(topic, 6, LARGE)) == []
    with pytest.raises(LookupError):
        run(log.read(topic, 5, LARGE))
    assert run(log.end(topic)) == 5
    assert run(log.append([segment(topic)])) == [6]


def test_positions_are_not_used_again_after_a_restart(stores: Any, run: Any) -> None:
    """An emptied log goes on counting, after a restart too."""
    topic = run(stores.log.put_topic(new_topic())).id
    run(stores.log.append([segment(topic)]))
    run(stores.log.trim(topic, 100))
    run(stores.reopen())
    assert run(stores.log.append([segment(topic)])) == [3]


def test_trim_goes_in_slices(log: Any, run: Any) -> None:
    """One call removes at most a slice, from the oldest on, so that others come in between."""
    topic = run(log.put_topic(new_topic())).id
    run(log.append([segment(topic) for _ in range(limits.TRIM_SLICE + 5)]))
    assert run(log.trim(topic, 1000)) == limits.TRIM_SLICE
    assert run(log.read(topic, limits.TRIM_SLICE + 1, 1))[0].position == limits.TRIM_SLICE + 1
    assert run(log.trim(topic, 1000)) == 6


def test_trim_touches_one_topic(log: Any, run: Any) -> None:
    """Other topics keep their entries."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    run(log.append([segment(a), segment(b)]))
    run(log.trim(a, 100))
    assert [entry.position for entry in run(log.read(b, 1, LARGE))] == [1, 2]


def test_news_tells_what_grew(log: Any, run: Any) -> None:
    """After a mark come the ends of the topics that grew, once, and a mark for the next call."""
    a, b = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    first = run(log.news(0))
    assert (first.ends, first.topics, first.subscriptions) == ({a: 1, b: 1}, {a, b}, frozenset())
    assert run(log.news(first.mark)) == (first.mark, {}, frozenset(), frozenset())
    run(log.append([segment(a)]))
    run(log.append([segment(a)]))
    second = run(log.news(first.mark))
    assert (second.ends, second.topics, second.subscriptions) == ({a: 3}, frozenset(), frozenset())
    assert second.mark > first.mark


def test_news_tells_what_changed(log: Any, run: Any) -> None:
    """Puts, deletes and forgets are told by id, whether or not the resource is still there."""
    topic = run(log.put_topic(new_topic()))
    one = run(log.put_subscription(new_subscription(topic.id, "one")))
    two = run(log.put_subscription(new_subscription(topic.id, "two")))

    def changed_by(*steps: Any) -> tuple[set[int], set[int], dict[int, int]]:
        mark = run(log.news(0)).mark
        for step in steps:
            run(step)
        news = run(log.news(mark))
        return set(news.topics), set(news.subscriptions), news.ends

    assert changed_by(log.put_topic(topic)) == ({topic.id}, set(), {topic.id: 4})
    assert changed_by(log.put_subscription(one)) == (set(), {one.id}, {topic.id: 5})
    assert changed_by(log.delete_subscription(one.id)) == (set(), {one.id}, {topic.id: 6})
    assert changed_by(log.forget(one.id)) == (set(), {one.id}, {topic.id: 7})
    assert changed_by(log.delete_topic(topic.id)) == ({topic.id}, {two.id}, {topic.id: 8})
    assert changed_by(log.forget(two.id)) == (set(), {two.id}, {})


def test_news_does_not_depend_on_what_was_trimmed(log: Any, run: Any) -> None:
    """A reader that sleeps through a trim is still told of every end and change."""
    topic = run(log.put_topic(new_topic())).id
    mark = run(log.news(0)).mark
    subscription = run(log.put_subscription(new_subscription(topic))).id
    run(log.append([segment(topic)]))
    run(log.trim(topic, 100))
    news = run(log.news(mark))
    assert (news.ends, news.subscriptions) == ({topic: 3}, {subscription})
    assert run(log.news(0)).ends == {topic: 3}


def test_news_from_the_beginning_names_everything_that_is_there(log: Any, run: Any) -> None:
    """Mark 0 gives all topics and subscriptions, deleted ones included, forgotten ones not."""
    topic, doomed = (run(log.put_topic(new_topic(name))).id for name in ("aaa", "bbb"))
    forgotten, deleted = (run(log.put_subscription(new_subscription(topic, name))).id for name in ("one", "two"))
    last = run(log.put_subscription(new_subscription(doomed))).id
    run(log.delete_subscription(forgotten))
    run(log.forget(forgotten))
    run(log.delete_subscription(deleted))
    run(log.delete_topic(doomed))
    news = run(log.news(0))
    assert (news.topics, news.subscriptions) == ({topic, doomed}, {deleted, last})
    assert news.ends.keys() == {topic, doomed}


def test_a_mark_of_the_future_is_refused(log: Any, run: Any) -> None:
    """A mark that this log never gave is an error, not silence."""
    with pytest.raises(LookupError):
        run(log.news(5))


def test_marks_only_grow(stores: Any, run: Any) -> None:
    """Marks are not given twice, though everything is deleted and the store restarted."""
    topic = run(stores.log.put_topic(new_topic())).id
    run(stores.log.append([segment(topic)]))
    mark = run(stores.log.news(0)).mark
    run(stores.log.delete_topic(topic))
    run(stores.reopen())
    assert run(stores.log.news(0)).mark > mark
    other = run(stores.log.put_topic(new_topic())).id
    assert run(stores.log.news(mark)).ends == {other: 1}


def test_the_log_outlives_a_restart(stores: Any, run: Any) -> None:
    """Appended entries, the log's id and its marks are there after a restart."""
    topic = run(stores.log.put_topic(new_topic())).id
    run(stores.log.append([segment(topic, b"kept")]))
    before = (stores.log.id, run(stores.log.news(0)), run(stores.log.read(topic, 1, LARGE)))
    run(stores.reopen())
    assert (stores.log.id, run(stores.log.news(0)), run(stores.log.read(topic, 1, LARGE))) == before
    assert stores.log.id


def test_many_callers_at_once(log: Any, run: Any) -> None:
    """Calls that overlap are carried out one after the other, each whole."""
    topic = run(log.put_topic(new_topic())).id

    async def all_at_once() -> list[int]:
        results = await asyncio.gather(*(log.append([segment(topic, b"%d" % n)]) for n in range(50)))
        return [position for positions in results for position in positions]

    positions = run(all_at_once())
    assert sorted(positions) == list(range(2, 52))
    bodies = [entry.body for entry in run(log.read(topic, 2, LARGE))]
    assert [bodies[position - 2] for position in positions] == [b"%d" % n for n in range(50)]


def test_a_caller_that_goes_away_changes_nothing(log: Any, run: Any) -> None:
    """An append whose caller is cancelled while it waits happens all the same, whole."""
    topic = run(log.put_topic(new_topic())).id

    async def cancel_one() -> None:
        waiting = asyncio.ensure_future(log.append([segment(topic, b"first")]))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await log.append([segment(topic, b"second")])

    run(cancel_one())
    assert [entry.body for entry in run(log.read(topic, 2, LARGE))] == [b"first", b"second"]
