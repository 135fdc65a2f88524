"""The contract of the Ledger."""

from typing import Any

import pytest
from msgspec.structs import replace

from recapito.contracts.ledger import (
    AttemptTotals,
    DeadLetterGroup,
    Drop,
    DueDeliveries,
    LaneCounts,
    LaneRow,
    Notice,
    SkippedDeadLetters,
    WaitingDeadLetter,
)
from recapito.domain import limits
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import DeliveryId
from recapito.domain.delivery.hold import CLEAR, Hold
from recapito.domain.delivery.outcome import Result
from recapito.errors import StoreStale
from tests.stores.values import TRIED, burial, parked, settlement

LOG = "log-id"
NOBODY = SkippedDeadLetters()


def passing(*lanes: int) -> SkippedDeadLetters:
    """Passes over whatever these lanes have in the containers of these tests."""
    return SkippedDeadLetters(places=frozenset((lane, container) for lane in lanes for container in ("dead", "other")))


LARGE = 1 << 20


@pytest.fixture
def lane(ledger: Any, run: Any) -> LaneRow:
    """A new lane."""
    opened: LaneRow = run(ledger.open_lane(7, 3, LOG, 5))
    return opened


@pytest.fixture
def settle(ledger: Any, run: Any) -> Any:
    """Settle a lane by its id, as it is stored now; and see that its books balance."""

    def settle(id: int, **parts: Any) -> LaneRow:
        run(ledger.settle([settlement(run(ledger.lane(id)), **parts)]))
        after: LaneRow = run(ledger.lane(id))
        assert after.counts.pending == after.counts.parked + after.counts.buried
        return after

    return settle


def identities(due: Any) -> list[tuple[int, int]]:
    return [tuple(row.delivery.identity) for row in due]


def test_a_new_lane_starts_at_its_create_record(ledger: Any, run: Any, lane: LaneRow) -> None:
    """It has its cursor there, no hold and empty books."""
    assert lane == LaneRow(7, 3, LOG, lane.version, Cursor((5, 0)), CLEAR, LaneCounts())
    assert run(ledger.lane(7)) == lane
    assert run(ledger.lane(8)) is None


def test_opening_a_lane_again_changes_nothing(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """The lane that is there stays as it is."""
    moved = settle(7, cursor=Cursor((9, 2)))
    assert run(ledger.open_lane(7, 4, "other", 1)) == moved == run(ledger.lane(7))


def test_lanes_come_in_the_order_of_their_ids(ledger: Any, run: Any) -> None:
    """All lanes are listed."""
    assert run(ledger.lanes()) == []
    for id in (30, 2, 100):
        run(ledger.open_lane(id, 1, LOG, 1))
    assert [lane.id for lane in run(ledger.lanes())] == [2, 30, 100]


def test_some_lanes_are_read_alone(ledger: Any, run: Any) -> None:
    """Those that are asked for and are there, in the order of their ids, each once."""
    for id in (30, 2, 100):
        run(ledger.open_lane(id, 1, LOG, 1))
    assert [lane.id for lane in run(ledger.some_lanes([100, 3, 2, 100]))] == [2, 100]
    assert run(ledger.some_lanes([])) == []
    assert [lane.id for lane in run(ledger.lanes_after(2, 1))] == [30]
    assert [lane.id for lane in run(ledger.lanes_after(99, 10))] == [100]
    assert run(ledger.lanes_after(0, 10)) == run(ledger.some_lanes([2, 30, 100])) == run(ledger.lanes())


def test_the_versions_of_lanes_show_every_change(ledger: Any, run: Any, settle: Any) -> None:
    """They differ after a lane is opened, settled or closed, and stay while nothing changes."""
    seen = [run(ledger.lane_versions())]
    for change in (
        lambda: run(ledger.open_lane(1, 1, LOG, 1)),
        lambda: run(ledger.open_lane(2, 1, LOG, 1)),
        lambda: settle(1, matched=1, delivered=1),
        lambda: settle(2, hold=Hold(3)),
        lambda: settle(1, ended=True),
        lambda: run(ledger.close_lane(1)),
        lambda: run(ledger.open_lane(3, 1, LOG, 1)),
    ):
        change()
        seen.append(run(ledger.lane_versions()))
        assert run(ledger.lane_versions()) == seen[-1]
    assert seen[0] == (0, 0, 0)
    assert len(set(seen)) == len(seen)


def test_lanes_in_trouble(ledger: Any, run: Any, settle: Any) -> None:
    """Lanes with parked deliveries, failures or a hold are found among the others, page by page, as whole rows."""
    for id in range(1, 9):
        run(ledger.open_lane(id, 1, LOG, 1))
    assert run(ledger.troubled_lanes(0, 10)) == []
    settle(2, matched=1, park=[parked(9)])
    settle(5, hold=Hold(3))
    settle(7, hold=Hold(10, 5, 5, Result.BUSY))
    settle(8, matched=1, delivered=1)
    assert run(ledger.troubled_lanes(0, 10)) == run(ledger.some_lanes([2, 5, 7]))
    assert run(ledger.troubled_lanes(2, 1)) == run(ledger.some_lanes([5]))
    settle(2, finish=[DeliveryId(9, 0)])
    assert [lane.id for lane in run(ledger.troubled_lanes(0, 10))] == [5, 7]


def test_attempts_are_added_up(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A settlement adds its requests, how long they took, and what failed by result; without any nothing changes."""
    assert lane.attempts == AttemptTotals()
    settle(7, attempts=AttemptTotals(3, 1_500, {"Busy": 2}))
    after = settle(7, attempts=AttemptTotals(2, 500, {"Busy": 1, "TimedOut": 4}))
    assert after.attempts == AttemptTotals(5, 2_000, {"Busy": 3, "TimedOut": 4})
    assert settle(7).attempts == after.attempts
    other = run(ledger.open_lane(8, 3, LOG, 5))
    assert other.attempts == AttemptTotals()


def test_attempts_go_with_their_lane(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A lane that is closed and opened again starts with none."""
    settle(7, attempts=AttemptTotals(1, 10, {"Busy": 1}), ended=True)
    run(ledger.close_lane(7))
    assert run(ledger.open_lane(7, 3, LOG, 5)).attempts == AttemptTotals()


def test_a_settlement_moves_the_lane(lane: LaneRow, settle: Any) -> None:
    """Cursor and hold are replaced, counts are added, the version grows by one."""
    cursor = Cursor((6, 3), (((6, 5), (7, 0)), ((8, 1), (8, 4))))
    hold = Hold(10, 1_800_000_000_000_000_000, 5, Result.TIMED_OUT)
    after = settle(7, cursor=cursor, hold=hold, matched=4, unmatched=2, delivered=4, evaluated=5)
    counts = LaneCounts(matched=4, unmatched=2, delivered=4, evaluated=5)
    assert after == LaneRow(7, 3, LOG, lane.version + 1, cursor, hold, counts)
    again = settle(7, matched=1, unmatched=1, delivered=1, evaluated=2)
    assert again.counts == LaneCounts(matched=5, unmatched=3, delivered=5, evaluated=7)
    assert (again.cursor, again.hold) == (cursor, hold)


def test_many_lanes_are_settled_in_one_commit(ledger: Any, run: Any) -> None:
    """Each gets what is its own."""
    lanes = [run(ledger.open_lane(id, 1, LOG, 1)) for id in range(1, 51)]
    parts = [
        settlement(lane, cursor=Cursor((1 + lane.id, 0)), matched=lane.id, park=[parked(n) for n in range(lane.id)])
        for lane in lanes
    ]
    run(ledger.settle(parts))
    for lane in run(ledger.lanes()):
        assert lane.cursor == Cursor((1 + lane.id, 0))
        assert lane.counts == LaneCounts(matched=lane.id, parked=lane.id)
        assert len(run(ledger.parked(lane.id, 100))) == lane.id
    run(ledger.settle([]))


@pytest.mark.parametrize("off", [-1, 1])
def test_a_stale_settlement_changes_nothing(ledger: Any, run: Any, lane: LaneRow, settle: Any, off: int) -> None:
    """Another version than the lane's refuses the whole commit, the other lanes' part too."""
    settle(7, matched=2, park=[parked(1), parked(2)])
    other = run(ledger.open_lane(8, 3, LOG, 5))
    before = run(ledger.lanes())
    stale = settlement(before[0], finish=[DeliveryId(1, 0)], park=[parked(2, due_at=99), parked(3)], matched=1)
    good = settlement(other, cursor=Cursor((6, 0)), matched=1, delivered=1)
    with pytest.raises(StoreStale):
        run(ledger.settle([good, stale._replace(version=stale.version + off)]))
    assert run(ledger.lanes()) == before
    assert run(ledger.parked(7, 10)) == [parked(1), parked(2)]


def test_a_lane_that_is_not_there_is_stale(ledger: Any, run: Any, lane: LaneRow) -> None:
    """Settling an unknown lane is refused, and so is settling one twice in a commit."""
    with pytest.raises(StoreStale):
        run(ledger.settle([settlement(lane)._replace(lane=99)]))
    with pytest.raises(StoreStale):
        run(ledger.settle([settlement(lane), settlement(lane)]))
    assert run(ledger.lane(7)) == lane


def test_what_is_parked_comes_back_whole(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A parked delivery keeps its due time, its history and its bytes."""
    body = bytes(range(256)) * 8
    rows = [parked(5, 1, 100, body, **TRIED), parked(5, 0, 50, b""), parked(6, 2, 200)]
    after = settle(7, matched=3, park=rows)
    assert after.counts == LaneCounts(matched=3, parked=3)
    assert after.next_due_at == 50
    assert run(ledger.parked(7, 10)) == [rows[1], rows[0], rows[2]]
    assert run(ledger.parked(7, 1)) == [rows[1]]


def test_due_deliveries_come_earliest_first(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Up to the limit, of those due by now, and when the next one after them comes."""
    settle(
        7, matched=5, park=[parked(9, 0, 30), parked(9, 1, 10), parked(4, 0, 30), parked(9, 2, 20), parked(9, 3, 40)]
    )
    run(ledger.open_lane(8, 3, LOG, 5))
    settle(8, matched=1, park=[parked(1, 0, 1)])
    due = lambda now, limit: (identities((got := run(ledger.due(7, now, limit))).parked), got.next_at)  # noqa: E731
    assert due(9, 10) == ([], 10)
    assert due(10, 10) == ([(9, 1)], 20)
    assert due(30, 10) == ([(9, 1), (9, 2), (4, 0), (9, 0)], 40)
    assert due(30, 3) == ([(9, 1), (9, 2), (4, 0)], 30)
    assert due(99, 5) == ([(9, 1), (9, 2), (4, 0), (9, 0), (9, 3)], None)
    assert due(99, 0) == ([], 10)


def test_due_deliveries_are_bounded_in_bytes(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """After the first ones asked for, no more than a slice's bytes are brought into memory."""
    large = b"x" * (limits.PARKED_SLICE_BYTES // 2 - 1000)
    rows = [parked(9, n, 10 + n) for n in range(5)]
    settle(7, matched=5, park=[replace(row, delivery=replace(row.delivery, body=large)) for row in rows])
    for at_least, got in ((1, 2), (2, 2), (4, 4)):
        due = run(ledger.due(7, 99, 10, at_least))
        assert (len(due.parked), due.next_at) == (got, 10 + got)


def test_parked_deliveries_are_paged(lane: LaneRow, settle: Any, ledger: Any, run: Any) -> None:
    """All that is parked is read page by page, earliest due first; equal due times go by the id."""
    keys = [(3, 5, 0), (7, 5, 1), (7, 5, 2), (7, 6, 0), (1 << 60, 5, 3)]
    settle(7, matched=5, park=[parked(position, offset, due_at) for due_at, position, offset in reversed(keys)])
    found: list[Any] = []
    after = None
    while page := run(ledger.parked(7, 2, after)):
        assert len(page) <= 2
        found += page
        after = page[-1].due_at, page[-1].delivery.identity
    assert [(row.due_at, *row.delivery.identity) for row in found] == keys
    assert run(ledger.parked(8, 2, after)) == []


def test_a_page_of_parked_deliveries_is_bounded(lane: LaneRow, settle: Any, ledger: Any, run: Any) -> None:
    """A page has one delivery at least, and no more bytes than a slice."""
    half = limits.PARKED_SLICE_BYTES // 2 + 1
    rows = [parked(5, n, n) for n in range(3)]
    large = [replace(row, delivery=replace(row.delivery, body=b"x" * half)) for row in rows]
    settle(7, matched=3, park=large)
    assert identities(run(ledger.parked(7, 9))) == [(5, 0)]
    assert identities(run(ledger.parked(7, 9, (0, DeliveryId(5, 0))))) == [(5, 1)]


def test_nothing_is_due_where_there_is_nothing(ledger: Any, run: Any, lane: LaneRow) -> None:
    """An empty lane and an unknown one have nothing due, ever."""
    for id in (7, 99):
        assert run(ledger.due(id, 1 << 62, 10)) == DueDeliveries([], None)
        assert run(ledger.parked(id, 10)) == []


def test_parking_again_replaces(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A delivery is parked once; the last one counts, in one settlement too."""
    settle(7, matched=1, park=[parked(5, due_at=10)])
    later = parked(5, due_at=60, attempts=1)
    after = settle(7, park=[parked(5, due_at=20), later])
    assert after.counts == LaneCounts(matched=1, parked=1)
    assert run(ledger.parked(7, 10)) == [later]
    assert after.next_due_at == 60


def test_finishing_counts_what_is_found(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A delivery parked or buried under an identity is delivered now; an identity with nothing counts not at all."""
    settle(7, matched=3, park=[parked(5, 0), parked(5, 1)], bury=[burial(5, 2)])
    after = settle(7, finish=[DeliveryId(5, 0), DeliveryId(5, 2), DeliveryId(5, 9), DeliveryId(5, 0)])
    assert after.counts == LaneCounts(matched=3, delivered=2, parked=1)
    assert settle(7, finish=[DeliveryId(5, 0)]).counts == after.counts
    assert identities(run(ledger.parked(7, 10))) == [(5, 1)]


def test_a_named_dead_letter_is_not_finished(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Once its group has a path it is on its way to the vault: a late success comes too late."""
    settle(7, matched=2, bury=[burial(5, 0), burial(5, 1)])
    group = run(ledger.burials_due(10, 1, LARGE, NOBODY))
    run(ledger.name_group(group, "path", 10))
    after = settle(7, finish=[DeliveryId(5, 0), DeliveryId(5, 1)])
    assert after.counts == LaneCounts(matched=2, delivered=1, buried=1)


def test_burying_and_dropping_take_what_is_parked(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A delivery that is given up waits no more; drops are counted by reason."""
    settle(7, matched=3, park=[parked(5, 0), parked(5, 1), parked(5, 2)])
    after = settle(7, matched=2, bury=[burial(5, 0), burial(6, 0)], drop=[_drop(5, 1, "a"), _drop(6, 1, "b")])
    assert after.counts == LaneCounts(matched=5, dropped={"a": 1, "b": 1}, parked=1, buried=2)
    assert identities(run(ledger.parked(7, 10))) == [(5, 2)]


def _drop(position: int, offset: int, reason: str) -> Drop:
    return Drop(DeliveryId(position, offset), reason)


def test_one_delivery_is_found(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A waiting delivery is found under its identity: parked, buried, or buried in a group that has its name."""
    settle(7, matched=4, park=[parked(5, 0, **TRIED), parked(5, 1)], bury=[burial(6, 0), burial(6, 1, write_at=99)])
    assert run(ledger.find(7, DeliveryId(5, 0))) == parked(5, 0, **TRIED)
    assert run(ledger.find(7, DeliveryId(6, 0))) == WaitingDeadLetter(burial(6, 0), None)
    group = run(ledger.burials_due(50, 10, LARGE, NOBODY))
    run(ledger.name_group(group, "path", 50))
    assert run(ledger.find(7, DeliveryId(6, 0))) == WaitingDeadLetter(burial(6, 0), "path")
    assert run(ledger.find(7, DeliveryId(6, 1))) == WaitingDeadLetter(burial(6, 1, write_at=99), None)
    settle(7, finish=[DeliveryId(5, 0)])
    assert [run(ledger.find(id, DeliveryId(5, 0))) for id in (7, 8)] == [None, None]


def test_drops_add_up_by_reason(lane: LaneRow, settle: Any) -> None:
    """Each reason has its own count."""
    settle(7, matched=3, drop=[_drop(5, 0, "Canceled"), _drop(5, 1, "Canceled"), _drop(5, 2, "TimeToLiveExceeded")])
    after = settle(7, matched=1, drop=[_drop(6, 0, "Canceled")])
    assert after.counts == LaneCounts(matched=4, dropped={"Canceled": 3, "TimeToLiveExceeded": 1})


def test_burying_twice_buries_once(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A dead letter that waits already stays as it is."""
    settle(7, matched=1, bury=[burial(5, write_at=10)])
    after = settle(7, bury=[burial(5, write_at=99)])
    assert after.counts == LaneCounts(matched=1, buried=1)
    assert run(ledger.next_burial_at()) == 10


def test_the_parts_of_a_settlement_have_an_order(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Finish goes first, then park, then bury and drop."""
    settle(7, matched=1, park=[parked(5, 0)])
    after = settle(7, matched=3, finish=[DeliveryId(5, 0)], park=[parked(5, 0), parked(5, 1)], bury=[burial(5, 1)],
                   drop=[_drop(5, 2, "why")])  # fmt: skip
    assert after.counts == LaneCounts(matched=4, delivered=1, dropped={"why": 1}, parked=1, buried=1)


@pytest.mark.parametrize(
    "parts",
    [
        {"matched": 1},
        {"delivered": 1},
        {"park": [parked(9)]},
        {"bury": [burial(9)]},
        {"drop": [_drop(9, 0, "why")]},
        {"matched": 1, "drop": [_drop(9, 0, "why"), _drop(9, 0, "why")]},
        {"matched": 1, "park": [parked(5)]},
    ],
)
def test_books_that_do_not_balance_are_refused(ledger: Any, run: Any, lane: LaneRow, settle: Any, parts: Any) -> None:
    """Matched is delivered, dead-lettered, dropped and pending in every commit, or there is no commit."""
    before = settle(7, matched=1, park=[parked(5)])
    with pytest.raises(ValueError, match="books"):
        run(ledger.settle([settlement(before, **parts)]))
    assert run(ledger.lane(7)) == before
    assert run(ledger.next_burial_at()) is None


def test_a_lane_that_ended_stays_ended(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Ended is for good, and a lane without anything pending can then be closed."""
    run(ledger.close_lane(7))
    assert run(ledger.lane(7)) == lane
    assert settle(7, matched=1, bury=[burial(5)], ended=True).ended
    assert settle(7).ended
    run(ledger.close_lane(7))
    assert run(ledger.lane(7)) is not None
    settle(7, finish=[DeliveryId(5, 0)])
    run(ledger.close_lane(7))
    assert run(ledger.lane(7)) is None
    run(ledger.close_lane(7))


def test_a_closed_lane_leaves_nothing_behind(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A lane that is opened under a closed one's id starts with empty books."""
    settle(7, matched=1, drop=[_drop(5, 0, "why")], ended=True)
    run(ledger.close_lane(7))
    assert run(ledger.open_lane(7, 3, LOG, 5)).counts == LaneCounts()


def test_containers_are_passed_over_apart(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A container that is passed over, for one lane or for all, holds up nothing in another, named or not."""
    run(ledger.open_lane(8, 3, LOG, 5))
    settle(7, matched=2, bury=[burial(5, 0, 10), burial(5, 1, 20, "other")])
    settle(8, matched=1, bury=[burial(5, 0, 30)])
    due = lambda *over: run(ledger.burials_due(99, 9, LARGE, SkippedDeadLetters(*over)))  # noqa: E731
    none: frozenset[str] = frozenset()
    both = frozenset({(7, "dead"), (7, "other")})
    for named in (False, True):
        places = [due(), due(frozenset({"dead"})), due(none, frozenset({(7, "dead")})), due(none, both)]
        wanted = [(7, "dead"), (7, "other"), (7, "other"), (8, "dead")]
        assert [(group.lane, group.container) for group in places] == wanted
        assert all((group.path is not None) is named for group in places)
        assert due(frozenset({"dead", "other"})) is None
        for group in () if named else (places[0], places[3], places[1]):
            run(ledger.name_group(group, f"{group.lane}-{group.container}", 99 + group.lane))


def test_the_next_burial(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """The earliest time of all dead letters that wait, of all lanes, named or not."""
    assert run(ledger.next_burial_at()) is None
    run(ledger.open_lane(8, 3, LOG, 5))
    settle(7, matched=1, bury=[burial(5, write_at=30)])
    settle(8, matched=2, bury=[burial(5, write_at=40), burial(6, write_at=20)])
    assert run(ledger.next_burial_at()) == 20
    run(ledger.name_group(run(ledger.burials_due(20, 9, LARGE, NOBODY)), "path", 20))
    assert run(ledger.next_burial_at()) == 20
    run(ledger.written(8, "path"))
    assert run(ledger.next_burial_at()) == 30


def test_a_group_is_of_one_lane_and_container(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """The oldest due ones of the lane that waits longest, in the container of the first, in order."""
    run(ledger.open_lane(8, 3, LOG, 5))
    mine = [burial(5, 0, 30), burial(5, 1, 20), burial(6, 0, 25, "other"), burial(6, 1, 99)]
    settle(7, matched=4, bury=mine)
    settle(8, matched=1, bury=[burial(5, 0, 21)])
    assert run(ledger.burials_due(19, 9, LARGE, NOBODY)) is None
    assert run(ledger.burials_due(50, 9, LARGE, NOBODY)) == DeadLetterGroup(7, "dead", None, None, [mine[1], mine[0]])
    assert run(ledger.burials_due(50, 9, LARGE, passing(7))).lane == 8
    assert run(ledger.burials_due(50, 9, LARGE, passing(7, 8))) is None


def test_a_group_has_its_limits(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A bounded number of dead letters and bytes, but one letter however large."""
    settle(7, matched=3, bury=[burial(5, n, 10 + n, size=100) for n in range(3)])
    size = lambda limit, bytes: len(run(ledger.burials_due(99, limit, bytes, NOBODY)).burials)  # noqa: E731
    assert size(2, LARGE) == 2
    assert size(9, 200) == 2
    assert size(9, 299) == 2
    assert size(9, 300) == 3
    assert size(9, 1) == 1


def test_a_named_group_comes_first_and_whole(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Whatever the limits and the time, the group that was named is the one to write, until it is written."""
    mine = [burial(5, n, 10) for n in range(3)]
    settle(7, matched=3, bury=mine)
    run(ledger.open_lane(8, 3, LOG, 5))
    settle(8, matched=1, bury=[burial(1, 0, 1)])
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, mine[:2]), "path", 77))
    named = DeadLetterGroup(7, "dead", "path", 77, mine[:2])
    assert run(ledger.burials_due(5, 1, 1, NOBODY)) == named
    assert run(ledger.burials_due(5, 1, 1, passing(7))).lane == 8
    assert run(ledger.burials_due(5, 1, 1, passing(7, 8))) is None
    run(ledger.written(7, "path"))
    assert run(ledger.lane(7)).counts == LaneCounts(matched=3, dead_lettered=2, buried=1)
    assert run(ledger.burials_due(10, 9, LARGE, passing(8))).burials == [mine[2]]


def test_the_group_that_was_tried_first_comes_first(ledger: Any, run: Any, settle: Any) -> None:
    """Among named groups the oldest is next."""
    for id, tried_at in ((1, 50), (2, 40), (3, 60)):
        run(ledger.open_lane(id, 3, LOG, 5))
        settle(id, matched=1, bury=[burial(5)])
        run(ledger.name_group(DeadLetterGroup(id, "dead", None, None, [burial(5)]), f"path{id}", tried_at))
    next_lane = lambda *skip: run(ledger.burials_due(99, 9, LARGE, passing(*skip))).lane  # noqa: E731
    assert (next_lane(), next_lane(2), next_lane(1, 2)) == (2, 1, 3)


def test_only_what_still_waits_is_named(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A letter delivered between reading and naming a group is not in it; a letter with a path keeps it."""
    mine = [burial(5, n, 10) for n in range(3)]
    settle(7, matched=3, bury=mine)
    settle(7, finish=[DeliveryId(5, 0)])
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, mine[:2]), "one", 20))
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, mine), "two", 30))
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, mine), "three", 40))
    assert run(ledger.burials_due(99, 9, LARGE, NOBODY)) == DeadLetterGroup(7, "dead", "one", 20, [mine[1]])
    run(ledger.written(7, "one"))
    assert run(ledger.burials_due(99, 9, LARGE, NOBODY)) == DeadLetterGroup(7, "dead", "two", 30, [mine[2]])
    run(ledger.written(7, "two"))
    assert run(ledger.burials_due(99, 9, LARGE, NOBODY)) is None


def test_written_and_abandoned_count_once(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """A repeated or unknown word about a group changes nothing."""
    settle(7, matched=3, bury=[burial(5, n) for n in range(3)])
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5, 0), burial(5, 1)]), "one", 1))
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5, 2)]), "two", 2))
    for _ in range(2):
        run(ledger.written(7, "one"))
        run(ledger.abandon(7, "one", "why"))
        run(ledger.abandon(7, "two", "DeadLetterUnavailable"))
        run(ledger.written(7, "two"))
        run(ledger.written(7, "three"))
        run(ledger.written(99, "one"))
        run(ledger.abandon(99, "one", "why"))
    counts = run(ledger.lane(7)).counts
    assert counts == LaneCounts(matched=3, dead_lettered=2, dropped={"DeadLetterUnavailable": 1})
    assert run(ledger.next_burial_at()) is None


def test_reasons_count_once_with_their_group(stores: Any, run: Any) -> None:
    """They are added up when a group is counted as written, and never say more than it had."""
    lane = run(stores.ledger.open_lane(7, 3, LOG, 5))
    run(stores.ledger.settle([settlement(lane, matched=6, bury=[burial(5, n) for n in range(6)])]))
    groups = {"one": (0, 1), "two": (2, 3), "three": (4,), "four": (5,)}
    for path, offsets in groups.items():
        run(stores.ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5, n) for n in offsets]), path, 1))
    for _ in range(2):
        run(stores.ledger.written(7, "one", reasons={"a": 1, "b": 1}))
        run(stores.ledger.written(7, "two", None, 0, {"b": 1}))
        run(stores.ledger.written(7, "three", reasons={"a": 1, "c": 1}))
        run(stores.ledger.abandon(7, "four", "why"))
        run(stores.ledger.written(7, "four", reasons={"d": 1}))
        run(stores.ledger.written(99, "one", reasons={"d": 1}))
    run(stores.reopen())
    before = run(stores.ledger.lane(7))
    assert before.counts == LaneCounts(matched=6, dead_lettered=5, dropped={"why": 1}, reasons={"a": 1, "b": 2})
    run(stores.ledger.settle([settlement(before, ended=True)]))
    assert run(stores.ledger.lane(7)).counts == before.counts
    run(stores.ledger.close_lane(7))
    assert run(stores.ledger.open_lane(7, 3, LOG, 5)).counts == LaneCounts()


def test_a_notice_is_kept_until_it_was_taken(stores: Any, run: Any) -> None:
    """It comes with its group, once; its number is new, and what was taken goes when the next one comes."""
    ledger = stores.ledger
    lane = run(ledger.open_lane(7, 3, LOG, 5))
    run(ledger.settle([settlement(lane, matched=4, bury=[burial(5, n) for n in range(4)])]))
    for n in range(4):
        run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5, n)]), f"path{n}", 1))
    for n in (0, 0, 1):
        run(ledger.written(7, f"path{n}", b"%d" % n, 0))
    run(ledger.written(7, "nowhere", b"none", 2))
    assert run(ledger.notices(0, 9)) == [Notice(1, b"0"), Notice(2, b"1")]
    assert run(ledger.notices(1, 9)) == [Notice(2, b"1")] and run(ledger.notices(0, 1)) == [Notice(1, b"0")]
    run(ledger.written(7, "path2"))
    run(ledger.written(7, "path3", b"3", 1))
    run(stores.reopen())
    assert run(stores.ledger.notices(0, 9)) == [Notice(2, b"1"), Notice(3, b"3")]


def test_a_notice_has_a_number_that_was_never_taken(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """Beside a log that has taken more than this ledger knows of, as after a restore, it is not passed over."""
    settle(7, matched=1, bury=[burial(5)])
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5)]), "path", 1))
    run(ledger.written(7, "path", b"new", 40))
    assert run(ledger.notices(0, 9)) == [Notice(41, b"new")]


def test_writing_dead_letters_does_not_stale_the_lane(ledger: Any, run: Any, lane: LaneRow, settle: Any) -> None:
    """The lane's own settlements go on while its dead letters are written."""
    before = settle(7, matched=1, bury=[burial(5)])
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(5)]), "one", 1))
    run(ledger.written(7, "one"))
    run(ledger.settle([settlement(before, matched=1, delivered=1)]))
    assert run(ledger.lane(7)).counts == LaneCounts(matched=2, delivered=1, dead_lettered=1)


def test_the_ledger_outlives_a_restart(stores: Any, run: Any) -> None:
    """Lanes, parked deliveries, dead letters and named groups are there after a restart as they were."""
    ledger = stores.ledger
    lane = run(ledger.open_lane(7, 3, LOG, 5))
    rows = [parked(5, n, 10 + n, **TRIED) for n in range(2)]
    run(ledger.settle([settlement(lane, matched=5, park=rows, bury=[burial(6, n) for n in range(2)],
                                  drop=[_drop(6, 9, "why")])]))  # fmt: skip
    run(ledger.name_group(DeadLetterGroup(7, "dead", None, None, [burial(6, 0)]), "path", 3))
    before = (run(ledger.lanes()), run(ledger.due(7, 99, 9)), run(ledger.burials_due(99, 9, LARGE, NOBODY)))
    run(stores.reopen())
    ledger = stores.ledger
    assert (run(ledger.lanes()), run(ledger.due(7, 99, 9)), run(ledger.burials_due(99, 9, LARGE, NOBODY))) == before
    assert before[2] == DeadLetterGroup(7, "dead", "path", 3, [burial(6, 0)])
