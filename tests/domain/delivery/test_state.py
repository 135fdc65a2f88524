"""The state of a delivery in words."""

import pytest

from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Result
from recapito.domain.delivery.state import DeliveryFacts, state_of
from recapito.domain.delivery.vocabulary import State
from recapito.domain.instant import DAY
from recapito.domain.profiles.profile import DEFAULT, load
from tests.kit.resources import a_subscription


@pytest.mark.parametrize(
    ("attempts", "ordinal"),
    [(0, "1st"), (1, "2nd"), (2, "3rd"), (3, "4th"), (10, "11th"), (11, "12th"), (12, "13th"), (20, "21st")],
)
def test_the_next_attempt_is_numbered(attempts: int, ordinal: str) -> None:
    """A parked delivery names its next attempt by an ordinal, the teens included."""
    delivery = DeliveryId(1, 0)
    parked = Parked(10, Delivery(delivery, 0, b"{}", attempts))
    state = state_of(DeliveryFacts(a_subscription(), load(DEFAULT), delivery, 0, None, Hold(), parked, (), 5))
    assert state.state is State.PARKED
    assert state.text.startswith(f"Its {ordinal} attempt waits until ")


@pytest.mark.parametrize(("published_at", "said"), [(None, False), (0, True)])
def test_a_held_event_whose_age_is_unknown_has_no_expiry(published_at: int | None, said: bool) -> None:
    """The time to live is named where it ends before the hold does, if the event's time is known."""
    hold = Hold(10, 2 * DAY, DAY, Result.TIMED_OUT)
    case = DeliveryFacts(a_subscription(), load(DEFAULT), DeliveryId(1, 0), published_at, None, hold, None, (), 5)
    state = state_of(case)
    assert state.state is State.HELD
    assert ("Its time to live ends before that" in state.text) is said
