"""The stage: what a lane has done since its last settlement, and what a late answer takes back."""

from recapito.contracts.ledger import AttemptTotals, Burial, LaneCounts, LaneRow, Settlement
from recapito.dispatch.capacity import CommitBudget
from recapito.dispatch.lane.settlement import LaneBooks, SettlementBuilder
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.delivery.outcome import Result

FIRST = DeliveryId(2, 0)
ROW = LaneRow(1, 1, "log", 7, Cursor((2, 0)), CLEAR, LaneCounts())


def parked(identity: DeliveryId = FIRST) -> Parked:
    """A delivery that waits."""
    return Parked(100, Delivery(identity, 0, b"{}", attempts=1))


def settled(staged: SettlementBuilder) -> Settlement:
    """The settlement that the builder would commit."""
    return staged.settlement(ROW, CLEAR)


def test_an_empty_stage_has_nothing_to_commit() -> None:
    """A cursor that passed nothing that matched is not pressing."""
    staged = SettlementBuilder()
    assert staged.empty
    staged.passed([((2, 0), (3, 0))], 0, 5)
    assert not staged.empty and not staged.pressing


def test_evaluations_are_counted_with_what_is_passed() -> None:
    """Evaluated events are settled with the range in which they were evaluated."""
    staged = SettlementBuilder()
    staged.passed([((2, 0), (3, 0))], 1, 5, 4)
    staged.passed([((3, 0), (4, 0))], 0, 2, 2)
    assert settled(staged).evaluated == 6


def test_requests_are_counted_with_what_failed() -> None:
    """Each request that landed counts once with its time, each event of a failed one under its result."""
    staged = SettlementBuilder()
    staged.landed(100, 7)
    staged.landed(50, 5)
    staged.failed(Result.BUSY, 3)
    staged.failed(Result.BUSY, 1)
    assert settled(staged).attempts == AttemptTotals(2, 12, {"Busy": 4})
    assert (staged.requests, staged.size) == (2, 150)


def test_a_late_success_takes_back_a_first_park() -> None:
    """A fresh delivery that was about to be parked is counted as delivered, and leaves no row."""
    staged = SettlementBuilder()
    staged.passed([((2, 0), (3, 0))], 1, 0)
    staged.park(parked(), fresh=True)
    staged.finish(FIRST)
    result = settled(staged)
    assert (result.delivered, result.park, result.finish) == (1, (), ())


def test_a_late_success_takes_back_a_burial() -> None:
    """A delivery that has a row is finished in the ledger instead of being buried."""
    staged = SettlementBuilder()
    staged.bury(Burial(FIRST, 0, "box", b"{}"), fresh=False)
    staged.finish(FIRST)
    result = settled(staged)
    assert (result.bury, result.finish, result.delivered) == ((), (FIRST,), 0)


def test_a_late_success_takes_back_a_drop() -> None:
    """A drop after the first attempt that is not stored yet becomes a delivery; nothing else is counted."""
    staged = SettlementBuilder()
    staged.drop(FIRST, "MaxDeliveryAttemptsExceeded", fresh=True)
    staged.finish(FIRST)
    result = settled(staged)
    assert (result.drop, result.finish, result.delivered) == ((), (), 1)


def test_a_late_success_takes_back_the_drop_of_a_row() -> None:
    """The row is in the ledger still, and is counted as delivered when it is removed."""
    staged = SettlementBuilder()
    staged.drop(FIRST, "TimeToLiveExceeded", fresh=False)
    staged.finish(FIRST)
    result = settled(staged)
    assert (result.drop, result.finish, result.delivered) == ((), (FIRST,), 0)


def test_giving_up_replaces_a_park() -> None:
    """One delivery is in one place."""
    staged = SettlementBuilder()
    staged.park(parked(), fresh=False)
    staged.drop(FIRST, "Canceled", fresh=False)
    assert (settled(staged).park, staged.rows) == ((), 1)


def test_books_are_settled_when_the_commit_has_ended() -> None:
    """Neither a staged settlement nor one that is being committed is stored."""
    books = LaneBooks(ROW, CommitBudget(10))
    assert books.settled
    books.staged.finish(FIRST)
    assert not books.settled
    settlement = books.begin_commit()
    assert not books.settled
    books.end_commit(settlement)
    assert books.settled
