"""The rules of the lease: who may try to own, and who may send."""

from recapito.domain.cluster.lease import (
    ABSENT_NS,
    FENCED_DOUBLINGS,
    FENCED_PAUSE_NS,
    LIFE_NS,
    RENEW_NS,
    SEND_NS,
    STEADY_NS,
    Lease,
    LeaseSeen,
    LeaseWatch,
    fenced,
    look,
    may_send,
    owned,
    unsure,
)
from recapito.domain.instant import SECOND

ABSENT = LeaseSeen(None)
HELD = LeaseSeen(Lease("a", "1", "http://a", 1), 7)
FREED = LeaseSeen(Lease(term=1), 8)


def test_an_absent_lease_is_tried_after_two_looks() -> None:
    """One look proves nothing; two, two seconds apart, allow a try."""
    watch, try_now = look(LeaseWatch(), ABSENT, 0)
    assert not try_now
    watch, try_now = look(watch, ABSENT, ABSENT_NS - 1)
    assert not try_now
    assert look(watch, ABSENT, ABSENT_NS)[1]


def test_a_lease_that_shows_between_begins_anew() -> None:
    """The looks must be in a row: a holder that shows, or a look that fails, starts the count again."""
    watch, _ = look(LeaseWatch(), ABSENT, 0)
    watch, try_now = look(watch, HELD, SECOND)
    assert not try_now
    assert not look(watch, ABSENT, 3 * SECOND)[1]
    watch, _ = look(LeaseWatch(), ABSENT, 0)
    assert not look(unsure(watch), ABSENT, 3 * SECOND)[1]


def test_a_lease_that_was_given_up_is_tried_at_once() -> None:
    """A planned hand-over does not wait."""
    assert look(LeaseWatch(), FREED, 0)[1]


def test_a_fenced_node_waits_longer_each_time_within_bounds() -> None:
    """Ten seconds, then twice as long, at most sixteen times; a freed lease does not tempt it."""
    watch, pauses = LeaseWatch(), []
    for _ in range(FENCED_DOUBLINGS + 3):
        watch = fenced(watch, 0)
        pauses.append(watch.not_before)
    assert pauses[:3] == [FENCED_PAUSE_NS, 2 * FENCED_PAUSE_NS, 4 * FENCED_PAUSE_NS]
    assert pauses[-1] == pauses[-2] == FENCED_PAUSE_NS << FENCED_DOUBLINGS
    assert not look(watch, FREED, watch.not_before - 1)[1]
    assert look(watch, FREED, watch.not_before)[1]


def test_a_wait_ends_when_another_node_holds_the_lease() -> None:
    """Whether that node then gives it up or dies, the fenced one may try; its own lease does not end its wait."""
    waiting = fenced(LeaseWatch(), 0)
    assert look(waiting, HELD, 1, ours="1")[0].not_before == FENCED_PAUSE_NS
    watch, try_now = look(waiting, HELD, 1, ours="2")
    assert not try_now
    assert look(watch, FREED, 2)[1]
    watch, _ = look(watch, ABSENT, 3)
    assert look(watch, ABSENT, 3 + ABSENT_NS)[1]
    assert watch.fenced == 1


def test_a_steady_owner_forgets_its_losses() -> None:
    """After ten minutes as owner the next loss counts as the first."""
    watch = fenced(fenced(LeaseWatch(), 0), 0)
    assert owned(watch, 0, STEADY_NS - 1).fenced == 2
    assert owned(watch, 0, STEADY_NS).fenced == 0


def test_an_owner_sends_only_with_a_fresh_lease() -> None:
    """It stops sending before its lease can have run out for others, whenever it was renewed."""
    assert may_send(100, 100 + SEND_NS - 1)
    assert not may_send(100, 100 + SEND_NS)
    assert not may_send(0, 10 * SECOND)
    assert RENEW_NS < SEND_NS < LIFE_NS
