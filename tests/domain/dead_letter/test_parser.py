"""Dead letters read again: whatever was buried is restored byte for byte, in each schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recapito.domain.dead_letter.parser import (
    all_reasons,
    attempts_of,
    count_reasons,
    hour_of,
    read_dead_letters,
    restore,
)
from recapito.domain.dead_letter.record import array, path, record
from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.delivery.outcome import Result
from recapito.domain.events import cloud_event, custom_event
from recapito.domain.events.event_grid import accept
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.segment import StampedEvent
from recapito.domain.instant import HOUR, SECOND
from recapito.errors import InvalidInput
from tests.domain.dead_letter.samples import EVENT, SAMPLE, members

TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders"
NOON = 1_900_000_000 * SECOND
MAPPING = InputMapping(event_type=MappedField("kind"), subject=MappedField("about", default="none"))
TRAP = {"deadLetterReason": 'x"}', "data": ',"deadletterreason":"y"}', "text": "ü 🚚"}


def published(schema: InputSchema) -> StampedEvent:
    """An event that tries to look like a dead letter, as it is stored."""
    if schema is InputSchema.EVENT_GRID:
        event: dict[str, Any] = {"id": "1", "eventTime": "2030-01-02T03:04:05Z", "eventType": "Made", "subject": "a/b"}
        return accept(json.dumps([{**event, "dataVersion": "2.0", "data": TRAP}]).encode(), TOPIC)[0]
    if schema is InputSchema.CUSTOM:
        custom = {"kind": "Made", "about": "a/b", **TRAP}
        return custom_event.accept(json.dumps([custom]).encode(), TOPIC, MAPPING, NOON, lambda: "1")[0]
    event = {"specversion": "1.0", "id": "1", "source": "/me", "type": "Made", "subject": "a/b", "publishtime": "mine"}
    return cloud_event.accept(
        json.dumps({**event, "data": TRAP}).encode(), {b"content-type": b"application/cloudevents+json"}
    )[0]


PAIRS = [
    (InputSchema.EVENT_GRID, DeliverySchema.EVENT_GRID),
    (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT),
    (InputSchema.CUSTOM, DeliverySchema.EVENT_GRID),
    (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENT),
    (InputSchema.CUSTOM, DeliverySchema.CUSTOM),
    (InputSchema.CLOUD_EVENT, DeliverySchema.CLOUD_EVENT),
]


def buried(
    event: StampedEvent, pair: tuple[InputSchema, DeliverySchema], extra: bool = False, attempts: int = 2
) -> bytes:
    """The record of an event's death."""
    last = NOON if attempts else None
    delivery = Delivery(DeliveryId(1, 0), NOON, event.body, attempts, 0, last, Result.BUSY if attempts else None, 503)
    return record(delivery, "MaxDeliveryAttemptsExceeded", *pair, extra)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("extra", "attempts"), [(False, 2), (True, 2), (False, 0)])
def test_what_was_buried_is_restored(pair: tuple[InputSchema, DeliverySchema], extra: bool, attempts: int) -> None:
    """An event comes back as it was stored; only what was sent as a CloudEvent no longer knows its data's version."""
    event = published(pair[0])
    (letter,) = read_dead_letters(array([buried(event, pair, extra, attempts)]))
    assert letter.id == "1"
    assert letter.type == "Made"
    assert letter.subject == "a/b"
    assert letter.reason == "MaxDeliveryAttemptsExceeded"
    assert letter.attempts == attempts
    assert letter.outcome == ("Busy" if attempts else "Probation")
    assert letter.published == "2030-03-17T17:46:40.0000000Z"
    restored = restore(letter, pair[0])
    if pair[1] is DeliverySchema.CLOUD_EVENT and pair[0] is not InputSchema.CLOUD_EVENT:
        event = replace(event, body=event.body.replace(b'"2.0"', b'""'), data_version="")
    assert restored == event


@pytest.mark.parametrize(
    "name", ["deadletterreason", "deliveryattempts", "lastdeliveryoutcome", "publishtime", "topic"]
)
@pytest.mark.parametrize("value", ["abc", 5, True])
def test_extensions_of_our_names(name: str, value: object) -> None:
    """A publisher's extension that is named as what we add, of whatever type, spoils neither its letter nor others."""
    event = {"specversion": "1.0", "id": "1", "source": "/me", "type": "Made", "time": None, name: value}
    headers = {b"content-type": b"application/cloudevents+json"}
    odd = cloud_event.accept(json.dumps({**event, "data": 1}).encode(), headers)[0]
    pair = (InputSchema.CLOUD_EVENT, DeliverySchema.CLOUD_EVENT)
    letter, other = read_dead_letters(array([buried(odd, pair), buried(published(pair[0]), pair)]))
    assert letter.reason == "MaxDeliveryAttemptsExceeded"
    assert letter.attempts == 2
    assert letter.outcome == "Busy"
    assert other.reason == letter.reason
    assert restore(letter, InputSchema.CLOUD_EVENT) == odd


@given(st.lists(st.sampled_from(PAIRS), max_size=5))
def test_files_hold_letters_in_their_order(pairs: list[tuple[InputSchema, DeliverySchema]]) -> None:
    """A file is read whole, whatever schemas its records have."""
    records = [buried(published(pair[0]), pair) for pair in pairs]
    assert [letter.record for letter in read_dead_letters(array(records))] == records


def test_microsofts_sample_is_restored() -> None:
    """The sample of Event Grid's page, a bare object with blanks in it, is read; its data stays as it was written."""
    (letter,) = read_dead_letters(SAMPLE)
    restored = restore(letter, InputSchema.EVENT_GRID)
    assert members(restored.body) == members(EVENT)
    assert EVENT[EVENT.index(b'{\n        "api"') : EVENT.rindex(b"}")].strip() in restored.body


@pytest.mark.parametrize("content", [b"", b"null", b"7", b"[7]", b"[{}]", b'[{"id":7}]', b"[", b'{"id":"1"', b"[\xff]"])
def test_other_files_are_refused(content: bytes) -> None:
    """A file without dead letters is refused with that reason."""
    with pytest.raises(InvalidInput):
        read_dead_letters(content)


@pytest.mark.parametrize(
    ("record_of", "published"),
    [
        ({"id": "1"}, InputSchema.EVENT_GRID),
        ({"id": "1", "eventType": "a", "topic": "t"}, InputSchema.EVENT_GRID),
        ({"id": "1", "eventType": "a", "topic": "t", "subject": "s", "eventTime": "x"}, InputSchema.CLOUD_EVENT),
        ({"id": "1", "specversion": "1.0", "type": "a"}, InputSchema.CLOUD_EVENT),
        ({"id": "1", "specversion": "1.0", "source": "a"}, InputSchema.CLOUD_EVENT),
    ],
)
def test_letters_that_no_lane_could_send(record_of: dict[str, Any], published: InputSchema) -> None:
    """A record without what every event has, or of a schema that its topic does not take, is refused."""
    (letter,) = read_dead_letters(json.dumps([record_of]).encode())
    with pytest.raises(InvalidInput):
        restore(letter, published)


def test_reasons_are_counted() -> None:
    """In every schema it is ours, whatever the publisher wrote; what tells none is unknown, and so is the rest."""
    mine = [buried(published(pair[0]), pair) for pair in PAIRS]
    retired = mine[0].replace(b"MaxDeliveryAttemptsExceeded", b"UndeliverableDueToHttp418")
    others = [b"", b"{", b"\xff", b'{"id":"1"}', b'{"id":"1","deadLetterReason":"Bored"}']
    counted = count_reasons([*mine, retired, *others])
    assert counted == {"MaxDeliveryAttemptsExceeded": 6, "UndeliverableDueToHttp418": 1, "Unknown": 5}
    assert all_reasons(counted, 12) == counted
    assert all_reasons(counted, 15) == {**counted, "Unknown": 8}
    assert all_reasons({}, 0) == {}
    assert all_reasons({}, 2) == {"Unknown": 2}


@pytest.mark.parametrize("record", [b"", b"{", b"\xff", b'{"id":"1"}', b'{"id":"1","deliveryAttempts":"many"}'])
def test_a_record_without_a_number_of_attempts_has_none(record: bytes) -> None:
    """A record that cannot be read, or has no number, counts as one that was never attempted."""
    assert attempts_of(record) == 0


def test_hours() -> None:
    """A path says in which hour its file was named; other paths say nothing."""
    hour = NOON // HOUR * HOUR
    assert hour_of(path("orders-hook", NOON, "7d0c")) == hour
    for other in ("", "A", "A/2030/1/2/3", "A/2030/1/2/x/a.json", "A/2030/13/2/3/a.json", "A/2030/1/2/24/a.json"):
        assert hour_of(other) is None
