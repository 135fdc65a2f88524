"""The settings of a subscription in words, without its secrets."""

from typing import Any

from recapito.domain import limits
from recapito.domain.delivery.delivery import in_force
from recapito.domain.profiles.profile import load
from recapito.domain.resources.destination import kind_named
from recapito.domain.resources.subscription import RetryPolicy
from recapito.portal import format
from recapito.portal.api_types import ShownOptions
from recapito.portal.widgets.condition_text import show_values
from recapito.portal.widgets.pieces import Fact


def settings_facts(shown: dict[str, Any], options: ShownOptions) -> list[Fact]:
    """The settings of a subscription, and its options that Event Grid does not have."""
    properties = shown["properties"]
    wrapped = properties.get("deliveryWithResourceIdentity") or {}
    destination = properties.get("destination") or wrapped.get("destination") or {}
    attempts, minutes = _limits(destination.get("endpointType", ""), properties["retryPolicy"])
    found = [
        Fact("Endpoint type", destination.get("endpointType", "")),
        *_destination(destination.get("properties") or {}),
        Fact("Event schema", properties["eventDeliverySchema"]),
        Fact("Max delivery attempts", attempts),
        Fact("Event time to live", minutes),
        Fact("Dead letters", _dead_letters(properties)),
        *_filter(properties.get("filter") or {}),
        Fact("Limits", _own_limits(options)),
        Fact("Signatures", _signatures(options.signing_secrets)),
        Fact(
            "Expires",
            format.instant(properties.get("expirationTimeUtc")) if properties.get("expirationTimeUtc") else "",
        ),
        Fact("Labels", ", ".join(properties.get("labels") or [])),
        Fact("Provisioning state", properties["provisioningState"]),
        Fact("Created", format.instant(shown["systemData"]["createdAt"])),
        Fact("Resource id", shown["id"]),
    ]
    return [fact for fact in found if fact.value]


def _limits(endpoint_type: str, sent: dict[str, Any]) -> tuple[str, str]:
    """The limits of attempts and of time; a destination whose profile keeps events has none by default."""
    kind, policy = kind_named(endpoint_type), RetryPolicy(sent["maxDeliveryAttempts"], sent["eventTimeToLiveInMinutes"])
    if kind is not None and kind.profile is not None:
        policy = in_force(load(kind.profile), policy)
    attempts, minutes = policy.max_attempts, policy.ttl_minutes
    return (
        "no limit" if attempts == limits.UNLIMITED else str(attempts),
        "no limit" if minutes == limits.UNLIMITED else f"{minutes} min",
    )


def _signatures(secrets: int) -> str:
    return f"Standard Webhooks, {secrets} secret{'s' * (secrets > 1)}" if secrets else ""


def _own_limits(options: ShownOptions) -> str:
    wanted = {"requests in flight": options.max_requests, "events per second": options.events_per_second}
    return ", ".join(f"{format.number(limit)} {what}" for what, limit in wanted.items() if limit)


def _destination(properties: dict[str, Any]) -> list[Fact]:
    headers = [_header(one) for one in properties.get("deliveryAttributeMappings") or []]
    batch = properties.get("maxEventsPerBatch")
    return [
        Fact("Endpoint", properties.get("endpointBaseUrl") or properties.get("resourceId") or ""),
        Fact("Queue", properties.get("queueName") or ""),
        Fact(
            "Batching",
            f"{batch} event{'s' * (batch > 1)}, {properties.get('preferredBatchSizeInKilobytes')} KB" if batch else "",
        ),
        Fact("Headers", ", ".join(headers)),
    ]


def _header(mapping: dict[str, Any]) -> str:
    properties = mapping.get("properties") or {}
    if mapping["type"] == "Dynamic":
        return f"{mapping['name']} from {properties.get('sourceField')}"
    return (
        f"{mapping['name']} (secret)" if properties.get("isSecret") else f"{mapping['name']}: {properties.get('value')}"
    )


def _dead_letters(properties: dict[str, Any]) -> str:
    wrapped = properties.get("deadLetterWithResourceIdentity") or {}
    place = properties.get("deadLetterDestination") or wrapped.get("deadLetterDestination")
    if place is None:
        return "nowhere: events that are given up are dropped"
    inner = place["properties"]
    if place["endpointType"] == "Directory":
        return f"directory {inner['name']}"
    return f"container {inner['blobContainerName']} of {format.name_of(inner['resourceId'])}"


def _filter(filter: dict[str, Any]) -> list[Fact]:
    types = filter.get("includedEventTypes")
    conditions = [
        f"{one['key']} {one['operatorType']} {show_values(one).replace(chr(10), ', ')}".strip()
        for one in filter.get("advancedFilters") or []
    ]
    return [
        Fact("Event types", ", ".join(types) if types else "all"),
        Fact("Subject begins with", filter.get("subjectBeginsWith") or ""),
        Fact("Subject ends with", filter.get("subjectEndsWith") or ""),
        Fact("Advanced filters", "; ".join(conditions)),
    ]
