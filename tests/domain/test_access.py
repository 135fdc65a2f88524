"""Keys of a topic."""

import pytest

from recapito.domain.access import key_matches


@pytest.mark.parametrize(
    ("given", "matches"),
    [
        ("first-key", True),
        ("second-key", True),
        ("", False),
        ("first-ke", False),
        ("first-keys", False),
        ("FIRST-KEY", False),
        ("first-key ", False),
        ("schlüssel", False),
        ("\udcff", False),
    ],
)
def test_either_key_opens_and_nothing_else(given: str, matches: bool) -> None:
    """A key matches only if it is one of the two, whole and in its own case, and no text makes the check fail."""
    assert key_matches(given, "first-key", "second-key") is matches
