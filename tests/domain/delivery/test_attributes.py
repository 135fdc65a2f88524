"""Custom delivery headers: which names may be set, where values come from, and what is never sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.delivery.attributes import Attributes, Header, is_allowed, is_sendable
from recapito.domain.delivery.batch import Batch
from recapito.domain.events.schema import BodyForm, InputSchema
from recapito.domain.resources.subscription import DeliveryAttribute, DynamicAttribute, StaticAttribute
from tests.domain.filters.reference import cloud_events, event_grid, find, keys

EVENT = json.dumps(
    {
        "id": "e-1",
        "subject": "s",
        "data": {
            "text": "t",
            "int": 12345678901234567890,
            "float": 1.50,
            "yes": True,
            "none": None,
            "list": [1],
            "deep": {"er": "d"},
            "breaks": "a\r\nX-Evil: 1",
            "accent": "é",
            "long": "x" * 4097,
            "empty": "",
        },
    }
).encode()


def headers(
    *attributes: DeliveryAttribute, event: bytes = EVENT, published: InputSchema = InputSchema.EVENT_GRID
) -> tuple[dict[str, str], list[str]]:
    """The headers for an event, and the names of those that were left out."""
    left_out: list[str] = []
    found = Attributes(attributes, published, left_out.append).headers(event)
    return {header.name: header.value for header in found}, left_out


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("id", "e-1"),
        ("data.text", "t"),
        ("data.int", "12345678901234567890"),
        ("data.float", "1.5"),
        ("data.yes", "true"),
        ("data.deep.er", "d"),
        ("data.empty", ""),
        ("Id", "e-1"),
        ("SUBJECT", "s"),
        ("Data.text", "t"),
    ],
)
def test_values_from_the_event(path: str, value: str) -> None:
    """Strings, numbers as they were written, and booleans, from any depth; the first name has no case."""
    assert headers(DynamicAttribute("X", path)) == ({"X": value}, [])


@pytest.mark.parametrize(
    ("path", "value"),
    [("id", "c-1"), ("Id", None), ("ext", "x"), ("Ext", None), ("data.n", "1"), ("Data.n", None), ("data.N", None)],
)
def test_values_from_a_cloud_event(path: str, value: str | None) -> None:
    """Attributes, extensions and data are found by their own names, as filters find them."""
    event = b'{"id":"c-1","source":"/s","type":"t","specversion":"1.0","ext":"x","data":{"n":1}}'
    found, _ = headers(DynamicAttribute("X", path), event=event, published=InputSchema.CLOUD_EVENT)
    assert found == ({} if value is None else {"X": value})


@pytest.mark.parametrize("schema", [InputSchema.EVENT_GRID, InputSchema.CLOUD_EVENT])
@given(keys, st.data())
def test_a_source_is_found_where_a_filter_key_is(schema: InputSchema, key: str, data: st.DataObject) -> None:
    """Whatever the event, a header has a value from a key exactly if a filter sees a scalar under it."""
    event = data.draw(event_grid if schema is InputSchema.EVENT_GRID else cloud_events)
    value = find(event, key)
    found, _ = headers(DynamicAttribute("X", key), event=json.dumps(event).encode(), published=schema)
    scalar = isinstance(value, str | int | float) and (not isinstance(value, str) or is_sendable(value))
    assert ("X" in found) is scalar
    if isinstance(value, str) and scalar:
        assert found["X"] == value


@pytest.mark.parametrize(
    "path",
    [
        "data.none",
        "data.list",
        "data.deep",
        "data.breaks",
        "data.accent",
        "data.long",
        "nothing",
        "data.text.more",
        "data.Text",
        "",
    ],
)
def test_what_can_not_be_a_header_is_left_out(path: str) -> None:
    """Missing, not a scalar, too long or not plain text: the other headers go without it."""
    assert headers(DynamicAttribute("X", path), StaticAttribute("Y", "y")) == ({"Y": "y"}, ["X"])


def test_a_custom_event_is_looked_at_as_it_was_published() -> None:
    """The path is into the publisher's object, not into the envelope that was made for it."""
    stored = b'{"id":"guid","eventType":"t","subject":"s","data":{"id":"own","order":{"n":7}}}'
    attributes = [DynamicAttribute("A", "id"), DynamicAttribute("B", "order.n"), DynamicAttribute("C", "Id")]
    found, _ = headers(*attributes, event=stored, published=InputSchema.CUSTOM)
    assert found == {"A": "own", "B": "7"}


def test_static_values() -> None:
    """They are the same for every event; Authorization is allowed."""
    attributes = (StaticAttribute("Authorization", "Bearer x", secret=True), StaticAttribute("X-Env", "prod"))
    assert headers(*attributes) == ({"Authorization": "Bearer x", "X-Env": "prod"}, [])


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("X-Mine", True),
        ("Authorization", True),
        ("aeg-event-type", False),
        ("AEG-mine", False),
        ("Content-Type", False),
        ("host", False),
        ("Transfer-Encoding", False),
        ("Connection", False),
        ("Content-Length", False),
        ("X Y", False),
        ("X:Y", False),
        ("X\r\nY", False),
        ("", False),
        ("é", False),
    ],
)
def test_names(name: str, allowed: bool) -> None:
    """The service's own headers and those that frame a request cannot be set, nor what is no name."""
    assert is_allowed(name) is allowed
    found, left_out = headers(StaticAttribute(name, "v"))
    assert (found, left_out) == (({name: "v"}, []) if allowed else ({}, [name]))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "x" * 4097])
def test_a_static_value_that_can_not_be_sent_is_left_out(value: str) -> None:
    """It is told like one from an event."""
    assert headers(StaticAttribute("X", value)) == ({}, ["X"])


@given(st.text())
def test_what_is_sendable_is_one_line_of_plain_text(value: str) -> None:
    """Nothing that could end a header passes."""
    if is_sendable(value):
        assert value.isascii() and not any(ord(c) < 32 or ord(c) == 127 for c in value)


def test_values_are_not_shown() -> None:
    """Neither a header nor a batch that carries it shows its value."""
    header = Header("Authorization", "Bearer secret", secret=True)
    batch = Batch("mine", b'["event"]', 1, 0, None, None, BodyForm.EVENTS, (header,))
    assert "secret" not in repr(header) + str(header) + repr(batch) + str(batch)
    assert "event" not in repr(batch).replace("events", "")
