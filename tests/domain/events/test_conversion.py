"""Conversion on the way out: each field of each pair of schemas, and the bytes of data in all of them."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.dead_letter.record import record
from recapito.domain.delivery.delivery import TTL_EXCEEDED, Delivery, DeliveryId
from recapito.domain.events import cloud_event, custom_event, event_grid
from recapito.domain.events.conversion import split_data
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS, conversion
from recapito.domain.events.segment import Publish, Segment, pack
from tests.domain.texts import blank, members, value

TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders"
MAPPING = InputMapping(event_type=MappedField("kind", "Orders.Created"), subject=MappedField("subject"))
NOW = 1_597_342_289_412_139_100
EG, CE, CUSTOM = DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, DeliverySchema.CUSTOM


def converted(published: InputSchema, delivered: DeliverySchema, stored: bytes) -> bytes:
    convert = conversion(published, delivered)
    return stored if convert is None else convert(stored)


def published_event(**changes: object) -> bytes:
    whole = {
        "id": "e-1",
        "subject": "/orders/1",
        "eventType": "Orders.Created",
        "eventTime": "2026-01-01 00:00:00",
        "dataVersion": "1.0",
        "data": {"n": 1},
        **changes,
    }
    text = json.dumps([{name: text for name, text in whole.items() if text is not ...}])
    return event_grid.accept(text.encode(), TOPIC)[0].body


def custom(text: bytes) -> bytes:
    return custom_event.accept(b"[" + text + b"]", TOPIC, MAPPING, NOW, lambda: "guid-1")[0].body


def test_event_grid_event_as_cloud_event() -> None:
    """The fields of spec §2.4, and nothing of the versions; the time is as it was written."""
    sent = converted(InputSchema.EVENT_GRID, CE, published_event())
    assert sent == (
        b'{"specversion":"1.0","id":"e-1","source":"' + TOPIC.encode() + b'","type":"Orders.Created",'
        b'"time":"2026-01-01 00:00:00","subject":"/orders/1","data":{"n": 1}}'
    )


@pytest.mark.parametrize(
    ("changes", "absent"), [({"subject": ""}, {"subject"}), ({"data": ...}, {"data"}), ({"data": None}, set())]
)
def test_what_a_cloud_event_has_not(changes: dict[str, object], absent: set[str]) -> None:
    """An empty subject and absent data are left out; null is data."""
    sent = json.loads(converted(InputSchema.EVENT_GRID, CE, published_event(**changes)))
    assert {"specversion", "id", "source", "type", "time", "subject", "data"} - set(sent) == absent


def test_custom_event_in_three_schemas() -> None:
    """In its envelope, as a CloudEvent with the event as data, and as it was published."""
    stored = custom(b'{"kind":"Orders.Deleted", "subject":"s"}')
    assert json.loads(converted(InputSchema.CUSTOM, EG, stored))["data"] == {"kind": "Orders.Deleted", "subject": "s"}
    assert json.loads(converted(InputSchema.CUSTOM, CE, stored)) == {
        "specversion": "1.0",
        "id": "guid-1",
        "source": TOPIC,
        "type": "Orders.Deleted",
        "time": "2020-08-13T18:11:29.4121391Z",
        "subject": "s",
        "data": {"kind": "Orders.Deleted", "subject": "s"},
    }
    assert converted(InputSchema.CUSTOM, CUSTOM, stored) == b'{"kind":"Orders.Deleted", "subject":"s"}'


@pytest.mark.parametrize("published", InputSchema)
@pytest.mark.parametrize("delivered", DeliverySchema)
def test_the_matrix_is_that_of_subscriptions(published: InputSchema, delivered: DeliverySchema) -> None:
    """Every allowed pair of schemas can be converted; for any other pair no event leaves in a wrong schema."""
    stored = published_event()
    if delivered in INPUT_SCHEMAS[published].conversions:
        assert converted(published, delivered, stored)
    else:
        with pytest.raises(ValueError, match="not delivered in this schema"):
            converted(published, delivered, stored)


def _store_event(data: bytes) -> bytes:
    text = b'[{"id":"1","subject":"\\u00e9","data":' + data + b',"eventType":"t","eventTime":"2026-01-01T00:00:00Z"}]'
    return event_grid.accept(text, TOPIC)[0].body


def _store_cloud_event(data: bytes) -> bytes:
    text = b'{"specversion":"1.0","data":' + data + b',"id":"1","source":"s","type":"t"}'
    return cloud_event.accept(text, {b"content-type": b"application/cloudevents+json"})[0].body


def _store_cloud_event_of_a_batch(data: bytes) -> bytes:
    text = b'[ {"specversion":"1.0","data" : ' + data + b',"id":"1","source":"s","type":"t"} ]'
    return cloud_event.accept(text, {b"content-type": b"application/cloudevents-batch+json"})[0].body


def _store_binary_cloud_event(data: bytes) -> bytes:
    headers = {b"ce-specversion": b"1.0", b"ce-id": b"1", b"ce-source": b"s", b"ce-type": b"t"}
    return cloud_event.accept(data, {**headers, b"content-type": b"application/json"})[0].body


STORES: list[tuple[InputSchema, Callable[[bytes], bytes]]] = [
    (InputSchema.EVENT_GRID, _store_event),
    (InputSchema.CLOUD_EVENT, _store_cloud_event),
    (InputSchema.CLOUD_EVENT, _store_cloud_event_of_a_batch),
    (InputSchema.CLOUD_EVENT, _store_binary_cloud_event),
]


def data_of(text: bytes) -> bytes:
    """The bytes of `data` in an event as it is sent: where a slow and independent reader finds them."""
    start = 1
    decoder = json.JSONDecoder(object_pairs_hook=list)
    whole = text.decode()
    while True:
        name, at = decoder.raw_decode(whole, _skip(whole, start))
        at = _skip(whole, at) + 1
        _, end = decoder.raw_decode(whole, _skip(whole, at))
        if name == "data":
            return whole[_skip(whole, at) : end].encode()
        start = _skip(whole, end) + 1


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


@given(data=value, before=blank, after=blank, way=st.sampled_from(STORES))
def test_data_crosses_every_pair(
    data: str, before: str, after: str, way: tuple[InputSchema, Callable[[bytes], bytes]]
) -> None:
    """Whatever JSON text data is, its bytes come out of every allowed pair, and are in the dead letter."""
    published, store = way
    stored = store(f"{before}{data}{after}".encode())
    for delivered in INPUT_SCHEMAS[published].conversions:
        sent = converted(published, delivered, stored)
        assert data_of(sent) == data.encode()
        dead = record(Delivery(DeliveryId(1, 0), NOW, stored), TTL_EXCEEDED, published, delivered)
        assert data_of(dead) == data.encode()


@given(
    texts=st.lists(members, min_size=1, max_size=4),
    delivered=st.sampled_from(list(INPUT_SCHEMAS[InputSchema.CUSTOM].conversions)),
)
def test_a_custom_event_crosses_every_pair(texts: list[list[str]], delivered: DeliverySchema) -> None:
    """The object that was published is what is sent, or its data, byte for byte, neighbours included."""
    objects = [("{" + " ,".join(text) + "}").encode() for text in texts]
    mapping = InputMapping(event_type=MappedField(default="t"))
    stamped = custom_event.accept(b"[" + b",".join(objects) + b"]", TOPIC, mapping, NOW, lambda: "1")
    segment = Segment(*pack([Publish(NOW, stamped)]))
    convert = conversion(InputSchema.CUSTOM, delivered)
    sent = segment if convert is None else segment.converted(convert)
    for i, text in enumerate(objects):
        if delivered is CUSTOM:
            assert sent.event(i) == text
        else:
            assert data_of(sent.event(i)) == text
        dead = record(Delivery(DeliveryId(1, i), NOW, stamped[i].body), TTL_EXCEEDED, InputSchema.CUSTOM, delivered)
        assert data_of(dead) == text
        assert sent.stored(i) == stamped[i].body
        assert split_data(sent.stored(i))[1] == text


def test_a_converted_segment_shares_its_columns() -> None:
    """Only body and ends are its own; neighbours are one slice in it as well."""
    events = event_grid.accept(b"[" + b",".join([published_event()] * 3) + b"]", TOPIC)
    segment = Segment(*pack([Publish(NOW, events)]))
    convert = conversion(InputSchema.EVENT_GRID, CE)
    assert convert is not None
    other = segment.converted(convert)
    assert other.subjects is segment.subjects and other.published_at is segment.published_at
    assert json.loads(b"[" + other.body[other.start(1) : other.ends[2]] + b"]") == [json.loads(other.event(1))] * 2
    assert segment.event(0) == events[0].body
