"""The Event Grid schema on the way in: what is taken, how it is stamped, and what is said about the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain import limits
from recapito.domain.events.event_grid import accept
from recapito.errors import InvalidInput, TooLarge
from tests.domain.texts import blank, value

TOPIC = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders"


def event(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "e-1",
        "subject": "/orders/1",
        "eventType": "Orders.Created",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "dataVersion": "1.0",
        "data": {"n": 1},
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not ...}


def body_of(*events: Any) -> bytes:
    return json.dumps(list(events)).encode()


def with_data(data: str | bytes) -> bytes:
    text = data.encode() if isinstance(data, str) else data
    start = b'[{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":'
    return start + text + b"}]"


def fault(body: bytes) -> str:
    with pytest.raises(InvalidInput) as caught:
        accept(body, TOPIC)
    assert caught.value.code == "InputJsonInvalid"
    return caught.value.message


def test_delivery_order() -> None:
    """A stamped event has Event Grid's field order, whatever order it came in."""
    (stamped,) = accept(body_of(event()), TOPIC)
    assert stamped.body == (
        b'{"id":"e-1","eventTime":"2026-01-01T00:00:00.000Z","eventType":"Orders.Created","dataVersion":"1.0",'
        b'"metadataVersion":"1","topic":"' + TOPIC.encode() + b'","subject":"/orders/1","data":{"n": 1}}'
    )
    assert stamped.type == "Orders.Created"
    assert stamped.subject == "/orders/1"
    assert stamped.data_version == "1.0"


def test_absent_fields_are_stamped_and_absent_data_stays_absent() -> None:
    """Without dataVersion, metadataVersion and topic the service fills them in; without data there is none."""
    (stamped,) = accept(body_of(event(dataVersion=..., data=...)), TOPIC)
    assert json.loads(stamped.body) == {
        **event(dataVersion="", data=...),
        "metadataVersion": "1",
        "topic": TOPIC,
    }


@pytest.mark.parametrize("field", ["dataVersion", "metadataVersion", "topic"])
def test_null_is_absent_where_a_field_may_be_absent(field: str) -> None:
    """A null in an optional envelope field counts as absent."""
    (stamped,) = accept(body_of(event(**{field: None})), TOPIC)
    assert json.loads(stamped.body)[field] in ("", "1", TOPIC)


def test_own_topic_and_metadata_version_are_taken() -> None:
    """A publisher may send the values that the service would stamp."""
    assert accept(body_of(event(topic=TOPIC, metadataVersion="1")), TOPIC)


def test_empty_subject_is_taken() -> None:
    """The subject must be there, but it may be empty."""
    (stamped,) = accept(body_of(event(subject="")), TOPIC)
    assert stamped.subject == ""


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.1234567Z",
        "2026-01-01T00:00:00.123456789+05:30",
        "2026-01-01t00:00:00z",
        "2026-01-01 00:00:00",
        "2026-01-01T00:00",
        "20260101T000000Z",
        "20260101t000000,5z",
        "2026-W01-1T00+05",
        "9999-12-31T23:59:59.9999999Z",
    ],
)
def test_event_times_pass_unchanged(time: str) -> None:
    """Any ISO 8601 date and time is taken and forwarded as it was written."""
    (stamped,) = accept(body_of(event(eventTime=time)), TOPIC)
    assert json.loads(stamped.body)["eventTime"] == time


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": ...}, "Event 1: required property 'id' is missing."),
        ({"subject": ...}, "required property 'subject' is missing"),
        ({"eventType": ...}, "required property 'eventType' is missing"),
        ({"eventTime": ...}, "required property 'eventTime' is missing"),
        ({"id": ""}, "property 'id'"),
        ({"eventType": ""}, "property 'eventType'"),
        ({"id": 7}, "property 'id': Expected 'str', got 'int'"),
        ({"id": None}, "property 'id': Expected 'str', got 'null'"),
        ({"subject": ["s"]}, "property 'subject'"),
        ({"dataVersion": 1}, "property 'dataVersion': Expected 'str', got 'int'"),
        ({"id": "x" * (limits.EVENT_FIELD_CHARS + 1)}, "property 'id'"),
        ({"subject": "x" * (limits.EVENT_FIELD_CHARS + 1)}, "property 'subject'"),
        ({"extra": 1}, "Event 1: received unexpected property 'extra' in JSON."),
        ({"Id": "e"}, "received unexpected property 'Id'"),
        ({"x" * 5000: 1}, "x…"),
        ({"a\nb": 1}, "unexpected property 'a?b'"),
        ({"eventTime": "yesterday"}, "Event 1: 'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-02-30T00:00:00Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:00Z\r\n"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:00Z\0"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:00.5\0Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:007Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01800:00:00Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:00T+01:00"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T00:00:00.123456 Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "2026-01-01T24:00:00Z"}, "'eventTime' is not a date and time"),
        ({"eventTime": "20260230T000000Z"}, "'eventTime' is not a date and time"),
        ({"topic": "/subscriptions/other"}, "Event 1: 'topic' must be the resource id of this topic"),
        ({"topic": TOPIC.upper()}, "'topic' must be"),
        ({"topic": ""}, "'topic' must be"),
        ({"metadataVersion": "2"}, "'metadataVersion' must be '1'"),
        ({"dataVersion": "1\r\nX-Evil: 1"}, "'dataVersion' must be printable ASCII"),
        ({"dataVersion": "é"}, "'dataVersion' must be printable ASCII"),
        ({"id": "a\0b"}, "U+0000"),
        ({"subject": "\0"}, "U+0000"),
        ({"eventType": "\0"}, "U+0000"),
    ],
)
def test_a_bad_event_is_named_by_index_and_property(changes: dict[str, Any], said: str) -> None:
    """A wrong event is refused with its index and the property, and takes its whole request with it."""
    assert said in fault(body_of(event(), event(**changes)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[",
        b"[]]",
        b"{}",
        b"null",
        b'"text"',
        b"[null]",
        b"[1]",
        b"[[]]",
        b"\xef\xbb\xbf[]",
        b"[{}]",
        b'[{"id":"1"},]',
        body_of(event()).decode().encode("utf-16"),
        body_of(event()) + b" x",
        body_of(event()) + b"\0",
        with_data("NaN"),
        with_data("Infinity"),
        with_data("-Infinity"),
        with_data("01"),
        with_data("+1"),
        with_data("1."),
        with_data("tru"),
        with_data("'a'"),
        with_data("[1,]"),
        with_data('{"a":1,}'),
        with_data('"\x01"'),
        with_data('"\\x41"'),
        with_data('"\\ud800"'),
        with_data('"\\udc00 tail"'),
        with_data(b'"\xff"'),
        with_data(b'"\xed\xa0\x80"'),
        with_data(b'"\xc0\xaf"'),
        with_data("// comment\n1"),
        b'[{"id":"\\ud800","subject":"s"}]',
        b'[{"id":"\xff","subject":"s"}]',
    ],
)
def test_what_is_not_a_json_array_of_events_is_refused(body: bytes) -> None:
    """Malformed JSON of every kind, in the envelope or deep in the data, is the publisher's error."""
    assert fault(body).startswith("This resource is configured to receive event in 'EventGridEvent' schema.")


def test_an_empty_array_is_refused() -> None:
    """A publish without an event is an error."""
    assert "holds no event" in fault(b"[]")


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "data", [nested(limits.JSON_DEPTH), nested(500), nested(200_000), '{"a":' * 70 + "1" + "}" * 70]
)
def test_depth_bombs_are_refused(data: str) -> None:
    """JSON that is nested deeper than the limit is refused, by whatever margin."""
    assert "nested deeper than 64 levels" in fault(with_data(data))


@pytest.mark.parametrize(
    "data",
    [
        nested(limits.JSON_DEPTH - 1),
        "[" + ",".join(["[{}]"] * 1000) + "]",
        json.dumps("[" * 500),
        '["' + r"\"[[" * 40 + '"]',
    ],
)
def test_many_brackets_are_not_depth(data: str) -> None:
    """Depth up to the limit is taken, and brackets side by side or inside strings are not depth."""
    assert accept(with_data(data), TOPIC)


def test_limits_of_count() -> None:
    """5,000 events are taken, one more is too large."""
    tiny = b'{"id":"1","subject":"","eventType":"t","eventTime":"2026-01-01T00:00:00Z"}'
    assert len(accept(b"[" + b",".join([tiny] * limits.PUBLISH_EVENTS) + b"]", TOPIC)) == limits.PUBLISH_EVENTS
    with pytest.raises(TooLarge, match="5000 events"):
        accept(b"[" + b",".join([tiny] * (limits.PUBLISH_EVENTS + 1)) + b"]", TOPIC)


def test_limits_of_size() -> None:
    """A body of exactly 1 MB is taken, one byte more is too large."""
    padding = limits.PUBLISH_BYTES - len(with_data('""'))
    assert accept(with_data('"' + "x" * padding + '"'), TOPIC)
    with pytest.raises(TooLarge):
        accept(with_data('"' + "x" * (padding + 1) + '"'), TOPIC)


@given(data=value, before=blank, after=blank)
def test_data_bytes_are_identical_in_and_out(data: str, before: str, after: str) -> None:
    """Whatever whitespace, escapes, big numbers and duplicate keys data holds, its bytes are forwarded unchanged."""
    (stamped,) = accept(with_data(before + data + after), TOPIC)
    assert stamped.body.endswith(b',"subject":"s","data":' + data.encode() + b"}")


@given(st.binary(max_size=200))
def test_garbage_is_never_our_fault(garbage: bytes) -> None:
    """No bytes whatever make accept fail in another way than by refusing them."""
    for body in (garbage, b"[" + garbage + b"]", with_data(garbage)):
        try:
            accept(body, TOPIC)
        except (InvalidInput, TooLarge):
            continue


envelope = st.fixed_dictionaries(
    {},
    optional={
        name: st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just([]), st.just({}))
        for name in ("id", "subject", "eventType", "eventTime", "dataVersion", "metadataVersion", "topic", "data", "zz")
    },
)


@given(st.lists(envelope, max_size=3))
def test_wrong_types_are_never_our_fault(events: list[dict[str, Any]]) -> None:
    """Any JSON value in any property is taken or refused, nothing else."""
    try:
        accept(json.dumps(events).encode("utf-8", "surrogatepass"), TOPIC)
    except InvalidInput:
        return


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xef\xbb\xbf[]", "The body begins with a byte order mark: send UTF-8 without one."),
        (b"\xff\xfe[\x00]\x00", "The body is not UTF-8 (byte 0)."),
        (with_data("NaN"), "JSON has no NaN and no Infinity"),
        (with_data("[-Infinity]"), "JSON has no NaN and no Infinity"),
        (with_data(r'"\ud800"'), r"must be half of a pair"),
        (with_data(r'"\udc00\ud800 and more"'), r"must be half of a pair"),
        (with_data("01"), "invalid number"),
        (with_data("{'a': 1}"), "malformed"),
        (b"[", "truncated"),
        (b'{"id":"1"}', "Token Expected: StartArray, Actual Token Received: StartObject"),
        (b'"text"', "Token Expected: StartArray, Actual Token Received: String"),
        (b"null", "Token Expected: StartArray, Actual Token Received: Null"),
    ],
)
def test_what_is_not_an_array_of_json_is_explained(body: bytes, said: str) -> None:
    """The usual mistakes are named in words that their maker understands."""
    message = fault(body)
    assert said in message
    assert message.startswith("This resource is configured to receive event in 'EventGridEvent' schema.")


@pytest.mark.parametrize(
    "twice",
    [
        '{"id":"1","id":"2","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z"}',
        '{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":1,"data":2}',
        '{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","topic":null,"topic":null}',
        r'{"id":"1","\u0069d":"2","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z"}',
        r'{"id":"\u0022\u0022\u0022\u0022","id":"2","subject":"\u0022\u0022","eventType":"t",'
        r'"eventTime":"2026-01-01T00:00:00Z"}',
        r'{"id":"1","id":"2","subject":"\u0022\u0022\u0022\u0022","eventType":"t","eventTime":"2026-01-01T00:00:00Z"}',
    ],
)
def test_a_member_of_the_envelope_may_be_there_once(twice: str) -> None:
    """Of two ids one would be lost without a word; what is inside data is the publisher's."""
    once = '{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":{"a":1,"a":2}}'
    assert "Event 1: property '" in fault(f"[{once},{twice}]".encode())
    assert "is present more than once" in fault(f"[{once} , {twice} ]".encode())
    assert len(accept(f"[{once} , {once} ]".encode(), TOPIC)) == 2


_VALUES = {
    "id": ['"1"', r'"\u0022\u0022"', r'"a\"b"'],
    "subject": ['""', '"s"', r'"\u00e9\/"', r'"\u0022"'],
    "eventType": ['"t"'],
    "eventTime": ['"2026-01-01T00:00:00Z"'],
    "dataVersion": ['""', '"1"', "null"],
    "metadataVersion": ['"1"', "null"],
    "topic": [f'"{TOPIC}"', "null"],
    "data": ["1", '"x"', '{"id":"2","id":"3"}', "null", r'"\""'],
}
_REQUIRED = ("id", "subject", "eventType", "eventTime")
_member = st.sampled_from(sorted(_VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(_VALUES[name]))
)


@given(
    more=st.lists(_member, max_size=4),
    first=st.tuples(*(st.sampled_from(_VALUES[name]) for name in _REQUIRED)),
    gap=st.sampled_from(["", " ", "\n    "]),
    escaped=st.booleans(),
)
def test_repeated_members_are_found_by_a_slow_reader_too(
    more: list[tuple[str, str]], first: tuple[str, ...], gap: str, escaped: bool
) -> None:
    """However an event is written, it is refused exactly if a member of it is there twice."""
    pairs = [*zip(_REQUIRED, first, strict=True), *more]
    names = [rf"\u{ord(name[0]):04x}{name[1:]}" if escaped else name for name, _ in pairs]
    texts = [f'"{name}"{gap}:{gap}{text}' for name, (_, text) in zip(names, pairs, strict=True)]
    body = ("[{" + f",{gap}".join(texts) + "}]").encode()
    if len({name for name, _ in pairs}) < len(pairs):
        assert "more than once" in fault(body)
    else:
        assert accept(body, TOPIC)


DOMAIN = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/domains/shop"


def test_an_event_of_a_domain_names_its_topic() -> None:
    """The name becomes the whole id in the event, and is a column of its own for filters."""
    (stamped,) = accept(body_of(event(topic="customer-7")), DOMAIN, domain=True)
    assert json.loads(stamped.body)["topic"] == f"{DOMAIN}/topics/customer-7"
    assert stamped.domain_topic == "customer-7"


@pytest.mark.parametrize("topic", [None, "", f"{DOMAIN}/topics/a", "a\nb", ...])
def test_an_event_of_a_domain_without_a_usable_topic(topic: Any) -> None:
    """No name, an id where a name belongs, and a name that could not be one are refused."""
    with pytest.raises(InvalidInput, match="Event 0: 'topic' must"):
        accept(body_of(event(topic=topic)), DOMAIN, domain=True)
