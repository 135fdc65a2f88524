"""Slots and windows: how much may be under way, and who is told when there is room."""

import pytest

from recapito.dispatch.capacity import CommitBudget, Slots, Window, fitting
from recapito.domain import limits
from recapito.domain.capacity import Room


class Waiting:
    """A waiter that counts how often it is woken."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def taken(slots: Slots, count: int) -> Slots:
    """Slots of which `count` are taken."""
    for _ in range(count):
        slots.take(1)
    return slots


def test_a_quarter_is_kept_for_the_responsive() -> None:
    """Lanes whose endpoint did not answer a moment ago may take three quarters."""
    slots = taken(Slots(8), 6)
    assert slots.free(responsive=True, open=0)
    assert not slots.free(responsive=False, open=0)
    assert not taken(slots, 2).free(responsive=True, open=0)


def test_lanes_that_hang_at_once_leave_room_for_others() -> None:
    """Thirty lanes that answered a moment ago take what they are given and hang: another one still gets a slot."""
    slots = Slots()
    for _ in range(30):
        for open in range(limits.WINDOW_REQUESTS):
            if slots.free(responsive=True, open=open):
                slots.take(1)
    assert slots.free(responsive=True, open=0)


def test_a_lower_bound_takes_nothing_back() -> None:
    """Requests above a new bound go on; none is started until there is room below it."""
    slots = taken(Slots(16), 10)
    slots.allow(8)
    assert not slots.free(responsive=True, open=0)
    assert not slots.free(responsive=False, open=0)
    for _ in range(4):
        slots.give_back(1)
    assert slots.free(responsive=True, open=0)
    slots.allow(16)
    assert slots.free(responsive=True, open=0) > 2


def test_bytes_are_limited_too() -> None:
    """Few requests may be too many bytes."""
    slots = Slots(100, size=1000)
    slots.take(800)
    assert slots.free(responsive=True, open=0)
    assert not slots.free(responsive=False, open=0)


def test_a_slot_goes_to_who_may_take_it() -> None:
    """A responsive lane does not wait behind one for which there is no room."""
    slots = taken(Slots(8), 8)
    slow, quick = Waiting(), Waiting()
    slots.wait(slow, responsive=False)
    slots.wait(quick, responsive=True)
    slots.give_back(1)
    assert (slow.woken, quick.woken) == (0, 1)


def test_a_few_are_woken_when_there_is_room() -> None:
    """Those that waited longest first, each once; a few more than one, who may not be allowed to take it."""
    slots = taken(Slots(8), 8)
    waiting = [Waiting() for _ in range(6)]
    for each in waiting:
        slots.wait(each, responsive=True)
        slots.wait(each, responsive=True)
    slots.give_back(1)
    assert [each.woken for each in waiting] == [1, 1, 1, 1, 0, 0]
    slots.give_back(1)
    assert [each.woken for each in waiting] == [1, 1, 1, 1, 1, 1]


def test_all_are_woken_when_there_is_plenty_of_room() -> None:
    """A woken waiter may not want the slot any more, and no other would ever hear of it."""
    slots = taken(Slots(8), 4)
    waiting = [Waiting() for _ in range(20)]
    for each in waiting:
        slots.wait(each, responsive=False)
    slots.give_back(1)
    assert all(each.woken == 1 for each in waiting)


def test_closed_slots_are_not_free() -> None:
    """A process that stops starts nothing new."""
    slots = Slots()
    slots.closed = True
    assert not slots.free(responsive=True, open=0)


def test_a_window_grows_by_one_and_halves() -> None:
    """Success gives one more, failure takes half, and never nothing is left."""
    window = Window()
    for _ in range(200):
        window.succeeded()
    assert window.size == limits.WINDOW_REQUESTS
    for _ in range(10):
        window.failed()
    assert window.size == 1
    window.succeeded()
    window.restart()
    assert window.size == 1


def test_lanes_gather_less_when_all_of_them_have_plenty() -> None:
    """The rows of each lane are counted anew each time; with plenty gathered a lane may add a few rows only."""
    commit_budget = CommitBudget(100)
    commit_budget.count(1, 99)
    assert commit_budget.slice == limits.PARKED_SLICE
    commit_budget.count(2, 1)
    assert (commit_budget.total, commit_budget.slice) == (100, limits.PARKED_SLICE_LEAST)
    commit_budget.count(1, 0)
    assert (commit_budget.total, commit_budget.slice) == (1, limits.PARKED_SLICE)


@pytest.mark.parametrize(
    ("sizes", "count"), [([], 0), ([0, 0], 2), ([4, 6], 2), ([4, 6, 1], 2), ([11, 1], 1), ([0, 11], 1), ([10, 0, 1], 2)]
)
def test_what_fits_into_one_commit(sizes: list[int], count: int) -> None:
    """As many as are within the limit together, and one at least."""
    assert fitting(sizes, 10) == count


def test_slots_follow_the_room_to_park_what_fails() -> None:
    """A quarter of the room may be under way; when it is short, one request at a time, and never none."""
    slots = Slots(100, size=1000)
    slots.fit(Room(400, 100))
    slots.take(80)
    assert not slots.free(responsive=False, open=0)
    slots.fit(Room(1 << 40, 100))
    assert slots.free(responsive=False, open=0) > 1
    slots.give_back(80)
    slots.fit(Room(0, 100))
    assert slots.free(responsive=False, open=0) == 1


def test_a_failure_leaves_half_of_a_window() -> None:
    """Half, rounded down: one failure among many successes costs little."""
    window = Window(9)
    window.failed()
    assert window.size == 4
