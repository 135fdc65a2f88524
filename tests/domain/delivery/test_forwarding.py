"""Forwarding to another Event Grid: which target takes which schema, and what becomes of `topic`."""

import json

import pytest

from recapito.domain.delivery.forwarding import check_forward, conversion_for
from recapito.domain.events.event_grid import accept
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.profiles.profile import load
from recapito.domain.resources.destination import EventGrid, profile_for
from recapito.domain.resources.topic import TopicKind
from recapito.errors import InvalidInput
from tests.kit.resources import a_topic

PROVIDER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid"
TOPIC, DOMAIN, NAMESPACE = (
    f"{PROVIDER}/topics/cloud",
    f"{PROVIDER}/domains/cloud",
    f"{PROVIDER}/namespaces/n/topics/cloud",
)
EVENT_GRID, CLOUD_EVENT, CUSTOM = DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, DeliverySchema.CUSTOM
DATA = '{"a" : 1.50, "ü": "\\u00fc"}'


def event(domain: bool) -> bytes:
    """A stored event."""
    topic = '"topic":"north",' if domain else ""
    text = f'[{{{topic}"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":{DATA}}}]'
    return accept(text.encode(), f"{PROVIDER}/here", domain)[0].body


@pytest.mark.parametrize(
    ("target", "domain", "topic"),
    [(TOPIC, False, None), (TOPIC, True, None), (DOMAIN, True, "north"), (f"{DOMAIN}/topics/south", False, "south")],
)
def test_the_topic_of_a_forwarded_event(target: str, domain: bool, topic: str | None) -> None:
    """A topic writes its own; a domain gets the name; id, time and the bytes of data stay."""
    convert = conversion_for(EventGrid(resource_id=target), EVENT_GRID)
    assert convert is not None
    stored = event(domain)
    sent = convert(stored)
    assert DATA.encode() in sent
    before, after = json.loads(stored), json.loads(sent)
    assert after.get("topic") == topic
    assert {**before, "topic": 0} == {**after, "topic": 0}
    assert accept(b"[" + sent + b"]", f"{PROVIDER}/there", topic is not None)


def test_other_schemas_go_as_they_are() -> None:
    """CloudEvents and custom events have no `topic`."""
    for schema in (CLOUD_EVENT, CUSTOM):
        assert conversion_for(EventGrid(resource_id=TOPIC), schema) is None


@pytest.mark.parametrize(
    ("target", "schema", "kind", "part"),
    [
        (NAMESPACE, EVENT_GRID, TopicKind.CUSTOM, "CloudEvents"),
        (NAMESPACE, CUSTOM, TopicKind.CUSTOM, "CloudEvents"),
        (DOMAIN, EVENT_GRID, TopicKind.CUSTOM, "/domains/NAME/topics/TOPIC"),
        (f"{DOMAIN}/topics/a", CLOUD_EVENT, TopicKind.CUSTOM, "without the topic"),
    ],
)
def test_a_pair_that_never_works_is_refused(target: str, schema: DeliverySchema, kind: TopicKind, part: str) -> None:
    """The error says what to change."""
    with pytest.raises(InvalidInput, match=part):
        check_forward(EventGrid(resource_id=target), schema, a_topic(kind=kind))


@pytest.mark.parametrize(
    ("target", "schema", "kind"),
    [
        (TOPIC, EVENT_GRID, TopicKind.CUSTOM),
        (TOPIC, CUSTOM, TopicKind.CUSTOM),
        (TOPIC, CLOUD_EVENT, TopicKind.SYSTEM),
        (NAMESPACE, CLOUD_EVENT, TopicKind.CUSTOM),
        (DOMAIN, EVENT_GRID, TopicKind.DOMAIN),
        (DOMAIN, CLOUD_EVENT, TopicKind.CUSTOM),
        (f"{DOMAIN}/topics/a", EVENT_GRID, TopicKind.CUSTOM),
    ],
)
def test_every_other_pair_is_taken(target: str, schema: DeliverySchema, kind: TopicKind) -> None:
    """The target may still refuse an event, which is then the event's fault."""
    check_forward(EventGrid(resource_id=target), schema, a_topic(kind=kind))


def test_the_destination_brings_its_profile() -> None:
    """Whatever the profile of the topic: no dated one describes this destination."""
    assert profile_for(EventGrid(resource_id=TOPIC), load("2019-05")).name == "edge"
