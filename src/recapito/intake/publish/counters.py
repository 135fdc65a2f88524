"""Publishes by topic since the process started: kept in memory, counted once per request, never per event.

Nothing here is durable. The counts start again with the process, as the counters of a metric may.
"""

from collections.abc import Set

import msgspec

from recapito.domain import limits


class TopicCounters(msgspec.Struct):
    """The publishes of one topic: stored ones with their events, bytes and time, refused ones by error.

    `unmatched` counts the events published while the topic had no subscription; `checked` is the number of events at
    the last check for subscriptions.
    """

    publishes: int = 0
    events: int = 0
    bytes: int = 0
    took_ns: int = 0
    failed: dict[str, int] = {}
    unmatched: int = 0
    checked: int = 0


class PublishCounters:
    """The counts of all topics, by id. When there are too many, the topic counted longest ago is forgotten."""

    def __init__(self) -> None:
        self._of: dict[int, TopicCounters] = {}

    def of(self, topic: int) -> TopicCounters:
        """The counts of a topic; a topic without counts has zeros."""
        return self._of.get(topic) or TopicCounters()

    def stored(self, topic: int, events: int, size: int, took_ns: int) -> None:
        counts = self._of.get(topic) or self._begin(topic)
        counts.publishes += 1
        counts.events += events
        counts.bytes += size
        counts.took_ns += took_ns

    def failed(self, topic: int, error: str) -> None:
        """Count a publish that was refused or could not be stored."""
        failed = (self._of.get(topic) or self._begin(topic)).failed
        failed[error] = failed.get(error, 0) + 1

    def check_subscribed(self, subscribed: Set[int]) -> None:
        """Count as unmatched every event published since the last call to a topic without subscriptions."""
        for topic, counts in self._of.items():
            if topic not in subscribed:
                counts.unmatched += counts.events - counts.checked
            counts.checked = counts.events

    def _begin(self, topic: int) -> TopicCounters:
        if len(self._of) >= limits.TALLIES:
            del self._of[next(iter(self._of))]
        counts = self._of[topic] = TopicCounters()
        return counts
