"""The counts of publishes by topic."""

from recapito.domain import limits
from recapito.intake.publish.counters import PublishCounters, TopicCounters


def test_publishes_are_added_up_by_topic() -> None:
    """Stored ones with events, bytes and time, failed ones by what was wrong; a topic without any has zeros."""
    counters = PublishCounters()
    counters.stored(1, 3, 300, 7)
    counters.stored(1, 1, 50, 5)
    counters.failed(2, "BadRequest")
    counters.failed(2, "BadRequest")
    assert counters.of(1) == TopicCounters(publishes=2, events=4, bytes=350, took_ns=12)
    assert counters.of(2) == TopicCounters(failed={"BadRequest": 2})
    assert counters.of(3) == TopicCounters()


def test_what_nobody_subscribes_to_is_unmatched() -> None:
    """Only what came while the topic had no subscription, and once."""
    counters = PublishCounters()
    counters.stored(1, 3, 0, 0)
    counters.check_subscribed(set())
    counters.check_subscribed(set())
    counters.stored(1, 5, 0, 0)
    counters.check_subscribed({1})
    counters.stored(1, 2, 0, 0)
    counters.check_subscribed({2})
    assert counters.of(1).unmatched == 5


def test_what_is_counted_is_bounded() -> None:
    """Beyond the limit the topic that came first is forgotten."""
    counters = PublishCounters()
    for topic in range(limits.TALLIES + 1):
        counters.stored(topic, 1, 0, 0)
    assert counters.of(0).events == 0 and counters.of(1).events == counters.of(limits.TALLIES).events == 1
