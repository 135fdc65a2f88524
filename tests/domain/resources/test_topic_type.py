"""The types of system topics: their events are those that Microsoft's client knows."""

from collections import Counter

from azure.eventgrid import SystemEventNames

from recapito.domain.resources.topic_type import TOPIC_TYPES, topic_type

_NOT_OF_A_SOURCE = ("Microsoft.EventGrid.Subscription", "Microsoft.Edge.", "Microsoft.Storage.StorageTask")


def test_events_are_those_of_azure() -> None:
    """Each name of ours is Azure's, in its spelling, and each of Azure's has a type."""
    known = {name.value for name in SystemEventNames}
    ours = {event.name for type in TOPIC_TYPES for event in type.events}
    assert ours <= known
    assert {name for name in known - ours if not name.startswith(_NOT_OF_A_SOURCE)} == set()


def test_names() -> None:
    """Each type is there once and found without regard to case, and its events are there once, with titles."""
    assert max(Counter(type.name.lower() for type in TOPIC_TYPES).values()) == 1
    for type in TOPIC_TYPES:
        assert topic_type(type.name.upper()) is type
        assert len({event.name for event in type.events}) == len(type.events)
    caches = topic_type("Microsoft.Cache.Redis")
    assert caches is not None and caches.events[2].title == "Export RDB Completed"
