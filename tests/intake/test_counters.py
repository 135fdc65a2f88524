"""The counts of publishes by topic."""

from recapito.domain import limits
from recapito.intake.publish.counters import PublishCounters, TopicCounters


def test_publishes_are_added_up_by_topic() -> None:
    """Stored ones with events, bytes and time, failed ones by what was wrong; a topic without any has zeros."""
    tallies = PublishCounters()
    tallies.stored(1, 3, 300, 7)
    tallies.stored(1, 1, 50, 5)
    tallies.failed(2, "BadRequest")
    tallies.failed(2, "BadRequest")
    assert tallies.of(1) == TopicCounters(publishes=2, events=4, bytes=350, took_ns=12)
    assert tallies.of(2) == TopicCounters(failed={"BadRequest": 2})
    assert tallies.of(3) == TopicCounters()


def test_what_nobody_subscribes_to_is_unmatched() -> None:
    """Only what came while the topic had no subscription, and once."""
    tallies = PublishCounters()
    tallies.stored(1, 3, 0, 0)
    tallies.look(set())
    tallies.look(set())
    tallies.stored(1, 5, 0, 0)
    tallies.look({1})
    tallies.stored(1, 2, 0, 0)
    tallies.look({2})
    assert tallies.of(1).unmatched == 5


def test_what_is_counted_is_bounded() -> None:
    """Beyond the limit the topic that came first is forgotten."""
    tallies = PublishCounters()
    for topic in range(limits.TALLIES + 1):
        tallies.stored(topic, 1, 0, 0)
    assert tallies.of(0).events == 0 and tallies.of(1).events == tallies.of(limits.TALLIES).events == 1
