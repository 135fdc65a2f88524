"""What was published, by topic, since the start: kept in memory, counted once per request, never per event.

The log has what is durable; these counts begin again with the process, as counters of a metric may.
"""

from collections.abc import Set

import msgspec

from recapito.domain import limits


class TopicCounters(msgspec.Struct):
    """The publishes of one topic: stored ones with their events, bytes and time, refused ones by what was wrong.

    `unmatched` counts events of times in which the topic had no subscription; `looked_at` are the events before it.
    """

    publishes: int = 0
    events: int = 0
    bytes: int = 0
    took_ns: int = 0
    failed: dict[str, int] = {}
    unmatched: int = 0
    looked_at: int = 0


class PublishCounters:
    """The counts of all topics, by their ids. When there are too many, those counted longest ago are forgotten."""

    def __init__(self) -> None:
        self._of: dict[int, TopicCounters] = {}

    def of(self, topic: int) -> TopicCounters:
        """The counts of a topic, to be read."""
        return self._of.get(topic) or TopicCounters()

    def stored(self, topic: int, events: int, size: int, took_ns: int) -> None:
        """A publish was stored."""
        tally = self._of.get(topic) or self._begin(topic)
        tally.publishes += 1
        tally.events += events
        tally.bytes += size
        tally.took_ns += took_ns

    def failed(self, topic: int, error: str) -> None:
        """A publish was refused, or could not be stored."""
        failed = (self._of.get(topic) or self._begin(topic)).failed
        failed[error] = failed.get(error, 0) + 1

    def look(self, subscribed: Set[int]) -> None:
        """What came since the last look to topics that nobody subscribes to matched nothing."""
        for topic, tally in self._of.items():
            if topic not in subscribed:
                tally.unmatched += tally.events - tally.looked_at
            tally.looked_at = tally.events

    def _begin(self, topic: int) -> TopicCounters:
        if len(self._of) >= limits.TALLIES:
            del self._of[next(iter(self._of))]
        tally = self._of[topic] = TopicCounters()
        return tally
