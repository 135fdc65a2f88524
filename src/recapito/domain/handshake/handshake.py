"""The two handshakes with a webhook: the requests, and the verdict on an answer (spec §4.1, §4.2).

Subscriptions in the CloudEvents schema ask by OPTIONS, all others send a validation event. Only a 200 with the content
that its handshake demands is consent; any other 200 leaves ten minutes to fetch a URL; everything else is refusal.
"""

import base64
from hmac import compare_digest
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from recapito.domain.delivery.headers import (
    DATA_VERSION,
    DELETION,
    DELIVERY_COUNT,
    EVENT_TYPE,
    METADATA_VERSION,
    SUBSCRIPTION_NAME,
    VALIDATION,
)
from recapito.domain.excerpt import secrets_of
from recapito.domain.handshake.consent import asks_by_options, webhook_of
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, HttpRequest, NoReply
from recapito.domain.instant import stamp
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import StaticAttribute, Subscription
from recapito.domain.resources.topic import Topic

ORIGIN = "eventgrid.azure.net"
VALIDATION_EVENT = "Microsoft.EventGrid.SubscriptionValidationEvent"
DELETED_EVENT = "Microsoft.EventGrid.SubscriptionDeletedEvent"
_API_VERSION = "2018-05-01-preview"  # the first that had a validationUrl; Event Grid still writes it

# Failures that may be temporary: the handshake is tried again.
_TEMPORARY = frozenset(
    {FailureKind.NAME_NOT_FOUND, FailureKind.NOT_CONNECTED, FailureKind.TIMED_OUT, FailureKind.BROKEN_OFF}
)


class Granted(NamedTuple):
    """The endpoint consents."""


class Awaited(NamedTuple):
    """The endpoint may consent later."""


class Refused(NamedTuple):
    """The endpoint does not consent. `again`: another try may succeed."""

    again: bool = False


Verdict = Granted | Awaited | Refused


class Invitation(NamedTuple):
    """One handshake: the subscription of a topic, its code, and the callback URL that gives consent later."""

    topic: Topic
    subscription: Subscription
    code: str
    callback: str

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must not be shown of an answer, because it may repeat the request."""
        hidden = [a.value for a in self.subscription.attributes if isinstance(a, StaticAttribute) and a.secret]
        words = [word for value in hidden for word in (value, *value.split()) if word]  # a token without its scheme
        return (self.code, *words, *secrets_of(webhook_of(self.subscription).url))

    def __repr__(self) -> str:
        return f"<Invitation of {self.subscription!r}>"


class ConsentTarget(NamedTuple):
    """The scope of a subscription's name: a topic, or one topic of a domain."""

    topic: int
    domain_topic: str | None


def invite(public_url: str, topic: Topic, subscription: Subscription, code: str, now: int) -> Invitation:
    """A handshake that begins now."""
    token = _token(ConsentTarget(topic.id, subscription.domain_topic))
    query = urlencode({"id": code, "t": stamp(now), "apiVersion": _API_VERSION, "token": token}, safe=":")
    callback = f"{public_url}/eventsubscriptions/{subscription.name}/validate?{query}"
    return Invitation(topic, subscription, code, callback)


def _token(target: ConsentTarget) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(target)).decode().rstrip("=")


def read_token(token: str) -> ConsentTarget | None:
    """The target of a callback; None if the token is not one of ours. The token is not a secret, the code is."""
    try:
        target = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=ConsentTarget)
    except (ValueError, msgspec.MsgspecError):
        return None
    return target if 0 < target.topic < 2**63 else None


def is_code(code: str, given: str) -> bool:
    """Whether the given text is the code, compared in constant time."""
    return compare_digest(code.encode(), given.encode("utf-8", "replace"))


def validation_request(invitation: Invitation, event_id: str, now: int) -> HttpRequest:
    """The request of either handshake."""
    subscription = invitation.subscription
    if asks_by_options(subscription):
        asked = (("WebHook-Request-Origin", ORIGIN), ("WebHook-Request-Callback", invitation.callback))
        return HttpRequest("OPTIONS", webhook_of(subscription).url, (*asked, *_static(subscription)))
    data = {"validationCode": invitation.code, "validationUrl": invitation.callback}
    return _system_event(invitation.topic, subscription, VALIDATION, VALIDATION_EVENT, data, event_id, now)


def deletion_request(topic: Topic, subscription: Subscription, event_id: str, now: int) -> HttpRequest | None:
    """The request that announces a deletion to the webhook; None for CloudEvents, which has no such event."""
    if not isinstance(subscription.destination, WebHook) or asks_by_options(subscription):
        return None
    name = f"{_scope(topic, subscription)}/providers/Microsoft.EventGrid/eventSubscriptions/{subscription.name}"
    data = {"eventSubscriptionId": name}
    return _system_event(topic, subscription, DELETION, DELETED_EVENT, data, event_id, now)


def _system_event(
    topic: Topic, subscription: Subscription, kind: str, event_type: str, data: dict[str, str], event_id: str, now: int
) -> HttpRequest:
    event = {
        "id": event_id,
        "topic": _scope(topic, subscription),
        "subject": "",
        "data": data,
        "eventType": event_type,
        "eventTime": stamp(now),
        "metadataVersion": "1",
        "dataVersion": "1",
    }
    headers = (
        ("Content-Type", "application/json; charset=utf-8"),
        (EVENT_TYPE, kind),
        (SUBSCRIPTION_NAME, subscription.name.upper()),
        (DELIVERY_COUNT, "0"),
        (DATA_VERSION, "1"),
        (METADATA_VERSION, "1"),
    )
    return HttpRequest(
        "POST", webhook_of(subscription).url, headers + _static(subscription), msgspec.json.encode([event])
    )


def _static(subscription: Subscription) -> tuple[tuple[str, str], ...]:
    """The static headers: an endpoint that demands one must be able to consent too."""
    return tuple((a.name, a.value) for a in subscription.attributes if isinstance(a, StaticAttribute))


def _scope(topic: Topic, subscription: Subscription) -> str:
    """The resource id that events of the subscription name as their topic."""
    if topic.source is not None:
        return topic.source.resource_id
    return topic.resource_id + (f"/topics/{subscription.domain_topic}" if subscription.domain_topic else "")


def judge(invitation: Invitation, answer: CallResult) -> Verdict:
    """The verdict on an answer."""
    match answer:
        case NoReply(trouble):
            return Refused(again=trouble in _TEMPORARY)
        case HttpReply() if asks_by_options(invitation.subscription):
            return _judge_options(answer)
        case HttpReply(200):
            return Granted() if answered_code(answer) == invitation.code.lower() else Awaited()
    return Refused()


def _judge_options(reply: HttpReply) -> Verdict:
    """A status alone is not consent; an origin that is not ours is none either (spec §4.2)."""
    origin = allowed_origin(reply)
    if origin is not None:
        return Granted() if origin in ("*", ORIGIN) and 200 <= reply.status < 300 else Refused()
    return Awaited() if reply.status == 200 else Refused()


def allowed_origin(reply: HttpReply) -> str | None:
    """The origin that the endpoint allows, in lower case."""
    origin = reply.header("WebHook-Allowed-Origin")
    return None if origin is None else origin.strip().lower()


def answered_code(reply: HttpReply) -> str | None:
    """The `validationResponse` of a body, in lower case. Its name is read in any case, as Event Grid reads it."""
    try:
        body = msgspec.json.decode(reply.body.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    named = next((value for name, value in body.items() if name.lower() == "validationresponse"), None)
    return named.strip().lower() if isinstance(named, str) else None
