"""The requests of a handshake, to the byte, and the verdict on every answer."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.events.schema import DeliverySchema
from recapito.domain.handshake.handshake import (
    Awaited,
    ConsentTarget,
    Granted,
    Invitation,
    Refused,
    Verdict,
    deletion_request,
    invite,
    judge,
    read_token,
    validation_request,
)
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, NoReply
from recapito.domain.resources.subscription import DynamicAttribute, StaticAttribute
from recapito.domain.resources.topic import Source, Topic, TopicKind
from tests.domain.handshake.invited import CODE, NOW, subscription, topic

CE = DeliverySchema.CLOUD_EVENT


def invitation(schema: DeliverySchema = DeliverySchema.EVENT_GRID) -> Invitation:
    return invite("https://grid.example", topic(), subscription(schema), CODE, NOW)


def test_the_validation_event() -> None:
    """The event has Event Grid's fields in Event Grid's order, alone in an array, with the headers of a delivery."""
    sent = validation_request(invitation(), "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66", NOW)
    assert sent.method == "POST"
    assert sent.url == "https://example.com/hook?code=hush-hush"
    [event] = json.loads(sent.body)
    assert list(event) == [
        "id", "topic", "subject", "data", "eventType", "eventTime", "metadataVersion", "dataVersion"
    ]  # fmt: skip
    assert event == {
        "id": "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        "topic": "/subscriptions/5b4b650e/resourceGroups/rg/providers/Microsoft.EventGrid/topics/Orders",
        "subject": "",
        "data": {"validationCode": CODE, "validationUrl": event["data"]["validationUrl"]},
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "2018-01-25T22:12:19.4556811Z",
        "metadataVersion": "1",
        "dataVersion": "1",
    }
    assert list(event["data"]) == ["validationCode", "validationUrl"]
    assert dict(sent.headers) == {
        "Content-Type": "application/json; charset=utf-8",
        "aeg-event-type": "SubscriptionValidation",
        "aeg-subscription-name": "ORDERS-HOOK",
        "aeg-delivery-count": "0",
        "aeg-data-version": "1",
        "aeg-metadata-version": "1",
    }


def test_the_validation_url() -> None:
    """The URL is Event Grid's, on this server: by the name of the subscription, with code, time, version and token."""
    url = urlsplit(invitation().callback)
    assert url._replace(query="").geturl() == "https://grid.example/eventsubscriptions/orders-hook/validate"
    query = parse_qs(url.query)
    assert list(query) == ["id", "t", "apiVersion", "token"]
    assert query["id"] == [CODE]
    assert query["t"] == ["2018-01-25T22:12:19.4556811Z"]
    assert query["apiVersion"] == ["2018-05-01-preview"]
    assert read_token(query["token"][0]) == ConsentTarget(5, None)


def test_the_options_request() -> None:
    """A CloudEvents endpoint is asked by OPTIONS, with our origin and a callback, and without a body."""
    asked = invitation(CE)
    sent = validation_request(asked, "id", NOW)
    assert sent.method == "OPTIONS"
    assert sent.body == b""
    assert dict(sent.headers) == {
        "WebHook-Request-Origin": "eventgrid.azure.net",
        "WebHook-Request-Callback": asked.callback,
    }


@pytest.mark.parametrize("schema", list(DeliverySchema))
def test_static_headers_go_along(schema: DeliverySchema) -> None:
    """An endpoint behind a header of its own can consent: fixed delivery attributes are sent along."""
    attributes = (StaticAttribute("Authorization", "Basic x", True), DynamicAttribute("X-Key", "data.key"))
    one = invite("https://g", topic(), subscription(schema, attributes=attributes), CODE, NOW)
    sent = dict(validation_request(one, "id", NOW).headers)
    assert sent["Authorization"] == "Basic x"
    assert "X-Key" not in sent


def test_the_deletion_event() -> None:
    """A deleted subscription's endpoint gets its ARM id, with its own header; CloudEvents has no such event."""
    sent = deletion_request(topic(), subscription(DeliverySchema.CUSTOM), "id-1", NOW)
    assert sent is not None
    assert dict(sent.headers)["aeg-event-type"] == "SubscriptionDeletion"
    [event] = json.loads(sent.body)
    assert event["eventType"] == "Microsoft.EventGrid.SubscriptionDeletedEvent"
    assert event["data"] == {
        "eventSubscriptionId": "/subscriptions/5b4b650e/resourceGroups/rg/providers/Microsoft.EventGrid/topics/Orders"
        "/providers/Microsoft.EventGrid/eventSubscriptions/orders-hook"
    }
    assert deletion_request(topic(), subscription(CE), "id-1", NOW) is None


def test_the_topic_of_other_kinds() -> None:
    """A domain topic and a system topic are named as their events name them."""
    domain = topic(TopicKind.DOMAIN)
    system = topic(
        TopicKind.SYSTEM, Source("/subscriptions/1/x/storageAccounts/a", "Microsoft.Storage.StorageAccounts")
    )
    for place, of, name in (
        (domain, subscription(domain_topic="eu"), f"{domain.resource_id}/topics/eu"),
        (domain, subscription(), domain.resource_id),
        (system, subscription(), "/subscriptions/1/x/storageAccounts/a"),
    ):
        sent = validation_request(invite("https://g", place, of, CODE, NOW), "id", NOW)
        assert json.loads(sent.body)[0]["topic"] == name


def body(text: str) -> HttpReply:
    return HttpReply(200, (), text.encode())


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (body(f'{{"validationResponse": "{CODE}"}}'), Granted()),
        (body(f'{{"ValidationResponse": "{CODE.upper()}", "more": [1, {{}}]}}'), Granted()),
        (body(f'\ufeff {{"validationresponse": "{CODE}"}}\n'), Granted()),
        (body(""), Awaited()),
        (body("ok"), Awaited()),
        (body("null"), Awaited()),
        (body("[" * 100_000), Awaited()),
        (body(f'"{CODE}"'), Awaited()),
        (body(f'[{{"validationResponse": "{CODE}"}}]'), Awaited()),
        (body(f'{{"validationCode": "{CODE}"}}'), Awaited()),
        (body('{"validationResponse": "x"}'), Awaited()),
        (body('{"validationResponse": null}'), Awaited()),
        (body('{"validationResponse": 12}'), Awaited()),
        (HttpReply(202, (), f'{{"validationResponse": "{CODE}"}}'.encode()), Refused()),
        (HttpReply(201, (), f'{{"validationResponse": "{CODE}"}}'.encode()), Refused()),
        (HttpReply(204), Refused()),
        (HttpReply(301), Refused()),
        (HttpReply(404), Refused()),
        (HttpReply(500), Refused()),
        (HttpReply(503), Refused()),
        (NoReply(FailureKind.TIMED_OUT), Refused(again=True)),
        (NoReply(FailureKind.NOT_CONNECTED), Refused(again=True)),
        (NoReply(FailureKind.NAME_NOT_FOUND), Refused(again=True)),
        (NoReply(FailureKind.BROKEN_OFF), Refused(again=True)),
        (NoReply(FailureKind.TLS_FAILED), Refused()),
        (NoReply(FailureKind.ADDRESS_REFUSED), Refused()),
        (NoReply(FailureKind.INVALID_URL), Refused()),
        (NoReply(FailureKind.CLOSED), Refused()),
    ],
)
def test_answers_to_the_validation_event(answer: CallResult, verdict: Verdict) -> None:
    """Only 200 with the code as validationResponse consents; another 200 waits; what may pass is tried again."""
    assert judge(invitation(), answer) == verdict
    assert judge(invitation(DeliverySchema.CUSTOM), answer) == verdict


def origin(value: str, status: int = 200) -> HttpReply:
    return HttpReply(status, (("Allow", "POST"), ("webhook-allowed-origin", value)))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (origin("eventgrid.azure.net"), Granted()),
        (origin("EventGrid.Azure.net"), Granted()),
        (origin("*"), Granted()),
        (origin("*", 204), Granted()),
        (origin("*", 405), Refused()),
        (origin("elsewhere.example"), Refused()),
        (origin(""), Refused()),
        (HttpReply(200), Awaited()),
        (HttpReply(200, (("WebHook-Request-Origin", "*"),)), Awaited()),  # spec A22
        (HttpReply(200, (("Access-Control-Allow-Origin", "*"),)), Awaited()),
        (HttpReply(202), Refused()),
        (HttpReply(204), Refused()),
        (HttpReply(405), Refused()),
        (body(f'{{"validationResponse": "{CODE}"}}'), Awaited()),
        (NoReply(FailureKind.TIMED_OUT), Refused(again=True)),
    ],
)
def test_answers_to_options(answer: CallResult, verdict: Verdict) -> None:
    """Only WebHook-Allowed-Origin with our name or a star consents; a 200 without it waits for the callback."""
    assert judge(invitation(CE), answer) == verdict


@given(st.integers(1, 2**63 - 1), st.none() | st.text(min_size=1, max_size=64))
def test_a_token_names_its_place(topic_id: int, domain_topic: str | None) -> None:
    """Whatever a domain topic is called, its token leads back to it."""
    one = subscription(domain_topic=domain_topic)
    place = Topic(**{**{f: getattr(topic(), f) for f in Topic.__struct_fields__}, "id": topic_id})
    url = invite("https://g", place, one, CODE, NOW).callback
    assert read_token(parse_qs(urlsplit(url).query)["token"][0]) == ConsentTarget(topic_id, domain_topic)


@given(st.text(max_size=100))
def test_any_other_token_is_none(token: str) -> None:
    """A token from a stranger is a place or nothing, never an error."""
    found = read_token(token)
    assert found is None or 0 < found.topic < 2**63


@pytest.mark.parametrize(
    "raw", ["WzAsbnVsbF0", "Wy0xLG51bGxd", "WzE4NDQ2NzQ0MDczNzA5NTUxNjE1LG51bGxd", "W10", "bnVsbA", "é", "=="]
)
def test_tokens_that_no_store_could_look_up(raw: str) -> None:
    """Numbers that no topic has, and what is not a place at all."""
    assert read_token(raw) is None
