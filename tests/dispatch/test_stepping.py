"""What a manual clock says has happened."""

from recapito.dispatch.stepping import Books
from recapito.store import Counts


def test_what_happened_is_what_the_books_gained() -> None:
    """New lanes count from nothing, and lanes that ended meanwhile take nothing away."""
    before = Books(3, {1: Counts(matched=5, delivered=4), 2: Counts(matched=7, delivered=7)})
    after = Books(9, {1: Counts(matched=6, delivered=4, dropped={"Canceled": 1}), 3: Counts(matched=3, delivered=2)})
    assert after.since(before) == {
        "attempts": 6,
        "delivered": 2,
        "deadLettered": 0,
        "dropped": 1,
        "pending": 2,
    }
