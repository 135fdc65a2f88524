"""The rate limits of many topics: memory is bounded, and a topic that exceeds its rate stays refused."""

import pytest

from recapito.domain import limits
from recapito.domain.capacity import Rate
from recapito.domain.instant import SECOND
from recapito.errors import TooManyRequests
from recapito.intake.publish.publisher import Stats
from recapito.intake.publish.throttle import Throttle
from tests.intake.doubles import StillClock


def test_idle_topics_are_forgotten_and_busy_ones_are_not() -> None:
    """When there are too many meters, those stay that would refuse a publish."""
    clock = StillClock()
    throttle = Throttle(Rate(events=1), clock, Stats())
    for topic in range(limits.TOPIC_CACHE - 1):
        throttle.admit(topic, 1, 10)
    clock.instant += 100 * SECOND
    throttle.admit(-1, 1000, 10)  # as many events as take a while
    throttle.admit(-2, 1, 10)
    assert len(throttle._meters) == 2
    with pytest.raises(TooManyRequests):
        throttle.admit(-1, 1, 10)
