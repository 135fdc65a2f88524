"""An event subscription on the wire: ARM's body into a draft, and a subscription into ARM's body, under either name.

The query of an endpoint's URL may be a secret: it is taken and never shown.
"""

import re
from enum import Enum
from typing import Any

from recapito.api.wire import (
    Body,
    Shown,
    Typed,
    check_choice,
    check_length,
    check_range,
    decode,
    invalid,
    refuse_unbuilt,
)
from recapito.domain import limits
from recapito.domain.consent import provisioning_state, shown
from recapito.domain.filter import TAKE_ALL, Filter
from recapito.domain.instant import stamp
from recapito.domain.subscription import (
    Batching,
    DeadLetterBlobs,
    DeadLetterDestination,
    DeadLetterDirectory,
    RetryPolicy,
    Subscription,
    WebHook,
)
from recapito.domain.topic import Topic
from recapito.intake.draft import SubscriptionDraft


class Form(Enum):
    """One object has two names: nested under its topic, or an extension of the topic as a scope (spec §8)."""

    NESTED = ("/eventSubscriptions/", "Microsoft.EventGrid/topics/eventSubscriptions")
    SCOPE = ("/providers/Microsoft.EventGrid/eventSubscriptions/", "Microsoft.EventGrid/eventSubscriptions")


_DESTINATION = "properties.destination"
_DEAD_LETTER = "properties.deadLetterDestination"
_RETRY = "properties.retryPolicy"
_FILTER = "properties.filter"
_ENDPOINT_TYPES = (
    "WebHook",
    "AzureFunction",
    "EventHub",
    "ServiceBusQueue",
    "ServiceBusTopic",
    "StorageQueue",
    "HybridConnection",
    "NamespaceTopic",
    "MonitorAlert",
    "PartnerDestination",
)
_DEAD_LETTER_TYPES = ("Directory", "StorageBlob")
_DELIVERY_SCHEMAS = ("EventGridSchema", "CustomInputSchema", "CloudEventSchemaV1_0")
_DIRECTORY_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])")


class _WebHook(Body):
    endpoint_url: str
    max_events_per_batch: int | None = None
    preferred_batch_size_in_kilobytes: int | None = None
    azure_active_directory_tenant_id: str | None = None
    azure_active_directory_application_id_or_uri: str | None = None
    delivery_attribute_mappings: list[Any] | None = None
    minimum_tls_version_allowed: str | None = None
    endpoint_base_url: Any = None  # only the service writes it


class _Directory(Body):
    name: str


class _Filter(Body):
    included_event_types: list[str] | None = None
    subject_begins_with: str | None = None
    subject_ends_with: str | None = None
    is_subject_case_sensitive: bool | None = None
    enable_advanced_filtering_on_arrays: bool | None = None
    advanced_filters: list[Any] | None = None


class _RetryPolicy(Body):
    max_delivery_attempts: int | None = None
    event_time_to_live_in_minutes: int | None = None


class _Properties(Body):
    destination: Typed | None = None
    filter: _Filter | None = None
    labels: list[str] | None = None
    event_delivery_schema: str | None = None
    retry_policy: _RetryPolicy | None = None
    dead_letter_destination: Typed | None = None
    expiration_time_utc: str | None = None
    delivery_with_resource_identity: Any = None
    dead_letter_with_resource_identity: Any = None
    # What only the service writes; clients send it back to us.
    topic: Any = None
    provisioning_state: Any = None
    handshake_message: Any = None


class _SubscriptionBody(Body):
    properties: _Properties
    id: Any = None
    name: Any = None
    type: Any = None
    system_data: Any = None


def read_subscription(body: bytes, name: str) -> SubscriptionDraft:
    """The draft of a subscription, or an error that names the field."""
    sent = decode(body, _SubscriptionBody).properties
    _refuse_unbuilt(sent)
    if sent.destination is None:
        raise invalid(f"'{_DESTINATION}' is required.", _DESTINATION)
    webhook = _read_webhook(sent.destination)
    return SubscriptionDraft(
        name=name,
        destination=WebHook(url=webhook.endpoint_url),
        batching=_read_batching(webhook),
        retry_policy=_read_retry_policy(sent.retry_policy or _RetryPolicy()),
        dead_letter=None if sent.dead_letter_destination is None else _read_dead_letter(sent.dead_letter_destination),
        filter=TAKE_ALL if sent.filter is None else _read_filter(sent.filter),
        labels=_read_labels(sent.labels or []),
    )


def _refuse_unbuilt(sent: _Properties) -> None:
    schema = sent.event_delivery_schema or _DELIVERY_SCHEMAS[0]
    chosen = check_choice(schema, _DELIVERY_SCHEMAS, "properties.eventDeliverySchema")
    refuse_unbuilt(
        {
            "properties.eventDeliverySchema": chosen != _DELIVERY_SCHEMAS[0],
            "properties.deliveryWithResourceIdentity": sent.delivery_with_resource_identity,
            "properties.deadLetterWithResourceIdentity": sent.dead_letter_with_resource_identity,
            "properties.expirationTimeUtc": sent.expiration_time_utc,
        }
    )


def _read_webhook(destination: Typed) -> _WebHook:
    kind = check_choice(destination.endpoint_type, _ENDPOINT_TYPES, f"{_DESTINATION}.endpointType")
    refuse_unbuilt({f"{_DESTINATION}.endpointType": kind != "WebHook"})
    within = f"{_DESTINATION}.properties"
    sent = decode(destination.properties, _WebHook, within)
    refuse_unbuilt(
        {
            f"{within}.azureActiveDirectoryTenantId": sent.azure_active_directory_tenant_id,
            f"{within}.azureActiveDirectoryApplicationIdOrUri": sent.azure_active_directory_application_id_or_uri,
            f"{within}.deliveryAttributeMappings": sent.delivery_attribute_mappings,
            f"{within}.minimumTlsVersionAllowed": sent.minimum_tls_version_allowed,
        }
    )
    return sent


def _read_batching(sent: _WebHook) -> Batching:
    events, kilobytes = sent.max_events_per_batch, sent.preferred_batch_size_in_kilobytes
    within = f"{_DESTINATION}.properties"
    if events is not None:
        check_range(events, limits.BATCH_EVENTS, f"{within}.maxEventsPerBatch")
    if kilobytes is not None:
        check_range(kilobytes, limits.BATCH_KILOBYTES, f"{within}.preferredBatchSizeInKilobytes")
    return Batching(events, kilobytes)


def _read_retry_policy(sent: _RetryPolicy) -> RetryPolicy:
    attempts, minutes = sent.max_delivery_attempts, sent.event_time_to_live_in_minutes
    return RetryPolicy(
        check_range(
            limits.ATTEMPTS_DEFAULT if attempts is None else attempts, limits.ATTEMPTS, f"{_RETRY}.maxDeliveryAttempts"
        ),
        check_range(
            limits.TTL_MINUTES_DEFAULT if minutes is None else minutes,
            limits.TTL_MINUTES,
            f"{_RETRY}.eventTimeToLiveInMinutes",
        ),
    )


def _read_dead_letter(sent: Typed) -> DeadLetterDirectory:
    kind = check_choice(sent.endpoint_type, _DEAD_LETTER_TYPES, f"{_DEAD_LETTER}.endpointType")
    refuse_unbuilt({f"{_DEAD_LETTER}.endpointType": kind != "Directory"})
    name = decode(sent.properties, _Directory, f"{_DEAD_LETTER}.properties").name
    if not _DIRECTORY_NAME.fullmatch(name):
        target = f"{_DEAD_LETTER}.properties.name"
        raise invalid(
            f"'{target}' must be 3 to 63 lower-case letters, digits and hyphens, with no hyphen at either end.", target
        )
    return DeadLetterDirectory(name)


def _read_filter(sent: _Filter) -> Filter:
    refuse_unbuilt({f"{_FILTER}.advancedFilters": sent.advanced_filters})
    types = sent.included_event_types or []
    if len(types) > limits.FILTER_EVENT_TYPES:
        target = f"{_FILTER}.includedEventTypes"
        raise invalid(f"'{target}' may name {limits.FILTER_EVENT_TYPES} event types at most.", target)
    for name in types:
        check_length(name, limits.FILTER_CHARS, f"{_FILTER}.includedEventTypes", 1)
    takes_all = not types or any(name.lower() == "all" for name in types)
    return Filter(
        event_types=None if takes_all else tuple(types),
        subject_begins_with=check_length(
            sent.subject_begins_with or "", limits.FILTER_CHARS, f"{_FILTER}.subjectBeginsWith"
        ),
        subject_ends_with=check_length(sent.subject_ends_with or "", limits.FILTER_CHARS, f"{_FILTER}.subjectEndsWith"),
        subject_case_sensitive=bool(sent.is_subject_case_sensitive),
    )


def _read_labels(labels: list[str]) -> tuple[str, ...]:
    if len(labels) > limits.LABELS:
        raise invalid(f"'properties.labels' may have {limits.LABELS} members at most.", "properties.labels")
    return tuple(check_length(label, limits.LABEL_CHARS, "properties.labels") for label in labels)


def show_subscription(topic: Topic, stored: Subscription, form: Form, now: int) -> Shown:
    """A subscription as ARM shows it, with every default filled in; while consent is awaited, as it is wanted."""
    infix, type = form.value
    subscription = shown(stored)
    waiting = {} if stored.handshake is None else {"handshakeMessage": stored.handshake.note}
    return {
        "id": f"{topic.resource_id}{infix}{subscription.name}",
        "name": subscription.name,
        "type": type,
        "properties": {
            "topic": topic.resource_id,
            "provisioningState": provisioning_state(stored, now),
            "destination": _show_destination(subscription),
            "filter": _show_filter(subscription.filter),
            "labels": list(subscription.labels) or None,
            "eventDeliverySchema": _DELIVERY_SCHEMAS[0],
            "retryPolicy": {
                "maxDeliveryAttempts": subscription.retry_policy.max_attempts,
                "eventTimeToLiveInMinutes": subscription.retry_policy.ttl_minutes,
            },
            "deadLetterDestination": _show_dead_letter(subscription.dead_letter),
            **waiting,
        },
        "systemData": {"createdAt": stamp(subscription.created_at), "lastModifiedAt": stamp(subscription.modified_at)},
    }


def _show_destination(subscription: Subscription) -> Shown:
    batching = subscription.batching
    return {
        "endpointType": "WebHook",
        "properties": {
            "endpointBaseUrl": subscription.destination.base_url,
            "maxEventsPerBatch": batching.event_limit,
            "preferredBatchSizeInKilobytes": batching.preferred_kilobytes or limits.BATCH_KILOBYTES_DEFAULT,
        },
    }


def _show_filter(filter: Filter) -> Shown:
    return {
        "subjectBeginsWith": filter.subject_begins_with,
        "subjectEndsWith": filter.subject_ends_with,
        "includedEventTypes": None if filter.event_types is None else list(filter.event_types),
        "isSubjectCaseSensitive": filter.subject_case_sensitive,
    }


def _show_dead_letter(dead_letter: DeadLetterDestination | None) -> Shown | None:
    match dead_letter:
        case None:
            return None
        case DeadLetterDirectory(name):
            return {"endpointType": "Directory", "properties": {"name": name}}
        case DeadLetterBlobs(account, container):
            properties = {"resourceId": account, "blobContainerName": container}
            return {"endpointType": "StorageBlob", "properties": properties}
