"""Custom events on the way in: the envelope is made by the mapping, the event is kept as it came."""

import json
from typing import Any

import pytest
from hypothesis import given

from recapito.domain.events.custom_event import accept
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.segment import StampedEvent
from recapito.errors import InvalidInput, TooLarge
from tests.domain.texts import members

TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/custom"
DEFAULTS = InputMapping(
    event_type=MappedField(default="myEventType"),
    subject=MappedField(default="subjectDefault"),
    data_version=MappedField(default="1.0"),
)
FIELDS = InputMapping(
    id=MappedField("meta.id"),
    topic=MappedField("tenant"),
    event_time=MappedField("at"),
    event_type=MappedField("kind", "Default.Kind"),
    subject=MappedField("meta.place.name", "nowhere"),
    data_version=MappedField("v"),
)
NOW = 1_597_342_289_412_139_100
NOW_TEXT = "2020-08-13T18:11:29.4121391Z"


def take(event: Any, mapping: InputMapping | None = FIELDS, domain: bool = False) -> StampedEvent:
    body = json.dumps([event]).encode()
    (stamped,) = accept(body, TOPIC, mapping, NOW, lambda: "guid-1", domain)
    return stamped


def envelope(event: Any, mapping: InputMapping | None = FIELDS, domain: bool = False) -> dict[str, Any]:
    whole = json.loads(take(event, mapping, domain).body)
    assert whole.pop("data") == event
    assert list(whole) == ["id", "eventTime", "eventType", "dataVersion", "metadataVersion", "topic", "subject"]
    return {**whole}


def fault(body: bytes, mapping: InputMapping | None = FIELDS, domain: bool = False) -> str:
    with pytest.raises(InvalidInput) as caught:
        accept(body, TOPIC, mapping, NOW, lambda: "guid-1", domain)
    assert caught.value.message.startswith("This resource is configured to receive event in 'CustomEvent' schema.")
    return caught.value.message


def test_defaults_alone() -> None:
    """Without source fields the defaults count, the id is made, and the time is the publish time."""
    assert envelope({"prop1": "my property", "myEventType": "fooEventType"}, DEFAULTS) == {
        "id": "guid-1",
        "eventTime": NOW_TEXT,
        "eventType": "myEventType",
        "dataVersion": "1.0",
        "metadataVersion": "1",
        "topic": TOPIC,
        "subject": "subjectDefault",
    }


def test_mapped_fields() -> None:
    """Each field comes from its path, and filters see type, subject and version."""
    event = {
        "meta": {"id": "7", "place": {"name": "here"}},
        "at": "2026-01-01T00:00:00+02:00",
        "kind": "Orders.Created",
        "v": "3",
    }
    found = envelope(event)
    assert found["id"] == "7"
    assert found["eventTime"] == "2026-01-01T00:00:00+02:00"
    assert found["eventType"] == "Orders.Created"
    assert found["subject"] == "here"
    assert found["dataVersion"] == "3"
    assert found["topic"] == TOPIC
    taken = take(event)
    assert taken == StampedEvent(taken.body, "Orders.Created", "here", "3", id="7")


@pytest.mark.parametrize(
    ("event", "field", "expected"),
    [
        ({}, "id", "guid-1"),
        ({"meta": {"id": None}}, "id", "guid-1"),
        ({"meta": {"id": ""}}, "id", "guid-1"),
        ({"meta": {"id": 12345678901234567890}}, "id", "12345678901234567890"),
        ({"meta": {"id": True}}, "id", "true"),
        ({"meta": "text"}, "id", "guid-1"),
        ({"meta": [1]}, "subject", "nowhere"),
        ({"meta": {"place": {}}}, "subject", "nowhere"),
        ({"meta.id": "dotted"}, "id", "guid-1"),
        ({"at": None}, "eventTime", NOW_TEXT),
        ({}, "eventType", "Default.Kind"),
        ({"kind": None}, "eventType", "Default.Kind"),
        ({"Kind": "x"}, "eventType", "Default.Kind"),
        ({"v": 1.0}, "dataVersion", "1.0"),
        ({}, "dataVersion", ""),
    ],
)
def test_what_is_missing_has_its_default(event: Any, field: str, expected: str) -> None:
    """A path that leads nowhere, or to null, gives the default; numbers and booleans are taken as text."""
    assert envelope(event)[field] == expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "Token Expected: StartArray, Actual Token Received: StartObject"),
        (b"[]", "The array holds no event."),
        (b"[{}, 5]", "Event 1: an event must be an object."),
        (b'[{"kind":{}}]', "Event 0: property 'kind', its 'eventType', must be a string."),
        (b'[{"meta":{"id":["a"]}}]', "property 'meta.id', its 'id', must be a string"),
        (b'[{"kind":"' + b"x" * 4097 + b'"}]', "has more than 4096 characters"),
        (b'[{"at":"yesterday"}]', "'eventTime' is not a date and time"),
        (b'[{"v":"\\r\\nX: y"}]', "'dataVersion' must be printable ASCII"),
        (b'[{"kind":"a\\u0000"}]', "U+0000"),
        (b'[{"a":NaN}]', "no NaN"),
        (b'[{"a":' + b"[" * 64 + b"]" * 64 + b"}]", "nested deeper than"),
    ],
)
def test_what_is_refused(body: bytes, said: str) -> None:
    """The event and the property are named, and which field of the envelope it was to be."""
    assert said in fault(body)


@pytest.mark.parametrize("mapping", [None, InputMapping(), InputMapping(event_type=MappedField("type"))])
def test_an_event_type_must_come_from_somewhere(mapping: InputMapping | None) -> None:
    """Without one, by mapping or default, an event cannot be matched."""
    assert "finds no 'eventType'" in fault(b"[{}]", mapping)


def test_an_empty_event_type_is_not_a_missing_one() -> None:
    """The default stands in for what is not there; what is there and empty is refused as that."""
    mapping = InputMapping(event_type=MappedField("type", "Default"))
    assert "'eventType' that the topic's input mapping finds in it is empty" in fault(b'[{"type":""}]', mapping)


def test_in_a_domain_the_mapped_topic_names_the_topic() -> None:
    """Its whole id is in the envelope; without it the event is refused."""
    assert envelope({"tenant": "customer-7"}, domain=True)["topic"] == f"{TOPIC}/topics/customer-7"
    assert take({"tenant": "customer-7"}, domain=True).domain_topic == "customer-7"
    assert "'topic' must name a topic of this domain" in fault(b"[{}]", domain=True)
    assert "'topic' must name a topic of this domain" in fault(b"[{}]", DEFAULTS, domain=True)


def test_large_envelopes_are_too_large_together() -> None:
    """Many tiny events whose defaults are long would fill more than a segment."""
    mapping = InputMapping(event_type=MappedField(default="t"), subject=MappedField(default="x" * 4000))
    body = b"[" + b",".join([b"{}"] * 900) + b"]"
    assert len(accept(body, TOPIC, mapping, NOW, lambda: "1")) == 900
    with pytest.raises(TooLarge, match="with the envelopes"):
        accept(b"[" + b",".join([b"{}"] * 5000) + b"]", TOPIC, mapping, NOW, lambda: "1")


@given(members)
def test_the_event_is_kept_byte_for_byte(texts: list[str]) -> None:
    """Whatever members an object has, it is the data of its envelope as it was written."""
    event = ("{" + " , ".join(texts) + "}").encode()
    (stamped,) = accept(b"[ " + event + b"\n]", TOPIC, DEFAULTS, NOW, lambda: "1")
    assert stamped.body.endswith(b'"subject":"subjectDefault","data":' + event + b"}")
