"""CloudEvents on the way in: structured, in batches and in binary mode; what is kept and what is refused."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.events.cloud_event import accept
from recapito.domain.events.segment import StampedEvent
from recapito.errors import InvalidInput, TooLarge
from tests.domain.texts import blank, value

SINGLE = {b"content-type": b"application/cloudevents+json; charset=utf-8"}
BATCH = {b"content-type": b"application/cloudevents-batch+json; charset=utf-8"}
JSON = {b"content-type": b"application/json"}
ATTRIBUTES = {b"ce-specversion": b"1.0", b"ce-id": b"e-1", b"ce-source": b"/orders", b"ce-type": b"Orders.Created"}


def event(**changes: Any) -> dict[str, Any]:
    whole = {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/orders",
        "type": "Orders.Created",
        "subject": "1",
        "time": "2026-01-01T00:00:00Z",
        "data": {"n": 1},
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not ...}


def single(**changes: Any) -> bytes:
    return json.dumps(event(**changes)).encode()


def fault(body: bytes, headers: dict[bytes, bytes]) -> str:
    with pytest.raises(InvalidInput) as caught:
        accept(body, headers)
    assert caught.value.code == "InputJsonInvalid"
    assert caught.value.message.startswith("This resource is configured to receive event in 'CloudEventV10' schema.")
    return caught.value.message


def binary(body: bytes, content_type: bytes | None = b"application/json", **changes: bytes) -> dict[str, Any]:
    """An event in binary mode, as it is stored."""
    extra = {b"ce-" + name.encode(): text for name, text in changes.items()}
    media = {} if content_type is None else {b"content-type": content_type}
    (stamped,) = accept(body, {b"host": b"h", **media, **ATTRIBUTES, **extra})
    stored: dict[str, Any] = json.loads(stamped.body)
    return stored


@pytest.mark.parametrize("headers", [SINGLE, JSON, {}, {b"content-type": b"Application/CloudEvents+JSON"}])
def test_a_structured_event_is_stored_as_it_came(headers: dict[bytes, bytes]) -> None:
    """An object is one event, kept byte for byte; filters see its type and subject."""
    text = b' {"id" : "1","source":"mine", "dataversion":"1.0","type":"t", "specversion":"1.0","data": {"a":1, "a":2}} '
    assert accept(text, headers) == [StampedEvent(text.strip(), "t", "", "", id="1")]
    assert accept(single(), headers) == [StampedEvent(single(), "Orders.Created", "1", "", id=event()["id"])]


@pytest.mark.parametrize("headers", [BATCH, JSON, {}])
def test_a_batch_is_an_array(headers: dict[bytes, bytes]) -> None:
    """Each event of an array is stored as it came, one alone too."""
    events = [single(id="1"), single(id="2", data="two")]
    assert [one.body for one in accept(b"[ " + b" , ".join(events) + b"]", headers)] == events
    assert [one.body for one in accept(b"[" + events[0] + b"]", headers)] == events[:1]


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        (SINGLE, b"[" + single() + b"]", "Token Expected: StartObject, Actual Token Received: StartArray"),
        (BATCH, single(), "Token Expected: StartArray, Actual Token Received: StartObject"),
        (SINGLE, b"1", "Token Expected: StartObject, Actual Token Received: Integer"),
        (BATCH, b"true", "Token Expected: StartArray, Actual Token Received: Boolean"),
        (BATCH, b"[1]", "Event 0: an event must be an object."),
        (BATCH, b"[]", "The array holds no event."),
        (SINGLE, b"", "The body is empty"),
        (SINGLE, b"\xef\xbb\xbf{}", "byte order mark"),
        (SINGLE, b'{"data":NaN}', "no NaN"),
        (SINGLE, b'{"id":"\xff"}', "not UTF-8"),
        (SINGLE, b"{" * 100_000, "malformed"),
        (SINGLE, single(data=0)[:-2] + b"[" * 5000 + b"]" * 5000 + b"}", "nested deeper than"),
    ],
)
def test_a_body_of_the_wrong_shape(headers: dict[bytes, bytes], body: bytes, said: str) -> None:
    """The content type selects the shape, and a body of another shape is told which was expected."""
    assert said in fault(body, headers)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        *(({name: ...}, f"required property '{name}' is missing") for name in ("id", "source", "type", "specversion")),
        *(({name: None}, f"property '{name}'") for name in ("id", "source", "type", "specversion")),
        *(({name: ""}, f"property '{name}'") for name in ("id", "source", "type")),
        *(({name: 1}, f"property '{name}'") for name in ("id", "source", "type", "specversion", "subject", "time")),
        *(({name: {}}, f"property '{name}'") for name in ("datacontenttype", "dataschema", "data_base64")),
        ({"specversion": "0.3"}, "'specversion' must be '1.0'"),
        ({"time": "yesterday"}, "'time' is not a date and time"),
        ({"data_base64": "AA=="}, "'data' and 'data_base64' must not both be present"),
        ({"data_base64": "*", "data": ...}, "'data_base64' is not Base64"),
        ({"data_base64": "AA", "data": ...}, "'data_base64' is not Base64"),
        ({"data_base64": "AA==AA==", "data": ...}, "'data_base64' is not Base64"),
        ({"Upper": "x"}, "attribute 'Upper'"),
        ({"under_score": "x"}, "attribute 'under_score'"),
        ({"x" * 21: "x"}, "1 to 20 lower-case letters and digits"),
        ({"": "x"}, "attribute ''"),
        ({"object": {}}, "attribute 'object' must be a string, a number or a boolean"),
        ({"list": [1]}, "attribute 'list' must be"),
        *(({name: "a\0"}, "U+0000") for name in ("id", "source", "type", "subject")),
        ({"source": "x" * (limits.EVENT_FIELD_CHARS + 1)}, "property 'source'"),
    ],
)
def test_a_wrong_attribute_is_named(changes: dict[str, Any], said: str) -> None:
    """Alone or in a batch, an event that is no CloudEvent is refused with the name of what is wrong."""
    assert said in fault(single(**changes), SINGLE)
    batched = fault(b"[" + single() + b"," + single(**changes) + b"]", BATCH)
    assert said in batched and "Event 1: " in batched


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": None, "time": None, "datacontenttype": None, "dataschema": None},
        {"subject": ""},
        {"data": ...},
        {"data": None},
        {"data": ..., "data_base64": "AAE="},
        {"data": ..., "data_base64": None},
        {"traceparent": "00-1-2-01", "count": 5, "flag": True, "nothing": None, "0": "digit"},
        {"datacontenttype": "application/cloudevents+json; charset=utf-8"},
        {"time": "2026-01-01t00:00:00.123456789+05:30"},
    ],
)
def test_what_is_taken(changes: dict[str, Any]) -> None:
    """Optional attributes may be absent or null, and extensions pass."""
    text = single(**changes)
    assert accept(text, SINGLE)[0].body == text


@pytest.mark.parametrize("twice", ['"id":"2"', '"data":1', '"ext":1,"ext":2', r'"\u0069d":"2"', '"subject":""'])
def test_an_attribute_may_be_there_once(twice: str) -> None:
    """Which of two would count is anybody's guess."""
    for gap in ("", "   "):
        assert "more than once" in fault(single()[:-1] + f",{gap}{twice}}}".encode(), SINGLE)


def test_in_a_domain_the_source_names_the_topic() -> None:
    """The event itself is unchanged."""
    (stamped,) = accept(single(source="customer-7"), SINGLE, domain=True)
    assert stamped.domain_topic == "customer-7"
    assert stamped.body == single(source="customer-7")


def test_limits() -> None:
    """Too many events and too many bytes are too large."""
    with pytest.raises(TooLarge, match="5000 events"):
        accept(b"[" + b",".join([b"{}"] * 5001) + b"]", BATCH)
    with pytest.raises(TooLarge):
        accept(b" " * (limits.PUBLISH_BYTES + 1), SINGLE)
    for media, body in ((b"text/plain", b"\0" * 300_000), (b"image/png", b"x" * 800_000)):
        with pytest.raises(TooLarge, match="as JSON"):
            accept(body, {**ATTRIBUTES, b"content-type": media})


@pytest.mark.parametrize(
    ("content_type", "body", "members"),
    [
        (b"application/json", b' {"a": 1} ', {"data": {"a": 1}, "datacontenttype": "application/json"}),
        (b"application/vnd.x+json;v=1", b"[1]", {"data": [1], "datacontenttype": "application/vnd.x+json;v=1"}),
        (b"text/plain", "é\n".encode(), {"data": "é\n", "datacontenttype": "text/plain"}),
        (b"text/xml; charset=UTF-8", b"<a/>", {"data": "<a/>", "datacontenttype": "text/xml; charset=UTF-8"}),
        (
            b"text/plain; charset=latin-1",
            b"\xe9",
            {"data_base64": "6Q==", "datacontenttype": "text/plain; charset=latin-1"},
        ),
        (
            b"application/octet-stream",
            b"\0\xff",
            {"data_base64": "AP8=", "datacontenttype": "application/octet-stream"},
        ),
        (b"application/json", b"", {"datacontenttype": "application/json"}),
        (None, b"5", {"data": 5}),
        (None, b"", {}),
    ],
)
def test_data_in_binary_mode(content_type: bytes | None, body: bytes, members: dict[str, Any]) -> None:
    """JSON is data as it is, text is a string, anything else is Base64; the content type becomes an attribute."""
    plain = {"specversion": "1.0", "id": "e-1", "source": "/orders", "type": "Orders.Created"}
    assert binary(body, content_type) == {**plain, **members}


def test_the_largest_event_in_binary_mode() -> None:
    """Its text as JSON may be as long as an event may be, and no byte longer."""
    overhead = len(accept(b'""', {b"host": b"h", b"content-type": b"application/json", **ATTRIBUTES})[0].body) - 2
    body = b'"%s"' % (b"x" * (limits.EVENT_BYTES - overhead - 2))
    headers = {b"host": b"h", b"content-type": b"application/json", **ATTRIBUTES}
    assert len(accept(body, headers)[0].body) == limits.EVENT_BYTES
    with pytest.raises(TooLarge):
        accept(body[:-1] + b'x"', headers)


def test_attributes_in_binary_mode() -> None:
    """Headers are percent-encoded UTF-8, perhaps in quotes, and every ce- header is an attribute."""
    stored = binary(b"", None, subject=b"caf%C3%A9%20%25", time=b"2026-01-01T00:00:00Z", myext=b'"a \\"b\\""')
    assert stored["subject"] == "café %"
    assert stored["myext"] == 'a "b"'


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({b"ce-id": None}, "required property 'id' is missing"),
        ({b"ce-specversion": None}, "required property 'specversion' is missing"),
        ({b"ce-specversion": b"0.3"}, "'specversion' must be '1.0'"),
        ({b"ce-id": b""}, "property 'id'"),
        ({b"ce-datacontenttype": b"text/plain"}, "'ce-datacontenttype' must not be sent"),
        ({b"ce-data": b"1"}, "the data is the body"),
        ({b"ce-my_ext": b"1"}, "attribute 'my_ext'"),
        ({b"ce-subject": b"%ff"}, "Header 'ce-subject' is not percent-encoded UTF-8"),
        ({b"content-type": b"application/json", b"": b""}, "malformed"),
        ({b"content-type": b"text/plain"}, "not UTF-8, the character set of text"),
    ],
)
def test_what_is_wrong_in_binary_mode(changes: dict[bytes, bytes | None], said: str) -> None:
    """The attribute or header is named."""
    headers = {**ATTRIBUTES, b"content-type": b"application/octet-stream", **changes}
    body = b"{x" if b"" in changes else b"\xff"
    assert said in fault(body, {name: text for name, text in headers.items() if name and text is not None})


@given(data=value, before=blank, after=blank, binary_mode=st.booleans())
def test_data_bytes_are_kept(data: str, before: str, after: str, binary_mode: bool) -> None:
    """In every mode the bytes of JSON data are stored as they came."""
    text = f"{before}{data}{after}".encode()
    if binary_mode:
        (stamped,) = accept(text, {**ATTRIBUTES, b"content-type": b"application/json"})
        assert stamped.body.endswith(b'"data":' + data.encode() + b"}")
    else:
        whole = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":' + text + b"}"
        assert accept(whole, SINGLE)[0].body == whole


@given(st.binary(max_size=100), st.sampled_from([b"image/png", b"application/x-protobuf"]))
def test_bytes_are_kept_in_base64(body: bytes, media: bytes) -> None:
    """Data that is neither JSON nor text comes out of Base64 as it went in."""
    stored = binary(body, media)
    assert base64.b64decode(stored.get("data_base64", "")) == body


@given(st.binary(max_size=200), st.sampled_from([SINGLE, BATCH, JSON, {**ATTRIBUTES, **JSON}]))
def test_garbage_is_never_our_fault(garbage: bytes, headers: dict[bytes, bytes]) -> None:
    """No bytes whatever make accept fail in another way than by refusing them."""
    for body in (garbage, b"[" + garbage + b"]", single()[:-1] + b"," + garbage + b"}"):
        try:
            accept(body, headers)
        except InvalidInput:
            continue
