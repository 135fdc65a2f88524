"""`recapito event-subscription`: which events of a topic go where."""

from typing import Any

import typer

from recapito.cli import option
from recapito.cli import subscription_option as flag
from recapito.cli.greedy import flatten, truth
from recapito.cli.session import PROVIDER, part
from recapito.cli.subscription_body import dead_letter, destination, filter_change
from recapito.cli.topic_body import given
from recapito.cli.verb import Noun, Session

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Manage event subscriptions.")
noun = Noun(app)

_DROPS = "without --deadletter-endpoint, events that are never retried, expire or run out of attempts will be dropped."


@noun.verb("create")
def create(
    session: Session,
    endpoint: flag.Endpoint = None,
    name: option.Name = None,
    group: option.Group = None,
    source: flag.Source = None,
    topic_name: flag.TopicName = None,
    domain_name: flag.DomainName = None,
    domain_topic: flag.DomainTopic = None,
    system_topic: flag.SystemTopic = None,
    endpoint_type: flag.EndpointType = None,
    event_types: flag.EventTypes = None,
    begins_with: flag.BeginsWith = None,
    ends_with: flag.EndsWith = None,
    case_sensitive: flag.CaseSensitive = None,
    advanced: flag.Advanced = None,
    arrays: flag.Arrays = None,
    max_events: flag.MaxEvents = None,
    kilobytes: flag.Kilobytes = None,
    attempts: flag.Attempts = None,
    ttl: flag.Ttl = None,
    dead_letters: flag.DeadLetter = None,
    attributes: flag.Attributes = None,
    expiration: flag.Expiration = None,
    labels: flag.Labels = None,
    schema: flag.Schema = None,
    aad_tenant: flag.Tenant = None,
    application: flag.Application = None,
    queue_ttl: flag.QueueTtl = None,
    no_wait: option.NoWait = False,
) -> Any:
    """Create an event subscription, or replace it."""
    if endpoint is None:
        raise typer.BadParameter("say where events go", param_hint="--endpoint")
    properties = {
        "destination": destination(
            endpoint, endpoint_type, max_events, kilobytes, attributes, aad_tenant, application, queue_ttl
        ),
        "filter": filter_change(event_types, begins_with, ends_with, case_sensitive, advanced, arrays),
        "retryPolicy": given({"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": ttl}) or None,
        "deadLetterDestination": dead_letter(dead_letters),
        "labels": flatten(labels),
        "expirationTimeUtc": expiration,
        "eventDeliverySchema": schema,
    }
    path = _path(session, _scope(session, group, source, topic_name, domain_name, domain_topic, system_topic), name)
    made = session.put(path, {"properties": given(properties)}, not no_wait)
    if dead_letters is None:
        session.note(_DROPS)
    return _noted(session, made)


@noun.verb("update")
def update(
    session: Session,
    name: option.Name = None,
    group: option.Group = None,
    source: flag.Source = None,
    topic_name: flag.TopicName = None,
    domain_name: flag.DomainName = None,
    domain_topic: flag.DomainTopic = None,
    system_topic: flag.SystemTopic = None,
    endpoint: flag.Endpoint = None,
    endpoint_type: flag.EndpointType = None,
    event_types: flag.EventTypes = None,
    begins_with: flag.BeginsWith = None,
    ends_with: flag.EndsWith = None,
    case_sensitive: flag.CaseSensitive = None,
    advanced: flag.Advanced = None,
    arrays: flag.Arrays = None,
    max_events: flag.MaxEvents = None,
    kilobytes: flag.Kilobytes = None,
    attempts: flag.Attempts = None,
    ttl: flag.Ttl = None,
    dead_letters: flag.DeadLetter = None,
    attributes: flag.Attributes = None,
    expiration: flag.Expiration = None,
    labels: flag.Labels = None,
    schema: flag.Schema = None,
    queue_ttl: flag.QueueTtl = None,
    no_wait: option.NoWait = False,
) -> Any:
    """Change what is named; the rest stays as it is."""
    path = _path(session, _scope(session, group, source, topic_name, domain_name, domain_topic, system_topic), name)
    current = session.client.arm("GET", path)["properties"]
    old = current["destination"] or (current.get("deliveryWithResourceIdentity") or {}).get("destination") or {}
    kind = endpoint_type or old.get("endpointType")
    wanted = destination(endpoint, kind, max_events, kilobytes, attributes, queue_ttl=queue_ttl)
    change = {
        "destination": _changed_destination(old, wanted),
        "filter": _merged(
            current["filter"], filter_change(event_types, begins_with, ends_with, case_sensitive, advanced, arrays)
        ),
        "retryPolicy": _merged(
            current["retryPolicy"], given({"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": ttl})
        ),
        "deadLetterDestination": dead_letter(dead_letters),
        "labels": flatten(labels),
        "expirationTimeUtc": expiration,
        "eventDeliverySchema": schema,
    }
    return _noted(session, session.patch(path, given(change), not no_wait))


@noun.verb("show")
def show(
    session: Session,
    name: option.Name = None,
    group: option.Group = None,
    source: flag.Source = None,
    topic_name: flag.TopicName = None,
    domain_name: flag.DomainName = None,
    domain_topic: flag.DomainTopic = None,
    system_topic: flag.SystemTopic = None,
    full_url: flag.FullUrl = None,
    secrets: flag.Secrets = None,
) -> Any:
    """Show an event subscription."""
    path = _path(session, _scope(session, group, source, topic_name, domain_name, domain_topic, system_topic), name)
    found = session.client.arm("GET", path)
    place = found["properties"]["destination"] or {}
    if truth(full_url, "--include-full-endpoint-url") and place:
        place["properties"]["endpointUrl"] = session.client.arm("POST", f"{path}/getFullUrl")["endpointUrl"]
    if truth(secrets, "--include-attrib-secret") and place:
        shown = session.client.arm("POST", f"{path}/getDeliveryAttributes")["value"]
        place["properties"]["deliveryAttributeMappings"] = shown
    return found


@noun.verb("list")
def list_all(
    session: Session,
    group: option.Group = None,
    source: flag.Source = None,
    topic_name: flag.TopicName = None,
    domain_name: flag.DomainName = None,
    domain_topic: flag.DomainTopic = None,
    system_topic: flag.SystemTopic = None,
    location: flag.Location = None,
    topic_type: flag.TopicType = None,
    filter: option.Filter = None,
) -> Any:
    """List event subscriptions: of one thing, of a group, or all."""
    if any((source, topic_name, domain_name, system_topic)):
        scope = _scope(session, group, source, topic_name, domain_name, domain_topic, system_topic)
        return session.client.list(f"{scope}{PROVIDER}/eventSubscriptions", filter)
    within = session.in_subscription if group is None else session.group(group)
    path = within + PROVIDER
    if location is not None:
        path += f"/locations/{part(location)}"
    if topic_type is not None:
        path += f"/topicTypes/{part(topic_type)}"
    return session.client.list(f"{path}/eventSubscriptions", filter)


@noun.verb("delete")
def delete(
    session: Session,
    name: option.Name = None,
    group: option.Group = None,
    source: flag.Source = None,
    topic_name: flag.TopicName = None,
    domain_name: flag.DomainName = None,
    domain_topic: flag.DomainTopic = None,
    system_topic: flag.SystemTopic = None,
) -> Any:
    """Delete an event subscription; what it has not delivered yet is dropped."""
    scope = _scope(session, group, source, topic_name, domain_name, domain_topic, system_topic)
    return session.client.arm("DELETE", _path(session, scope, name))


def _scope(
    session: Session,
    group: str | None,
    source: str | None,
    topic: str | None,
    domain: str | None,
    domain_topic: str | None,
    system_topic: str | None,
) -> str:
    """The id of what is subscribed to; said in one way only."""
    ways = [way for way in (source, topic, domain, system_topic) if way is not None]
    if len(ways) != 1 or (domain_topic is not None and domain is None):
        text = "say of what, once: --source-resource-id, --topic-name, --domain-name (--domain-topic-name), "
        raise typer.BadParameter(f"{text}or --system-topic-name", param_hint="--source-resource-id")
    if domain is not None:
        path = session.path("domains", domain, group)
        return path if domain_topic is None else f"{path}/topics/{part(domain_topic)}"
    if system_topic is not None:
        return session.path("systemTopics", system_topic, group)
    return session.path("topics", ways[0], group)  # a bare name after --source-resource-id is a topic's


def _path(session: Session, scope: str, name: str | None) -> str:
    return f"{scope.rstrip('/')}{PROVIDER}/eventSubscriptions/{part(name or '')}"


def _changed_destination(old: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The destination with what was named changed. The server keeps a secret that it is not sent."""
    if old.get("endpointType") != wanted["endpointType"]:
        return wanted
    if not wanted["properties"]:
        return None
    return {**wanted, "properties": {**old["properties"], **wanted["properties"]}}


def _merged(current: dict[str, Any], change: dict[str, Any]) -> dict[str, Any] | None:
    return {**current, **change} if change else None


def _noted(session: Session, made: Any) -> Any:
    """Say what the user must do now, if there is anything."""
    message = made["properties"].get("handshakeMessage")
    if message:
        session.note(message)
    return made
