"""The stage: what a lane has done since its last settlement, and what a late answer takes back."""

from recapito.contracts.store import Attempts, Burial, Counts, Lane, Settlement
from recapito.dispatch.lane.settlement_builder import Stage
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, Identity, Parked
from recapito.domain.delivery.hold import CLEAR
from recapito.domain.delivery.outcome import Result

FIRST = Identity(2, 0)
ROW = Lane(1, 1, "log", 7, Cursor((2, 0)), CLEAR, Counts())


def parked(identity: Identity = FIRST) -> Parked:
    """A delivery that waits."""
    return Parked(100, Delivery(identity, 0, b"{}", attempts=1))


def settled(stage: Stage) -> Settlement:
    """What the stage would commit."""
    return stage.settlement(ROW, CLEAR)


def test_an_empty_stage_has_nothing_to_commit() -> None:
    """A cursor that passed nothing that matched is not pressing."""
    stage = Stage()
    assert stage.empty
    stage.passed([((2, 0), (3, 0))], 0, 5)
    assert not stage.empty and not stage.pressing


def test_evaluations_are_counted_with_what_is_passed() -> None:
    """What conditions looked at is settled with the range that they looked at."""
    stage = Stage()
    stage.passed([((2, 0), (3, 0))], 1, 5, 4)
    stage.passed([((3, 0), (4, 0))], 0, 2, 2)
    assert settled(stage).evaluated == 6


def test_requests_are_counted_with_what_failed() -> None:
    """Each request that landed counts once with its time, each event of a failed one under its result."""
    stage = Stage()
    stage.landed(100, 7)
    stage.landed(50, 5)
    stage.failed(Result.BUSY, 3)
    stage.failed(Result.BUSY, 1)
    assert settled(stage).attempts == Attempts(2, 12, {"Busy": 4})
    assert (stage.flights, stage.size) == (2, 150)


def test_a_late_success_takes_back_a_first_park() -> None:
    """A fresh delivery that was about to be parked is counted as delivered, and leaves no row."""
    stage = Stage()
    stage.passed([((2, 0), (3, 0))], 1, 0)
    stage.park(parked(), fresh=True)
    stage.finish(FIRST)
    result = settled(stage)
    assert (result.delivered, result.park, result.finish) == (1, (), ())


def test_a_late_success_takes_back_a_burial() -> None:
    """A delivery that has a row is finished in the ledger instead of being buried."""
    stage = Stage()
    stage.bury(Burial(FIRST, 0, "box", b"{}"), fresh=False)
    stage.finish(FIRST)
    result = settled(stage)
    assert (result.bury, result.finish, result.delivered) == ((), (FIRST,), 0)


def test_a_late_success_takes_back_a_drop() -> None:
    """What was to be dropped after its first attempt, and is not stored yet, was delivered; nothing else is counted."""
    stage = Stage()
    stage.drop(FIRST, "MaxDeliveryAttemptsExceeded", fresh=True)
    stage.finish(FIRST)
    result = settled(stage)
    assert (result.drop, result.finish, result.delivered) == ((), (), 1)


def test_a_late_success_takes_back_the_drop_of_a_row() -> None:
    """The row is in the ledger still, and is counted as delivered when it is removed."""
    stage = Stage()
    stage.drop(FIRST, "TimeToLiveExceeded", fresh=False)
    stage.finish(FIRST)
    result = settled(stage)
    assert (result.drop, result.finish, result.delivered) == ((), (FIRST,), 0)


def test_giving_up_replaces_a_park() -> None:
    """One delivery is in one place."""
    stage = Stage()
    stage.park(parked(), fresh=False)
    stage.drop(FIRST, "Canceled", fresh=False)
    assert (settled(stage).park, stage.rows) == ((), 1)
