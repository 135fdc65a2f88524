"""The state of a delivery in words."""

import pytest

from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.state import DeliveryFacts, state_of
from recapito.domain.delivery.vocabulary import State
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
