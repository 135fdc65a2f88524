"""The flags of event subscriptions, by az's names, and the parts of the request body that they become.

A flag is one field of `ScopeFlags` or `SubscriptionFlags`; the property below that holds its part of the body reads it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.flags import TRUTH, flatten, split, truth
from recapito.cli.toolkit.session import PROVIDER, CommandSession, part
from recapito.domain.events.schema import DeliverySchema, listed
from recapito.domain.filters.filter import ARITY, Arity, Operator
from recapito.domain.resources.destination import DESTINATION_KINDS, DestinationKind, StorageQueue

Wire = dict[str, Any]

_KINDS = {kind.az_name: kind for kind in DESTINATION_KINDS.values()}
_QUEUE = re.compile(r"(/.+/storageAccounts/[^/]+)/queueServices/default/queues/([^/]+)", re.IGNORECASE)
_CONTAINER = re.compile(r"(/.+/storageAccounts/[^/]+)/blobServices/default/containers/([^/]+)", re.IGNORECASE)


@dataclass(frozen=True)
class ScopeFlags:
    """The topic, domain or system topic that an event subscription belongs to."""

    group: flags.Group = None
    source: Annotated[
        str | None,
        typer.Option("--source-resource-id", "--resource-id", help="Id of the resource to subscribe to."),
    ] = None
    topic_name: Annotated[str | None, typer.Option("--topic-name", help="Name of the topic to subscribe to.")] = None
    domain_name: Annotated[str | None, typer.Option("--domain-name", help="Name of the domain to subscribe to.")] = None
    domain_topic: Annotated[
        str | None, typer.Option("--domain-topic-name", help="Topic within --domain-name to subscribe to.")
    ] = None
    system_topic: Annotated[
        str | None, typer.Option("--system-topic-name", help="Name of the system topic to subscribe to.")
    ] = None

    @property
    def is_named(self) -> bool:
        """Whether any of the flags was given."""
        return any((self.source, self.topic_name, self.domain_name, self.system_topic))

    def of(self, session: CommandSession) -> str:
        """The id of the resource that is subscribed to; exactly one flag may name it."""
        named = [
            name for name in (self.source, self.topic_name, self.domain_name, self.system_topic) if name is not None
        ]
        if len(named) != 1 or (self.domain_topic is not None and self.domain_name is None):
            text = "give one of --source-resource-id, --topic-name, --domain-name (--domain-topic-name), "
            raise typer.BadParameter(f"{text}--system-topic-name", param_hint="--source-resource-id")
        if self.domain_name is not None:
            path = session.path("domains", self.domain_name, self.group)
            return path if self.domain_topic is None else f"{path}/topics/{part(self.domain_topic)}"
        if self.system_topic is not None:
            return session.path("systemTopics", self.system_topic, self.group)
        return session.path("topics", named[0], self.group)  # a bare name after --source-resource-id is a topic's

    def path(self, session: CommandSession, name: str | None) -> str:
        """The id of the event subscription of this name."""
        return f"{self.of(session).rstrip('/')}{PROVIDER}/eventSubscriptions/{part(name or '')}"


@dataclass(frozen=True)
class SubscriptionFlags:
    """The properties of an event subscription that `create` and `update` take."""

    endpoint: Annotated[str | None, typer.Option(help="URL, or id of an Azure resource, to deliver events to.")] = None
    endpoint_type: Annotated[str | None, typer.Option(help=f"{', '.join(_KINDS)}.", show_default="webhook")] = None
    event_types: Annotated[
        list[str] | None,
        typer.Option("--included-event-types", metavar="TYPE...", help="Event types to deliver; all if left out."),
    ] = None
    begins_with: Annotated[
        str | None, typer.Option("--subject-begins-with", help="Deliver events whose subject begins with this.")
    ] = None
    ends_with: Annotated[
        str | None, typer.Option("--subject-ends-with", help="Deliver events whose subject ends with this.")
    ] = None
    case_sensitive: Annotated[
        str | None, typer.Option("--subject-case-sensitive", metavar=TRUTH, help="Compare subjects with case.")
    ] = None
    advanced: Annotated[
        list[str] | None,
        typer.Option(
            "--advanced-filter",
            metavar="KEY OPERATOR VALUE...",
            help="Condition such as data.color StringIn red blue; all conditions must hold.",
        ),
    ] = None
    arrays: Annotated[
        str | None,
        typer.Option(
            "--enable-advanced-filtering-on-arrays",
            "--enable-af-arr",
            metavar=TRUTH,
            help="Apply advanced filters to the elements of arrays.",
        ),
    ] = None
    max_events: Annotated[
        int | None,
        typer.Option("--max-events-per-batch", help="Events per request, 1 to 5000.", show_default="1"),
    ] = None
    kilobytes: Annotated[
        int | None,
        typer.Option(
            "--preferred-batch-size-in-kilobytes",
            "--pref-batch-size-kb",
            help="Preferred size of a request, 1 to 1024 KB.",
            show_default="64",
        ),
    ] = None
    attempts: Annotated[
        int | None,
        typer.Option("--max-delivery-attempts", help="Attempts before giving up, 1 to 30.", show_default="30"),
    ] = None
    ttl: Annotated[
        int | None,
        typer.Option("--event-ttl", help="Minutes before giving up, 1 to 1440.", show_default="1440"),
    ] = None
    dead_letters: Annotated[
        str | None,
        typer.Option("--deadletter-endpoint", help="Blob container id, or server directory name, for dead letters."),
    ] = None
    attributes: Annotated[
        list[str] | None,
        typer.Option(
            "--delivery-attribute-mapping",
            "-d",
            metavar="NAME KIND VALUE...",
            help="Custom header: NAME static VALUE [true if secret], or NAME dynamic FIELD.",
        ),
    ] = None
    expiration: Annotated[
        str | None, typer.Option("--expiration-date", help="Date of deletion, such as 2030-01-31T12:00:00Z.")
    ] = None
    labels: Annotated[list[str] | None, typer.Option(metavar="LABEL...", help="Labels.")] = None
    schema: Annotated[
        str | None,
        typer.Option("--event-delivery-schema", help=f"{listed(DeliverySchema)}."),
    ] = None
    queue_ttl: Annotated[
        int | None,
        typer.Option("--storage-queue-msg-ttl", "--qttl", help="Lifetime of storage queue messages in seconds."),
    ] = None

    def destination(self, endpoint_type: str | None, tenant: str | None = None, application: str | None = None) -> Wire:
        """The destination with its batching and headers; members that were not given are left out."""
        kind = _KINDS.get((endpoint_type or "webhook").lower())
        if kind is None:
            text = f"'{endpoint_type}' is not one of {', '.join(_KINDS)}"
            raise typer.BadParameter(text, param_hint="--endpoint-type")
        mappings = None if self.attributes is None else [_attribute(split(use)) for use in self.attributes]
        properties: Wire = {
            "maxEventsPerBatch": self.max_events,
            "preferredBatchSizeInKilobytes": self.kilobytes,
            "deliveryAttributeMappings": mappings,
            "azureActiveDirectoryTenantId": tenant,
            "azureActiveDirectoryApplicationIdOrUri": application,
            "queueMessageTimeToLiveInSeconds": self.queue_ttl,
        }
        if self.endpoint is not None:
            properties |= _endpoint(kind, self.endpoint)
        return {"endpointType": kind.endpoint_type, "properties": given(properties)}

    @property
    def filter(self) -> Wire:
        """The members of the filter that were given."""
        conditions = None if self.advanced is None else [_condition(split(use)) for use in self.advanced if use]
        return given(
            {
                "includedEventTypes": flatten(self.event_types),
                "subjectBeginsWith": self.begins_with,
                "subjectEndsWith": self.ends_with,
                "isSubjectCaseSensitive": truth(self.case_sensitive, "--subject-case-sensitive"),
                "advancedFilters": conditions,
                "enableAdvancedFilteringOnArrays": truth(self.arrays, "--enable-advanced-filtering-on-arrays"),
            }
        )

    @property
    def retry_policy(self) -> Wire:
        """The members of the retry policy that were given."""
        return given({"maxDeliveryAttempts": self.attempts, "eventTimeToLiveInMinutes": self.ttl})

    @property
    def other(self) -> Wire:
        """The other properties, None for those that were not given."""
        return {
            "deadLetterDestination": _dead_letter(self.dead_letters),
            "labels": flatten(self.labels),
            "expirationTimeUtc": self.expiration,
            "eventDeliverySchema": self.schema,
        }


def _endpoint(kind: DestinationKind, endpoint: str) -> Wire:
    if not kind.resources:
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


def _dead_letter(location: str | None) -> Wire | None:
    """A container of a storage account by its id, or a directory of the server by its name."""
    if location is None:
        return None
    if not location:
        text = "it cannot be empty; to stop dead-lettering, create the event subscription again without it"
        raise typer.BadParameter(text, param_hint="--deadletter-endpoint")
    if not location.startswith("/"):
        return {"endpointType": "Directory", "properties": {"name": location}}
    container = _CONTAINER.fullmatch(location)
    if container is None:
        text = "a container is named …/storageAccounts/NAME/blobServices/default/containers/NAME"
        raise typer.BadParameter(text, param_hint="--deadletter-endpoint")
    properties = {"resourceId": container[1], "blobContainerName": container[2]}
    return {"endpointType": "StorageBlob", "properties": properties}


def _condition(words: list[str]) -> Wire:
    """`KEY OPERATOR VALUE...`; a range is two numbers with a comma."""
    flag = "--advanced-filter"
    if len(words) < 2:
        raise typer.BadParameter("it is KEY OPERATOR VALUE...", param_hint=flag)
    key, named, *values = words
    operator = next((operator for operator in Operator if operator.lower() == named.lower()), None)
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

    operators = {operator.lower(): operator for operator in Operator}
    near = get_close_matches(word.lower(), operators, 1)
    return f"; did you mean {operators[near[0]]}?" if near else f"; known: {', '.join(Operator)}"


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
