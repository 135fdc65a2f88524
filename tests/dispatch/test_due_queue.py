"""The retries of a lane that are here: how large they are, and that letting go of them loses none."""

from recapito.contracts.ledger import DueDeliveries
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked


def parked(due_at: int) -> Parked:
    return Parked(due_at, Delivery(DeliveryId(1, due_at), 0, b"event"))


def test_what_is_let_go_is_fetched_again() -> None:
    """A lane that is held keeps no retries: the ledger has them, and is asked again from the earliest on."""
    due_queue = DueQueue(5)
    due_queue.begin_fetch()
    due_queue.queue(due_queue.end_fetch(DueDeliveries([parked(5), parked(7)], 20), set()))
    assert (len(due_queue), due_queue.size, due_queue.next_fetch_at) == (2, 10, None)
    due_queue.let_go()
    assert (len(due_queue), due_queue.size, due_queue.next_fetch_at) == (0, 0, 5)
    assert due_queue.wants_fetch(5) and due_queue.has_work


def test_letting_go_of_nothing_changes_nothing() -> None:
    """Without retries here, the ledger is asked when it was to be asked anyway."""
    due_queue = DueQueue(20)
    due_queue.let_go()
    assert due_queue.next_fetch_at == 20


def test_the_size_follows_what_is_here() -> None:
    """A delivery that a late answer settled counts no more."""
    due_queue = DueQueue(None)
    due_queue.queue([parked(5), parked(7)])
    due_queue.discard(DeliveryId(1, 5))
    assert (len(due_queue), due_queue.size) == (1, 5)


def test_what_is_parked_during_a_fetch_is_fetched_later() -> None:
    """The ledger answered before the settlement was stored: its answer misses the row, and the lane still asks."""
    due_queue = DueQueue(5)
    due_queue.begin_fetch()
    due_queue.settled([DeliveryId(1, 30)], [parked(30)])
    assert due_queue.end_fetch(DueDeliveries([parked(5)], None), set()) == [parked(5)]
    assert due_queue.next_fetch_at == 30


def test_the_earliest_of_what_is_parked_during_a_fetch_counts() -> None:
    """Two settlements overtake a fetch, and the ledger knows of a third row: the earliest of the three is next."""
    for times in ((30, 40, 50), (40, 30, 50), (50, 40, 30)):
        due_queue = DueQueue(5)
        due_queue.begin_fetch()
        for due_at in times[:2]:
            due_queue.settled([DeliveryId(1, due_at)], [parked(due_at)])
        due_queue.end_fetch(DueDeliveries([], times[2]), set())
        assert due_queue.next_fetch_at == 30


def test_a_fetch_knows_nothing_of_what_was_parked_before_it() -> None:
    """Whatever was parked during the last fetch is in the ledger by now, and its answer names it."""
    due_queue = DueQueue(5)
    for answered in (DueDeliveries([], None), DueDeliveries([], 60)):
        due_queue.begin_fetch()
        if answered.next_at is None:
            due_queue.settled([DeliveryId(1, 30)], [parked(30)])
        due_queue.end_fetch(answered, set())
    assert due_queue.next_fetch_at == 60


def test_a_row_that_was_settled_during_a_fetch_is_not_taken_from_it() -> None:
    """The fetch may have read the row as it was: neither that, nor a row that is busy or here already, is taken."""
    due_queue = DueQueue(5)
    due_queue.queue([parked(6)])
    due_queue.begin_fetch()
    due_queue.settled([DeliveryId(1, 7)], [])
    taken = due_queue.end_fetch(DueDeliveries([parked(5), parked(6), parked(7), parked(8)], None), {DeliveryId(1, 8)})
    assert taken == [parked(5)]


def test_nothing_is_fetched_while_a_fetch_is_under_way() -> None:
    """The result of the fetch names the next instant: the lane need not be woken for the old one."""
    due_queue = DueQueue(5)
    assert due_queue.next_fetch_at == 5
    due_queue.begin_fetch()
    assert due_queue.next_fetch_at is None
    due_queue.end_fetch(DueDeliveries([], 9), set())
    assert due_queue.next_fetch_at == 9
