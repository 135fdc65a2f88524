"""The soak is sound: it accounts for each event, notices what is missing, and a short one of a real server is even."""

from pathlib import Path

import pytest

from tests.soak.__main__ import soak
from tests.soak.books import Books, unbalanced


def test_what_is_missing_is_noticed() -> None:
    """An event that was acknowledged and did not arrive is lost, whatever else did."""
    books = Books()
    books.published(["a", "b"], 200)
    books.published(["c"], 503)
    books.published(["d"], None)
    books.arrive("steady", ["a", "d"])
    assert books.missing("steady") == {"b"} and books.missing("other") == {"a", "b"}
    assert not books.invented("steady")


def test_repetitions_and_inventions_are_counted() -> None:
    """A second arrival is counted; an event that was never published is an error."""
    books = Books()
    books.published(["a"], 200)
    books.arrive("steady", ["a", "a", "z"])
    assert books.repeated("steady") == 1 and books.invented("steady") == {"z"}


def test_the_server_s_own_books_are_checked() -> None:
    """They must be even, and nothing may be left pending."""
    even = {"matched": 5.0, "delivered": 3.0, "dead_lettered": 1.0, "dropped": 1.0, "pending": 0.0}
    assert unbalanced(even) is None
    assert unbalanced({**even, "matched": 6.0}) == "matched 6 is not 5 + 0"
    assert unbalanced({**even, "matched": 6.0, "pending": 1.0}) == "1 are pending"


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some seconds of kills under load: all that was acknowledged arrives, and the record says so."""
    assert not soak(tmp_path / "data", minutes=0.1, seed=5, rate=60, pause_s=1.5, mounted=False)
    assert capsys.readouterr().out.rstrip().endswith(" 0 lost, 0 wrong")
