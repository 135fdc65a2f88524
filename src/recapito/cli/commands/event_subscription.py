"""`recapito event-subscription`: which events of a topic go where."""

from typing import Any

import typer

from recapito.cli.requests import subscription_options as flag
from recapito.cli.requests.subscription_flags import Scope, SubscriptionFlags
from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit import common_flags
from recapito.cli.toolkit.az_flags import truth
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.once import say_once
from recapito.cli.toolkit.session import PROVIDER, part
from recapito.cli.toolkit.verb import Noun, Session

app = commands("Manage event subscriptions.")
noun = Noun(app)

_DROPS = (
    "without --deadletter-endpoint, events that are never retried, expire or run out of attempts will be dropped."
    " (This is said once.)"
)


@noun.verb("create")
def create(
    session: Session,
    *,
    name: common_flags.Name = None,
    scope: Scope,
    wish: SubscriptionFlags,
    aad_tenant: flag.Tenant = None,
    application: flag.Application = None,
    no_wait: common_flags.NoWait = False,
) -> Any:
    """Create an event subscription, or replace it."""
    if wish.endpoint is None:
        raise typer.BadParameter("say where events go", param_hint="--endpoint")
    properties = {
        "destination": wish.destination(wish.endpoint_type, aad_tenant, application),
        "filter": wish.filter,
        "retryPolicy": wish.retry_policy or None,
        **wish.other,
    }
    made = session.put(scope.path(session, name), {"properties": given(properties)}, not no_wait)
    if wish.dead_letters is None:
        say_once(session, "drops", _DROPS)
    return _noted(session, made)


@noun.verb("update")
def update(
    session: Session,
    scope: Scope,
    wish: SubscriptionFlags,
    name: common_flags.Name = None,
    no_wait: common_flags.NoWait = False,
) -> Any:
    """Change what is named; the rest stays as it is."""
    path = scope.path(session, name)
    current = session.client.arm("GET", path)["properties"]
    old = current["destination"] or (current.get("deliveryWithResourceIdentity") or {}).get("destination") or {}
    change = {
        "destination": _changed_destination(old, wish.destination(wish.endpoint_type or old.get("endpointType"))),
        "filter": _merged(current["filter"], wish.filter),
        "retryPolicy": _merged(current["retryPolicy"], wish.retry_policy),
        **wish.other,
    }
    return _noted(session, session.patch(path, given(change), not no_wait))


@noun.verb("show")
def show(
    session: Session,
    *,
    name: common_flags.Name = None,
    scope: Scope,
    full_url: flag.FullUrl = None,
    secrets: flag.Secrets = None,
) -> Any:
    """Show an event subscription."""
    path = scope.path(session, name)
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
    scope: Scope,
    location: flag.Location = None,
    topic_type: flag.TopicType = None,
    filter: common_flags.Filter = None,
) -> Any:
    """List event subscriptions: of one thing, of a group, or all."""
    if scope.is_named:
        return session.client.list(f"{scope.of(session)}{PROVIDER}/eventSubscriptions", filter)
    path = (session.in_subscription if scope.group is None else session.group(scope.group)) + PROVIDER
    if location is not None:
        path += f"/locations/{part(location)}"
    if topic_type is not None:
        path += f"/topicTypes/{part(topic_type)}"
    return session.client.list(f"{path}/eventSubscriptions", filter)


@noun.verb("delete")
def delete(session: Session, *, name: common_flags.Name = None, scope: Scope) -> Any:
    """Delete an event subscription; what it has not delivered yet is dropped."""
    return session.client.arm("DELETE", scope.path(session, name))


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
