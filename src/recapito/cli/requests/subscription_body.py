"""The flags of event subscriptions as the bodies that the API takes: a destination, a filter, where dead letters go."""

import re
from typing import Any

import typer

from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit.az_flags import flatten, split, truth
from recapito.domain.filters.filter import ARITY, Arity, Operator
from recapito.domain.resources.destination import DESTINATION_KINDS, DestinationKind, StorageQueue

Wire = dict[str, Any]

ENDPOINT_TYPES = {kind.az_name: kind for kind in DESTINATION_KINDS.values() if kind.az_name is not None}
_QUEUE = re.compile(r"(/.+/storageAccounts/[^/]+)/queueServices/default/queues/([^/]+)", re.IGNORECASE)
_CONTAINER = re.compile(r"(/.+/storageAccounts/[^/]+)/blobServices/default/containers/([^/]+)", re.IGNORECASE)


def destination(
    endpoint: str | None,
    endpoint_type: str | None,
    max_events: int | None = None,
    kilobytes: int | None = None,
    attributes: list[str] | None = None,
    tenant: str | None = None,
    application: str | None = None,
    queue_ttl: int | None = None,
) -> Wire:
    """A destination; what was not asked for is left out."""
    kind = ENDPOINT_TYPES.get((endpoint_type or "webhook").lower())
    if kind is None:
        known = ", ".join(ENDPOINT_TYPES)
        raise typer.BadParameter(f"'{endpoint_type}' is not one of {known}", param_hint="--endpoint-type")
    mappings = None if attributes is None else [_attribute(split(use)) for use in attributes]
    properties: Wire = {
        "maxEventsPerBatch": max_events,
        "preferredBatchSizeInKilobytes": kilobytes,
        "deliveryAttributeMappings": mappings,
        "azureActiveDirectoryTenantId": tenant,
        "azureActiveDirectoryApplicationIdOrUri": application,
        "queueMessageTimeToLiveInSeconds": queue_ttl,
    }
    if endpoint is not None:
        properties |= _endpoint(kind, endpoint)
    return {"endpointType": kind.endpoint_type, "properties": given(properties)}


def _endpoint(kind: DestinationKind, endpoint: str) -> Wire:
    if kind.resource is None:
        return {"endpointUrl": endpoint}
    if kind is not DESTINATION_KINDS[StorageQueue]:
        return {"resourceId": endpoint}
    queue = _QUEUE.fullmatch(endpoint)
    if queue is None:
        text = "a storage queue is named …/storageAccounts/NAME/queueServices/default/queues/NAME"
        raise typer.BadParameter(text, param_hint="--endpoint")
    return {"resourceId": queue[1], "queueName": queue[2]}


def _attribute(words: list[str]) -> Wire:
    """`NAME static VALUE [true|false]` or `NAME dynamic FIELD`."""
    flag = "--delivery-attribute-mapping"
    kind = words[1].lower() if len(words) > 1 else ""
    if kind == "dynamic" and len(words) == 3:
        return {"name": words[0], "type": "Dynamic", "properties": {"sourceField": words[2]}}
    if kind == "static" and len(words) in (3, 4):
        secret = truth(words[3] if len(words) == 4 else "false", flag)
        return {"name": words[0], "type": "Static", "properties": {"value": words[2], "isSecret": secret}}
    text = "it is NAME static VALUE, NAME static VALUE true (a secret), or NAME dynamic FIELD"
    raise typer.BadParameter(text, param_hint=flag)


def dead_letter(place: str | None) -> Wire | None:
    """Where dead letters go: a container of a storage account by its id, or a directory of the server by its name."""
    if place is None:
        return None
    if not place:
        text = "it can not be empty; who wants no dead letters creates the event subscription again without it"
        raise typer.BadParameter(text, param_hint="--deadletter-endpoint")
    if not place.startswith("/"):
        return {"endpointType": "Directory", "properties": {"name": place}}
    container = _CONTAINER.fullmatch(place)
    if container is None:
        text = "a container is named …/storageAccounts/NAME/blobServices/default/containers/NAME"
        raise typer.BadParameter(text, param_hint="--deadletter-endpoint")
    properties = {"resourceId": container[1], "blobContainerName": container[2]}
    return {"endpointType": "StorageBlob", "properties": properties}


def filter_change(
    event_types: list[str] | None,
    begins_with: str | None,
    ends_with: str | None,
    case_sensitive: str | None,
    advanced: list[str] | None,
    arrays: str | None,
) -> Wire:
    """The members of a filter that were asked for."""
    return given(
        {
            "includedEventTypes": flatten(event_types),
            "subjectBeginsWith": begins_with,
            "subjectEndsWith": ends_with,
            "isSubjectCaseSensitive": truth(case_sensitive, "--subject-case-sensitive"),
            "advancedFilters": None if advanced is None else [_condition(split(use)) for use in advanced if use],
            "enableAdvancedFilteringOnArrays": truth(arrays, "--enable-advanced-filtering-on-arrays"),
        }
    )


def _condition(words: list[str]) -> Wire:
    """`KEY OPERATOR VALUE...`; a range is two numbers with a comma."""
    flag = "--advanced-filter"
    if len(words) < 2:
        raise typer.BadParameter("it is KEY OPERATOR VALUE...", param_hint=flag)
    key, named, *values = words
    operator = next((one for one in Operator if one.lower() == named.lower()), None)
    if operator is None:
        raise typer.BadParameter(f"'{named}' is not an operator{_nearest(named)}", param_hint=flag)
    head: Wire = {"operatorType": operator.value, "key": key}
    match ARITY[operator], values:
        case Arity.NONE, []:
            return head
        case Arity.NONE, _:
            raise typer.BadParameter(f"{operator} takes no value", param_hint=flag)
        case Arity.ONE, [value]:
            return {**head, "value": _number(value) if operator.numeric else truth(value, flag)}
        case Arity.ONE, _:
            raise typer.BadParameter(f"{operator} takes one value", param_hint=flag)
        case _, []:
            raise typer.BadParameter(f"{operator} takes values", param_hint=flag)
        case Arity.RANGES, _:
            return {**head, "values": [_range(value) for value in values]}
    return {**head, "values": [_number(value) for value in values] if operator.numeric else values}


def _nearest(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), [one.lower() for one in Operator], 1)
    known = {one.lower(): one for one in Operator}
    return f"; did you mean {known[near[0]]}?" if near else f"; known: {', '.join(Operator)}"


def _number(text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not a number", param_hint="--advanced-filter") from None


def _range(text: str) -> list[int | float]:
    ends = text.split(",")
    if len(ends) != 2:
        raise typer.BadParameter(f"'{text}' is not a range like 1,10", param_hint="--advanced-filter")
    return [_number(end) for end in ends]
