"""An event subscription on the wire: ARM's body into a draft, and a subscription into ARM's body.

A PUT wraps everything in `properties`, a PATCH is flat; a field that a PATCH omits or sends as null stays as it is.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from recapito.api.wire.dead_letter import read_dead_letter, show_dead_letter
from recapito.api.wire.decode import Body, Shown, Typed, check_choice, check_length, check_range, decode, invalid
from recapito.api.wire.destination import NOTHING_HIDDEN, Hidden, hidden_of, read_destination, show_destination
from recapito.api.wire.filter import FilterBody, read_filter, show_filter
from recapito.domain import limits
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.handshake.consent import shown
from recapito.domain.instant import stamp
from recapito.domain.resources.subscription import RetryPolicy, Subscription
from recapito.errors import InvalidInput
from recapito.intake.resources.drafts import SubscriptionChange, SubscriptionDraft

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_EXPIRY = datetime(2200, 1, 1, tzinfo=UTC)
_IDENTITY_TYPES = ("SystemAssigned", "UserAssigned")


class _RetryPolicy(Body):
    max_delivery_attempts: int | None = None
    event_time_to_live_in_minutes: int | None = None


class _SubscriptionIdentity(Body):
    type: str
    user_assigned_identity: str | None = None
    federated_identity_credential_info: Any = None


class _DeliveryWithIdentity(Body):
    identity: _SubscriptionIdentity | None = None
    destination: Typed | None = None


class _DeadLetterWithIdentity(Body):
    identity: _SubscriptionIdentity | None = None
    dead_letter_destination: Typed | None = None


class SubscriptionProperties(Body):
    """The properties of an event subscription as sent; they are the whole body of a PATCH."""

    destination: Typed | None = None
    delivery_with_resource_identity: _DeliveryWithIdentity | None = None
    filter: FilterBody | None = None
    labels: list[str] | None = None
    event_delivery_schema: str | None = None
    retry_policy: _RetryPolicy | None = None
    dead_letter_destination: Typed | None = None
    dead_letter_with_resource_identity: _DeadLetterWithIdentity | None = None
    expiration_time_utc: str | None = None
    # Fields that only the service writes; clients send them back.
    topic: Any = None
    provisioning_state: Any = None
    handshake_message: Any = None


class SubscriptionBody(Body):
    """An event subscription as sent."""

    properties: SubscriptionProperties
    id: Any = None
    name: Any = None
    type: Any = None
    system_data: Any = None


def read_subscription(body: bytes, name: str, domain_topic: str | None = None) -> SubscriptionDraft:
    """The draft of a subscription, or an error that names the field."""
    sent = decode(body, SubscriptionBody).properties
    changes, kept = _read(sent, "properties.")
    if "destination" not in changes:
        raise invalid("'properties.destination' is required.", "properties.destination")
    return SubscriptionDraft.of(name=name, domain_topic=domain_topic, **changes, kept=kept)


def read_subscription_change(body: bytes) -> SubscriptionChange:
    """The change that a PATCH makes, from the current draft to the wanted one."""
    sent = decode(body, SubscriptionProperties)

    def change(current: SubscriptionDraft) -> SubscriptionDraft:
        changes, kept = _read(sent, "", hidden_of(current.wanted.destination, current.wanted.attributes))
        stays = dict(current.wanted.kept)
        if "destination" in changes:
            stays = {name: value for name, value in stays.items() if name == "deadLetterIdentity"}
        if "dead_letter" in changes:
            stays.pop("deadLetterIdentity", None)
        return current.changed(**changes, kept={**stays, **kept})

    return change


def _read(
    sent: SubscriptionProperties, at: str, hidden: Hidden = NOTHING_HIDDEN
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a draft that the body sets, and its settings without an effect here, which are kept."""
    changes: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    _read_delivery(sent, at, changes, kept, hidden)
    _read_burial(sent, at, changes, kept)
    if sent.retry_policy is not None:
        changes["retry_policy"] = _read_retry_policy(sent.retry_policy, f"{at}retryPolicy")
    if sent.filter is not None:
        changes["filter"] = read_filter(sent.filter, f"{at}filter")
    if sent.labels is not None:
        changes["labels"] = _read_labels(sent.labels, f"{at}labels")
    if sent.event_delivery_schema:
        target = f"{at}eventDeliverySchema"
        chosen = check_choice(sent.event_delivery_schema, tuple(DeliverySchema), target)
        changes["delivery_schema"] = DeliverySchema(chosen)
    if sent.expiration_time_utc:
        changes["expires_at"] = _read_expiry(sent.expiration_time_utc, f"{at}expirationTimeUtc")
    return changes, kept


def _read_delivery(
    sent: SubscriptionProperties, at: str, changes: dict[str, Any], kept: dict[str, Any], hidden: Hidden
) -> None:
    within = f"{at}destination"
    destination, wrapped = sent.destination, sent.delivery_with_resource_identity
    if wrapped is not None and wrapped.destination is not None:
        outer = f"{at}deliveryWithResourceIdentity"
        if destination is not None:
            raise invalid(f"'{within}' and '{outer}' exclude each other.", outer)
        kept["deliveryIdentity"] = _read_identity(wrapped.identity, f"{outer}.identity")
        destination, within = wrapped.destination, f"{outer}.destination"
    if destination is not None:
        delivery = read_destination(destination, within, hidden)
        kept.update(delivery.kept)
        changes["destination"] = delivery.destination
        changes["batching"] = delivery.batching
        changes["attributes"] = delivery.attributes


def _read_burial(sent: SubscriptionProperties, at: str, changes: dict[str, Any], kept: dict[str, Any]) -> None:
    within = f"{at}deadLetterDestination"
    destination, wrapped = sent.dead_letter_destination, sent.dead_letter_with_resource_identity
    if wrapped is not None and wrapped.dead_letter_destination is not None:
        outer = f"{at}deadLetterWithResourceIdentity"
        if destination is not None:
            raise invalid(f"'{within}' and '{outer}' exclude each other.", outer)
        kept["deadLetterIdentity"] = _read_identity(wrapped.identity, f"{outer}.identity")
        destination, within = wrapped.dead_letter_destination, f"{outer}.deadLetterDestination"
    if destination is not None:
        changes["dead_letter"] = read_dead_letter(destination, within)


def _read_identity(sent: _SubscriptionIdentity | None, within: str) -> Shown:
    if sent is None:
        raise invalid(f"'{within}' is required.", within)
    user = sent.user_assigned_identity
    check_length(user or "", limits.RESOURCE_ID_CHARS, f"{within}.userAssignedIdentity")
    kind = check_choice(sent.type, _IDENTITY_TYPES, f"{within}.type")
    return {"type": kind, "userAssignedIdentity": user}


def _read_retry_policy(sent: _RetryPolicy, within: str) -> RetryPolicy:
    attempts, minutes = sent.max_delivery_attempts, sent.event_time_to_live_in_minutes
    attempts = limits.ATTEMPTS_DEFAULT if attempts is None else attempts
    minutes = limits.TTL_MINUTES_DEFAULT if minutes is None else minutes
    return RetryPolicy(
        check_range(attempts, limits.ATTEMPTS, f"{within}.maxDeliveryAttempts"),
        check_range(minutes, limits.TTL_MINUTES, f"{within}.eventTimeToLiveInMinutes"),
    )


def _read_labels(labels: list[str], within: str) -> tuple[str, ...]:
    if len(labels) > limits.LABELS:
        raise invalid(f"'{within}' may have {limits.LABELS} members at most.", within)
    return tuple(check_length(label, limits.LABEL_CHARS, within) for label in labels)


def _read_expiry(text: str, target: str) -> int:
    """The instant of an ISO 8601 date and time, by default in UTC. A later check refuses instants in the past."""
    try:
        at = datetime.fromisoformat(text[: limits.TAG_CHARS])
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(f"'{target}' must be a date and time, like 2030-01-31T12:00:00Z.", target) from None
    if at > _LAST_EXPIRY:
        raise InvalidInput("InvalidRequest", f"Invalid expiration time. It must be before {_LAST_EXPIRY.year}.", target)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def show_subscription(subscription: Subscription, id: str, type: str, topic: str, state: str) -> Shown:
    """A subscription as ARM shows it under one of its names, with every default filled in.

    While an endpoint's consent is awaited, the proposed subscription is shown.
    """
    wanted = shown(subscription)
    waiting = {} if subscription.handshake is None else {"handshakeMessage": subscription.handshake.note}
    return {
        "id": id,
        "name": subscription.name,
        "type": type,
        "properties": {
            "topic": topic,
            "provisioningState": state,
            **_show_delivery(wanted),
            "filter": show_filter(wanted.filter),
            "labels": list(wanted.labels) or None,
            "expirationTimeUtc": None if wanted.expires_at is None else stamp(wanted.expires_at),
            "eventDeliverySchema": wanted.delivery_schema.value,
            "retryPolicy": {
                "maxDeliveryAttempts": wanted.retry_policy.max_attempts,
                "eventTimeToLiveInMinutes": wanted.retry_policy.ttl_minutes,
            },
            **_show_burial(wanted),
            **waiting,
        },
        "systemData": {"createdAt": stamp(subscription.created_at), "lastModifiedAt": stamp(subscription.modified_at)},
    }


def _show_delivery(subscription: Subscription) -> Shown:
    destination, identity = show_destination(subscription), subscription.kept.get("deliveryIdentity")
    if identity is None:
        return {"destination": destination, "deliveryWithResourceIdentity": None}
    return {
        "destination": None,
        "deliveryWithResourceIdentity": {"identity": identity, "destination": destination},
    }


def _show_burial(subscription: Subscription) -> Shown:
    destination, identity = show_dead_letter(subscription.dead_letter), subscription.kept.get("deadLetterIdentity")
    if identity is None:
        return {"deadLetterDestination": destination, "deadLetterWithResourceIdentity": None}
    return {
        "deadLetterDestination": None,
        "deadLetterWithResourceIdentity": {"identity": identity, "deadLetterDestination": destination},
    }
