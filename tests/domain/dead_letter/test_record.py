"""Dead-letter records: Event Grid's sample, rebuilt, and the event's bytes untouched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.dead_letter.record import array, path, record
from recapito.domain.delivery.delivery import (
    ATTEMPTS_EXCEEDED,
    TTL_EXCEEDED,
    Dead,
    Delivery,
    DeliveryId,
    attempted,
    decide,
)
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.events import cloud_event, custom_event
from recapito.domain.events.event_grid import accept
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.instant import HOUR, SECOND, stamp
from recapito.domain.profiles.profile import EndpointKind, load, names
from recapito.domain.resources.subscription import RetryPolicy
from recapito.errors import InvalidInput
from tests.domain.dead_letter.samples import EVENT, SAMPLE, members

PUBLISHED_AT = 1_597_339_094_026_575_800
SENT_AT = 1_597_339_094_046_578_800


def fresh(body: bytes = EVENT) -> Delivery:
    return Delivery(DeliveryId(1, 0), PUBLISHED_AT, body)


@pytest.mark.parametrize("profile", names())
def test_event_grid_sample(profile: str) -> None:
    """One attempt, 404, no more allowed: the record is Event Grid's own sample, member by member, in its order."""
    not_found = answered(404)
    tried = attempted(fresh(), not_found, SENT_AT)
    policy = RetryPolicy(max_attempts=1)
    verdict = decide(load(profile), EndpointKind.WEBHOOK, policy, True, tried, not_found, SENT_AT + SECOND, 0.5)
    assert isinstance(verdict, Dead)
    assert members(record(tried, verdict.reason)) == members(SAMPLE)


def test_event_grid_sample_from_its_publishing() -> None:
    """The sample's event, published in another order and without what the service stamps, has the sample's record."""
    event = json.loads(EVENT)
    topic = event.pop("topic")
    del event["metadataVersion"], event["dataVersion"]
    published = json.dumps([dict(reversed(event.items()))]).encode()
    (stamped,) = accept(published, topic)
    tried = attempted(fresh(stamped.body), answered(404), SENT_AT)
    assert members(record(tried, ATTEMPTS_EXCEEDED)) == members(SAMPLE)


def test_event_bytes_are_kept() -> None:
    """Nothing of the event is written anew: odd spacing, numbers and escapes are in the record as they came."""
    body = b'{"id":"1", "data":{"n":1.10e+2,"s":"\\u0041\\/}","deep":[{}]} }'
    kept = record(attempted(fresh(body), Outcome(Result.SOCKET_ERROR), SENT_AT), TTL_EXCEEDED)
    assert kept.startswith(body[:-1] + b',"deadLetterReason":"TimeToLiveExceeded","deliveryAttempts":1,')


@pytest.mark.parametrize("extra_fields", [False, True])
def test_never_tried(extra_fields: bool) -> None:
    """An event that expired before its first attempt has the outcome Probation, no attempts and no time of one."""
    added = members(record(fresh(b'{"id":"1"}'), TTL_EXCEEDED, extra_fields=extra_fields))
    assert added == [
        ("id", "1"),
        ("deadLetterReason", "TimeToLiveExceeded"),
        ("deliveryAttempts", 0),
        ("lastDeliveryOutcome", "Probation"),
        ("publishTime", "2020-08-13T17:18:14.0265758Z"),
    ]


@pytest.mark.parametrize("extra_fields", [False, True])
def test_never_tried_in_the_other_schemas(extra_fields: bool) -> None:
    """The same as attributes of a CloudEvent, and before the data of a custom event."""
    event = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{}}'
    cloud_event = record(
        fresh(event), TTL_EXCEEDED, InputSchema.CLOUD_EVENT, DeliverySchema.CLOUD_EVENT, extra_fields=extra_fields
    )
    assert members(cloud_event)[5:] == [
        ("deadletterreason", "TimeToLiveExceeded"),
        ("deliveryattempts", 0),
        ("lastdeliveryoutcome", "Probation"),
        ("publishtime", "2020-08-13T17:18:14.0265758Z"),
    ]
    envelope = b'{"id":"1","data":{"own":1}}'
    custom = record(fresh(envelope), TTL_EXCEEDED, InputSchema.CUSTOM, DeliverySchema.CUSTOM, extra_fields=extra_fields)
    assert [name for name, _ in members(custom)] == [
        "id",
        "deadLetterReason",
        "deliveryAttempts",
        "lastDeliveryOutcome",
        "publishTime",
        "data",
    ]


@pytest.mark.parametrize(
    ("outcome", "extra_fields", "status"),
    [
        (answered(404), False, None),
        (answered(404), True, 404),
        (Outcome(Result.TIMED_OUT), True, None),
    ],
)
def test_last_http_status(outcome: Outcome, extra_fields: bool, status: int | None) -> None:
    """The last HTTP status is in the record only when asked for, and only if there was one."""
    text = record(attempted(fresh(), outcome, SENT_AT), ATTEMPTS_EXCEEDED, extra_fields=extra_fields)
    assert json.loads(text).get("lastHttpStatusCode") == status


@given(
    data=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    attempts=st.integers(1, 30),
    published_at=st.integers(0, 2**62),
)
def test_any_event(data: object, attempts: int, published_at: int) -> None:
    """Whatever the event holds, its record is valid JSON: the event's members, then ours."""
    event = {"id": "1", "data": data}
    body = json.dumps(event).encode()
    delivery = Delivery(DeliveryId(1, 0), published_at, body, attempts, 0, published_at + HOUR, Result.BUSY, 503)
    added = {
        "deadLetterReason": ATTEMPTS_EXCEEDED,
        "deliveryAttempts": attempts,
        "lastDeliveryOutcome": "Busy",
        "publishTime": stamp(published_at),
        "lastDeliveryAttemptTime": stamp(published_at + HOUR),
    }
    written = record(delivery, ATTEMPTS_EXCEEDED)
    assert written.startswith(body[:-1])
    assert list(json.loads(written).items()) == list((event | added).items())


@pytest.mark.parametrize("count", [1, 2, 10])
def test_array(count: int) -> None:
    """A dead-letter file is a JSON array, of one record too, with each record's bytes in it."""
    one = record(attempted(fresh(), answered(500), SENT_AT), ATTEMPTS_EXCEEDED)
    content = array([one] * count)
    assert len(json.loads(content)) == count
    assert content.count(one) == count


@pytest.mark.parametrize(
    ("now", "folders"),
    [
        (1_565_240_400_000_000_000, "2019/8/8/5"),
        (1_577_836_799_999_999_999, "2019/12/31/23"),
        (1_577_836_800_000_000_000, "2020/1/1/0"),
    ],
)
def test_path(now: int, folders: str) -> None:
    """A file lies under the upper-cased subscription and the UTC hour, without zeros in front."""
    guid = "11111111-1111-1111-1111-111111111111"
    assert path("my-blob-subscription", now, guid) == f"MY-BLOB-SUBSCRIPTION/{folders}/{guid}.json"


CLOUD_EVENT = b"""{
    "id": "caee971c-3ca0-4254-8f99-1395b394588e",
    "source": "mysource",
    "dataversion": "1.0",
    "subject": "mySubject",
    "type": "fooEventType",
    "datacontenttype": "application/json",
    "specversion": "1.0",
    "data": {
        "prop1": "value1",
        "prop2": 5
    }
}"""
# The page's sample has a comma too many and no specversion, without which the event could not have been published.
CLOUD_EVENT_SAMPLE = (
    CLOUD_EVENT.removesuffix(b"\n}")
    + b""",

    "deadletterreason": "MaxDeliveryAttemptsExceeded",
    "deliveryattempts": 1,
    "lastdeliveryoutcome": "NotFound",
    "publishtime": "2020-08-13T21:21:36.4018726Z"
}"""
)
CUSTOM_EVENT = b"""{
    "prop1": "my property",
    "prop2": 5,
    "myEventType": "fooEventType"
}"""
CUSTOM_TOPIC = (
    "/subscriptions/00000000000-0000-0000-0000-000000000000000/resourceGroups/rgwithoutpolicy/providers/"
    "Microsoft.EventGrid/topics/myCustomSchemaTopic"
)
CUSTOM_SAMPLE = b"""{
    "id": "8bc07e6f-0885-4729-90e4-7c3f052bd754",
    "eventTime": "2020-08-13T18:11:29.4121391Z",
    "eventType": "myEventType",
    "dataVersion": "1.0",
    "metadataVersion": "1",
    "topic": "%b",
    "subject": "subjectDefault",

    "deadLetterReason": "MaxDeliveryAttemptsExceeded",
    "deliveryAttempts": 1,
    "lastDeliveryOutcome": "NotFound",
    "publishTime": "2020-08-13T18:11:29.4121391Z",
    "lastDeliveryAttemptTime": "2020-08-13T18:11:29.4277644Z",

    "data": %b
}""" % (CUSTOM_TOPIC.encode(), CUSTOM_EVENT)
CUSTOM_MAPPING = InputMapping(
    event_type=MappedField(default="myEventType"),
    subject=MappedField(default="subjectDefault"),
    data_version=MappedField(default="1.0"),
)


def test_cloud_event_sample_from_its_publishing() -> None:
    """The publisher's attributes as they came, then four in lower case: the page's sample, with its specversion."""
    (stamped,) = cloud_event.accept(CLOUD_EVENT, {b"content-type": b"application/cloudevents+json"})
    published_at = 1_597_353_696_401_872_600
    delivery = Delivery(DeliveryId(1, 0), published_at, stamped.body)
    tried = attempted(delivery, answered(404), published_at + SECOND)
    written = record(tried, ATTEMPTS_EXCEEDED, InputSchema.CLOUD_EVENT, DeliverySchema.CLOUD_EVENT)
    assert members(written) == members(CLOUD_EVENT_SAMPLE)
    assert written.startswith(CLOUD_EVENT.removesuffix(b"}"))


def test_cloud_event_sample_as_it_is_printed_is_refused() -> None:
    """Without specversion it is no CloudEvent."""
    printed = CLOUD_EVENT.replace(b'    "specversion": "1.0",\n', b"")
    with pytest.raises(InvalidInput, match="required property 'specversion' is missing"):
        cloud_event.accept(printed, {b"content-type": b"application/cloudevents+json"})


def test_custom_sample_from_its_publishing() -> None:
    """An envelope by a mapping of defaults, the properties, and the event untouched: the page's sample."""
    published_at = 1_597_342_289_412_139_100
    guid = "8bc07e6f-0885-4729-90e4-7c3f052bd754"
    body = b"[" + CUSTOM_EVENT + b"]"
    (stamped,) = custom_event.accept(body, CUSTOM_TOPIC, CUSTOM_MAPPING, published_at, lambda: guid)
    delivery = Delivery(DeliveryId(1, 0), published_at, stamped.body)
    tried = attempted(delivery, answered(404), published_at + 15_625_300)
    written = record(tried, ATTEMPTS_EXCEEDED, InputSchema.CUSTOM, DeliverySchema.CUSTOM)
    assert members(written) == members(CUSTOM_SAMPLE)
    assert written.endswith(b',"data":' + CUSTOM_EVENT + b"}")


@pytest.mark.parametrize(
    ("published", "delivered", "extra", "names"),
    [
        (InputSchema.EVENT_GRID, DeliverySchema.EVENT_GRID, True, ["lastDeliveryAttemptTime", "lastHttpStatusCode"]),
        (InputSchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT, False, ["lastdeliveryoutcome", "publishtime"]),
        (InputSchema.CUSTOM, DeliverySchema.CLOUD_EVENT, True, ["lastdeliveryattempttime", "lasthttpstatuscode"]),
        (InputSchema.CUSTOM, DeliverySchema.EVENT_GRID, False, ["publishTime", "lastDeliveryAttemptTime"]),
        (InputSchema.CUSTOM, DeliverySchema.CUSTOM, True, ["lastHttpStatusCode", "data"]),
    ],
)
def test_the_delivery_schema_decides(
    published: InputSchema, delivered: DeliverySchema, extra: bool, names: list[str]
) -> None:
    """A record is in the subscription's schema, whatever the publisher's was, and ends as that schema's do."""
    stored = json.dumps(json.loads(EVENT), separators=(",", ":")).encode()
    tried = attempted(fresh(stored), answered(404), SENT_AT)
    written = json.loads(record(tried, ATTEMPTS_EXCEEDED, published, delivered, extra))
    assert list(written)[-2:] == names
    assert written["data"] == json.loads(EVENT)["data"]
    assert ("source" in written) == (delivered is DeliverySchema.CLOUD_EVENT)
