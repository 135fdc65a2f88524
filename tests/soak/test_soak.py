"""The soak is sound: it accounts for each event, notices what is missing, and a short one of a real server is even."""

from pathlib import Path

import pytest

from tests.soak.__main__ import soak
from tests.soak.books import Books, unaccounted, unbalanced


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


def test_what_was_damaged_is_accounted_for() -> None:
    """A missing event was in a damaged record that is shown, and is counted; books that began again may not know."""
    assert unaccounted({"a"}, {"a", "b"}, 1, begun_again=False) is None
    assert unaccounted({"a"}, {"a", "b"}, 2, begun_again=False) is None  # one had just arrived
    assert unaccounted({"a"}, {"a"}, 0, begun_again=True) is None
    assert unaccounted({"a", "c"}, {"a"}, 1, begun_again=False) == "1 acknowledged events never arrived, one is c"
    for corrupt in (0, 2):
        said = unaccounted({"a"}, {"a"}, corrupt, begun_again=False)
        assert said == f"{corrupt} are counted as CorruptRecord; of 1 that were damaged 1 are missing"


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some seconds of kills and damage under load: all that was acknowledged arrives or is given up, and is told."""
    assert not soak(tmp_path / "data", minutes=0.1, seed=5, rate=60, pause_s=1.5, mounted=False)
    told = capsys.readouterr().out.rstrip()
    assert told.endswith(" 0 lost, 0 wrong") and " damaged" in told
