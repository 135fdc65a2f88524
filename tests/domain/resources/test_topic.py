"""Topics: the ARM id that every event carries, and no key in a log line."""

from tests.kit.resources import a_topic

TOPIC = a_topic(
    id=3,
    azure_subscription="00000000-0000-0000-0000-000000000001",
    resource_group="shop",
    location="local",
    key1="KEY1",
    key2="KEY2",
)


def test_resource_id() -> None:
    """A topic is named by its ARM id."""
    prefix = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/shop"
    assert TOPIC.resource_id == f"{prefix}/providers/Microsoft.EventGrid/topics/orders"


def test_keys_are_not_shown() -> None:
    """A topic in a log line is its id and name."""
    assert repr(TOPIC) == "<Topic 3 topics/orders>"
