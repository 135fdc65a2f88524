"""The contract of History."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recapito.contracts.history import AttemptPage, History, HistoryBounds, HistoryExtent
from recapito.domain import limits
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.kept_headers import HeaderText, RawHeaders
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome, Rule
from recapito.domain.history.attempt import FAILED, Attempt, AttemptQuery, EventDisposition
from recapito.domain.history.series import Bucket, Series
from recapito.domain.instant import HOUR, SECOND
from recapito.stores.memory import MemoryHistory
from recapito.stores.sqlite import SqliteHistory
from tests.intake.doubles import StillClock
from tests.kit.handed_over import HandedOverHistory
from tests.stores.attempts import AGAIN, KEEP, NOON, ORDERS, OTHERS, SHIPPED, attempt, failed, same

ALL = AttemptQuery()


@pytest.fixture
def clock() -> StillClock:
    """The time of the attempts."""
    return StillClock(NOON)


@pytest.fixture(params=["memory", "sqlite-inline", "sqlite-thread", "handed-over"])
def history(request: pytest.FixtureRequest, tmp_path: Path, clock: StillClock, run: Any) -> Iterator[History]:
    """A new, empty history of each kind."""
    if request.param == "memory":
        opened: History = MemoryHistory(KEEP, clock.now)
    elif request.param == "handed-over":
        opened = HandedOverHistory(MemoryHistory(KEEP, clock.now), MemoryHistory(KEEP, clock.now, first_mark=1000))
    else:
        threaded = request.param == "sqlite-thread"
        opened = SqliteHistory(tmp_path, KEEP, clock.now, StillClock(), threaded=threaded)
    yield opened
    run(opened.close())


def ids(page: AttemptPage) -> list[str]:
    return ["+".join(kept.attempt.ids) for kept in page.value]


def record(history: History, *attempts: Attempt) -> None:
    for one in attempts:
        history.record(one)


def test_what_was_recorded_is_read_back(history: History, run: Any) -> None:
    """Every field of an attempt comes back: of one event or many, first or later, delivered or not."""
    told = [
        attempt("a"),
        attempt("b", "c", positions=[(1, 5), (1, 7)], offsets=[9, 0]),
        failed(
            "d",
            "e",
            dispositions=[AGAIN, EventDisposition(DispositionKind.DEAD_LETTER, NOON, reason="why")],
            numbers=[3, 30],
            detail="no é",
        ),
        attempt("f", label=SHIPPED, probe=True, late=True),
        failed(
            "g",
            outcome=NonRequestOutcome.NOT_SENT,
            status=None,
            dispositions=[EventDisposition(DispositionKind.DROP, reason="TimeToLiveExceeded")],
        ),
        attempt(
            "h",
            outcome=NonRequestOutcome.DEAD_LETTERED,
            dispositions=[EventDisposition(DispositionKind.DEAD_LETTER, where="box/path")],
        ),
        attempt("", "", label=OTHERS),
    ]
    record(history, *told[:3])
    run(history.flush())
    record(history, *told[3:])
    page = run(history.oldest_first(ALL, 0, 100))
    assert all(same(kept.attempt, one) for kept, one in zip(page.value, told, strict=True))
    first = next(page.value[2].attempt.events())
    assert (first.id, first.identity, first.number) == ("d", DeliveryId(5, 0), 3)
    assert first.disposition == EventDisposition(DispositionKind.RETRY, AGAIN.due_at, Rule.MINIMUM)
    assert [one.identity for one in page.value[1].attempt.events()] == [(5, 9), (7, 0)]


def test_an_empty_history(history: History, run: Any) -> None:
    """There is nothing to read, and nothing was lost."""
    assert run(history.newest_first(ALL, None, 10)).value == run(history.oldest_first(ALL, 0, 10)).value == []
    assert run(history.extent()) == HistoryExtent(None, 0, 0)


def test_pages_go_back_in_time(history: History, run: Any) -> None:
    """Newest first, as many as are wanted, each page going on where the last one ended, over any border."""
    for n in range(10):
        record(history, attempt(str(n)))
        if n % 3 == 0:
            run(history.flush())
    seen: list[str] = []
    before = None
    while True:
        page = run(history.newest_first(ALL, before, 4))
        seen += ids(page)
        before = page.next
        if before is None:
            break
    assert seen == [str(n) for n in reversed(range(10))]


def test_somebody_follows(history: History, run: Any) -> None:
    """From the newest mark on everything new comes once, oldest first, and marks only grow."""
    record(history, attempt("before"))
    newest = run(history.newest_first(ALL, None, 10)).newest
    assert run(history.oldest_first(ALL, newest, 10)).value == []
    seen: list[str] = []
    for n in range(7):
        record(history, *(attempt(f"{n}-{m}") for m in range(n)))
        page = run(history.oldest_first(ALL, newest, 4))
        assert [kept.mark for kept in page.value] == sorted(kept.mark for kept in page.value)
        assert page.newest >= newest
        seen += ids(page)
        newest = page.newest
    while (page := run(history.oldest_first(ALL, newest, 4))).value:
        seen, newest = seen + ids(page), page.newest
    assert seen == [f"{n}-{m}" for n in range(7) for m in range(n)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (AttemptQuery(event="a-1"), ["a-1+a-2", "a-1"]),
        (AttemptQuery(event="a-"), []),
        (AttemptQuery(search="-2"), ["a-1+a-2", "b-2"]),
        (AttemptQuery(lane=1), ["a-1", "c-3"]),
        (AttemptQuery(topic="orders"), ["a-1+a-2", "a-1", "c-3"]),
        (AttemptQuery(subscription="BILLING"), ["a-1", "b-2", "c-3"]),
        (AttemptQuery(topic="Others", subscription="billing"), ["b-2"]),
        (AttemptQuery(topic="order"), []),
        (AttemptQuery(outcome="Busy"), ["a-1", "b-2"]),
        (AttemptQuery(outcome=FAILED), ["a-1", "b-2", "c-3"]),
        (AttemptQuery(outcome="Success"), ["a-1+a-2"]),
        (AttemptQuery(since=NOON + 2 * SECOND), ["b-2", "c-3"]),
        (AttemptQuery(until=NOON + SECOND), ["a-1+a-2", "a-1"]),
        (AttemptQuery(event="a-1", outcome=FAILED, topic="orders"), ["a-1"]),
    ],
)
def test_selecting(history: History, run: Any, selection: AttemptQuery, expected: list[str]) -> None:
    """By event, a part of its id, lane, names without case, outcome and time; all must hold."""
    record(history, attempt("a-1", "a-2", label=SHIPPED), failed("a-1", at=1))
    run(history.flush())
    record(history, failed("b-2", label=OTHERS, at=2), failed("c-3", outcome=NonRequestOutcome.NOT_SENT, at=3))
    assert ids(run(history.oldest_first(selection, 0, 10))) == expected
    assert ids(run(history.newest_first(selection, None, 10))) == expected[::-1]


def test_written_dead_letters_are_no_failures(history: History, run: Any) -> None:
    """The attempt of a written dead letter is found by its outcome, and not among the failures."""
    record(
        history,
        attempt(
            "a",
            outcome=NonRequestOutcome.DEAD_LETTERED,
            dispositions=[EventDisposition(DispositionKind.DEAD_LETTER, where="box/p")],
        ),
    )
    assert ids(run(history.newest_first(AttemptQuery(outcome=FAILED), None, 10))) == []
    assert ids(run(history.newest_first(AttemptQuery(outcome="DeadLettered"), None, 10))) == ["a"]


def test_the_extent(history: History, run: Any) -> None:
    """It says since when attempts are kept, and how many."""
    record(history, attempt("a", at=3), attempt("b", at=1), attempt("c", at=2))
    assert run(history.extent()) == HistoryExtent(NOON + SECOND, 3, 0)


def test_what_is_too_old_goes(history: History, run: Any, clock: StillClock) -> None:
    """Attempts older than they are kept are gone after the next ones are stored."""
    record(history, attempt("old"))
    run(history.flush())
    clock.instant += KEEP.age_ns + SECOND
    record(history, attempt("new", at=KEEP.age_ns // SECOND))
    run(history.flush())
    assert ids(run(history.newest_first(ALL, None, 10))) == ["new"]


def test_odd_ids(history: History, run: Any) -> None:
    """Ids of any length and letters are found, and one that no publisher can send disturbs no other."""
    odd = ["é" * limits.EVENT_FIELD_CHARS, "a\nb", " ", "'; DROP TABLE chunk", "x\0y", "last"]
    record(history, attempt(*odd))
    run(history.flush())
    for id in odd[:4]:
        assert run(history.newest_first(AttemptQuery(event=id), None, 10)).value[0].attempt.ids[odd.index(id)] == id
    (kept,) = run(history.oldest_first(ALL, 0, 10)).value
    assert (len(kept.attempt.ids), kept.attempt.ids[-1]) == (6, "last")


def test_recording_never_waits_and_is_bounded(tmp_path: Path, run: Any, clock: StillClock) -> None:
    """An attempt that does not fit is counted instead of kept; the kept ones are bounded, and the oldest went."""
    ring = MemoryHistory(KEEP, clock.now, capacity=20)
    record(ring, *(attempt(str(n)) for n in range(15)), attempt(*"abcdefghijklmnopqrstuvwxyz"))
    assert ids(run(ring.oldest_first(ALL, 0, 100))) == [str(n) for n in range(5, 15)]
    assert run(ring.extent()).not_kept == 1
    stored = SqliteHistory(tmp_path, HistoryBounds(HOUR, 50_000), clock.now, StillClock(), threaded=False)
    many = [str(n) for n in range(5000)]
    record(stored, *(attempt(*many) for _ in range(25)))  # more than may wait
    run(stored.flush())
    extent = run(stored.extent())
    assert extent.not_kept == 25 - (limits.HISTORY_WAITING_EVENTS // 5001 + 1)
    assert 0 < extent.attempts <= 2
    run(stored.close())


def test_a_page_is_sought_in_so_many_chunks(history: History, run: Any) -> None:
    """A selection that takes little of much gives short pages, and the walk still finds everything."""
    for n in range(limits.HISTORY_CHUNKS + 6):
        record(history, attempt(f"x{n}", "odd" if n % 40 == 1 else f"even{n}", at=n))
        run(history.flush())
    selection, seen, before = AttemptQuery(search="d", since=NOON, lane=ORDERS.lane), list[str](), None
    for _ in range(5):
        page = run(history.newest_first(selection, before, 100))
        seen += ids(page)
        before = page.next
        if before is None:
            break
    assert seen == ["x41+odd", "x1+odd"]
    page = run(history.oldest_first(ALL, 0, 1000))
    assert len(page.value) + len(run(history.oldest_first(ALL, page.newest, 1000)).value) == limits.HISTORY_CHUNKS + 6


def test_headers_are_kept_without_secrets(history: History, run: Any) -> None:
    """The text of both sides comes back; a secret in a value, and the value of a telling name, do not."""
    raw = RawHeaders(
        ["Content-Type: a/b", "Accept:", "X-Empty;", "aeg-delivery-count: 0\r\nX-Mine: s3cret", "X-Auth: Bearer"],
        [b"HTTP/1.1 200 OK\r\n", b"Set-Cookie: id=1\r\n", b"X-Echo: <s3cret>\xff\r\n", b"\r\n"],
        ("s3cret",),
        has_id=True,
    )
    record(history, attempt("a", headers=raw), attempt("b"), failed("c", headers=raw))
    page = run(history.oldest_first(ALL, 0, 10))
    first, none, last = [kept.attempt.header_text() for kept in page.value]
    mine = "Content-Type: a/b\nX-Empty:\naeg-delivery-count: 0\nX-Mine: ******\nX-Auth: ***\naeg-output-event-id: a"
    assert none is None and first == HeaderText(mine, "HTTP/1.1 200 OK\nSet-Cookie: ***\nX-Echo: <******>ÿ")
    assert last is not None and last.request == f"{mine[:-1]}c"
    assert "s3cret" not in repr(raw)


def test_attempts_are_counted_by_time(history: History, run: Any) -> None:
    """A series counts events as the books do, by the selected attempts, and continues from its mark."""
    dropped = [EventDisposition(DispositionKind.DROP, reason=reason) for reason in ("TimeToLiveExceeded", "Other")]
    buried = EventDisposition(DispositionKind.DEAD_LETTER, where="box/path")
    record(
        history,
        attempt("a", "b"),
        failed("c", "d", at=19, dispositions=[AGAIN, dropped[1]]),
        failed("e", "f", at=20, outcome=NonRequestOutcome.NOT_SENT, status=None, dispositions=dropped),
        attempt("g", at=21, outcome=NonRequestOutcome.DEAD_LETTERED, dispositions=[buried]),
        attempt("h", at=21, label=OTHERS),
    )
    width = 60 * SECOND
    page = run(history.series(AttemptQuery(topic="orders"), width, 0, None))
    first = NOON // width
    assert page.next is None and page.series.buckets == {
        first: Bucket(delivered=2, failed=2, dropped=1, answers=2, took=SECOND // 4),
        first + 1: Bucket(expired=1, dropped=1, dead_lettered=1),
    }
    assert run(history.series(AttemptQuery(outcome=FAILED), width, 0, None)).series.buckets[first].failed == 2
    assert run(history.series(AttemptQuery(event="h"), width, 0, None)).series.buckets[first + 1].delivered == 1
    record(history, attempt("i", at=22))
    following = run(history.series(ALL, width, page.newest, None)).series
    assert following.buckets == {first + 1: Bucket(delivered=1, answers=1, took=SECOND // 8)}
    late = run(history.series(AttemptQuery(since=NOON + 21 * SECOND), width, 0, None)).series
    late.merge(following)
    assert late.buckets[first + 1].delivered == 3 and list(late.buckets) == [first + 1]


def test_a_series_is_counted_in_slices(history: History, run: Any) -> None:
    """Each call counts a bounded number of chunks, and the slices together count every attempt once."""
    chunks = limits.SERIES_CHUNKS + 3
    for n in range(chunks):
        record(history, attempt(f"{n}"), attempt(f"{n}+"))
        run(history.flush())
    total, before, calls = Series(SECOND), None, 0
    while calls == 0 or before is not None:
        page = run(history.series(ALL, SECOND, 0, before))
        total.merge(page.series)
        before, calls = page.next, calls + 1
    assert sum(bucket.delivered for bucket in total.buckets.values()) == 2 * chunks
    assert calls == (2 if isinstance(history, SqliteHistory) else 1)
