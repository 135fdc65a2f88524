"""The retries of a lane that are here: how large they are, and that letting go of them loses none."""

from recapito.dispatch.retries import Retries
from recapito.domain.delivery import Delivery, Identity, Parked
from recapito.store import Due


def parked(due_at: int) -> Parked:
    return Parked(due_at, Delivery(Identity(1, due_at), 0, b"event"))


def test_what_is_let_go_is_fetched_again() -> None:
    """A lane that is held keeps no retries: the ledger has them, and is asked again from the earliest on."""
    retries = Retries(5)
    retries.begin_fetch()
    retries.queue(retries.end_fetch(Due([parked(5), parked(7)], 20), set()))
    assert (len(retries), retries.size, retries.next_fetch_at) == (2, 10, None)
    retries.let_go()
    assert (len(retries), retries.size, retries.next_fetch_at) == (0, 0, 5)
    assert retries.wants_fetch(5) and retries.has_work


def test_letting_go_of_nothing_changes_nothing() -> None:
    """Without retries here, the ledger is asked when it was to be asked anyway."""
    retries = Retries(20)
    retries.let_go()
    assert retries.next_fetch_at == 20


def test_the_size_follows_what_is_here() -> None:
    """What a late answer delivered counts no more."""
    retries = Retries(None)
    retries.queue([parked(5), parked(7)])
    retries.discard(Identity(1, 5))
    assert (len(retries), retries.size) == (1, 5)
