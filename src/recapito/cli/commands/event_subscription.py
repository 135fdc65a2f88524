"""`recapito event-subscription`: create, change, show, list and delete event subscriptions."""

from typing import Annotated, Any

import typer

from recapito.cli.requests.subscription import ScopeFlags, SubscriptionFlags
from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.flags import TRUTH, truth
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import PROVIDER, note_once, part
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.domain import limits
from recapito.domain.instant import SECOND

app = commands("Manage event subscriptions.")
noun = Noun(app)

Tenant = Annotated[
    str | None,
    typer.Option("--azure-active-directory-tenant-id", "--aad-tenant-id", help="Tenant that issues webhook tokens."),
]
Application = Annotated[
    str | None,
    typer.Option(
        "--azure-active-directory-application-id-or-uri",
        "--aad-app-id",
        help="Application id or URI that webhook tokens are issued for.",
    ),
]
FullUrl = Annotated[
    str | None,
    typer.Option("--include-full-endpoint-url", metavar=TRUTH, help="Show the whole URL, which may hold a secret."),
]
Secrets = Annotated[
    str | None,
    typer.Option(
        "--include-attrib-secret",
        "--include-static-delivery-attribute-secret",
        metavar=TRUTH,
        help="Show the values of secret attributes.",
    ),
]
Location = Annotated[str | None, typer.Option("--location", "-l", help="List only those of topics at this location.")]
TopicType = Annotated[str | None, typer.Option("--topic-type-name", help="List only those of topics of this type.")]

_MOST_S = (
    limits.HANDSHAKE_TRIES * limits.ANSWER_WAIT_NS + (limits.HANDSHAKE_TRIES - 1) * limits.HANDSHAKE_PAUSE_NS
) // SECOND
_HANDSHAKE_S = _MOST_S + 10.0
_DROPS = (
    "without --deadletter-endpoint, events that are never retried, expire or run out of attempts are dropped."
    " (This note appears once.)"
)


@noun.verb("create")
def create(
    session: CommandSession,
    *,
    name: flags.Name = None,
    scope: ScopeFlags,
    wanted: SubscriptionFlags,
    aad_tenant: Tenant = None,
    application: Application = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Create an event subscription, or replace it."""
    if wanted.endpoint is None:
        raise typer.BadParameter("name the endpoint to deliver events to", param_hint="--endpoint")
    properties = {
        "destination": wanted.destination(wanted.endpoint_type, aad_tenant, application),
        "filter": wanted.filter,
        "retryPolicy": wanted.retry_policy or None,
        **wanted.other,
    }
    with session.announcing(asking(wanted.endpoint)):
        path = scope.path(session, name)
        created = session.put(path, {"properties": given(properties)}, not no_wait, _HANDSHAKE_S)
    if wanted.dead_letters is None:
        note_once(session, "drops", _DROPS)
    return _noted(session, created)


@noun.verb("update")
def update(
    session: CommandSession,
    scope: ScopeFlags,
    wanted: SubscriptionFlags,
    name: flags.Name = None,
    no_wait: flags.NoWait = False,
) -> Any:
    """Change the given properties; the others stay as they are."""
    path = scope.path(session, name)
    current = session.client.arm("GET", path)["properties"]
    old = current["destination"] or (current.get("deliveryWithResourceIdentity") or {}).get("destination") or {}
    change = {
        "destination": _changed_destination(old, wanted.destination(wanted.endpoint_type or old.get("endpointType"))),
        "filter": _merged(current["filter"], wanted.filter),
        "retryPolicy": _merged(current["retryPolicy"], wanted.retry_policy),
        **wanted.other,
    }
    with session.announcing(asking(wanted.endpoint)):
        changed = session.patch(path, given(change), not no_wait, _HANDSHAKE_S)
    return _noted(session, changed)


@noun.verb("show")
def show(
    session: CommandSession,
    *,
    name: flags.Name = None,
    scope: ScopeFlags,
    full_url: FullUrl = None,
    secrets: Secrets = None,
) -> Any:
    """Show an event subscription."""
    path = scope.path(session, name)
    subscription = session.client.arm("GET", path)
    destination = subscription["properties"]["destination"] or {}
    if truth(full_url, "--include-full-endpoint-url") and destination:
        destination["properties"]["endpointUrl"] = session.client.arm("POST", f"{path}/getFullUrl")["endpointUrl"]
    if truth(secrets, "--include-attrib-secret") and destination:
        attributes = session.client.arm("POST", f"{path}/getDeliveryAttributes")["value"]
        destination["properties"]["deliveryAttributeMappings"] = attributes
    return subscription


@noun.verb("list")
def list_all(
    session: CommandSession,
    scope: ScopeFlags,
    location: Location = None,
    topic_type: TopicType = None,
    filter: flags.Filter = None,
) -> Any:
    """List event subscriptions of one resource, of a group, or all."""
    if scope.is_named:
        return session.client.list(f"{scope.of(session)}{PROVIDER}/eventSubscriptions", filter)
    path = (session.in_subscription if scope.group is None else session.group(scope.group)) + PROVIDER
    if location is not None:
        path += f"/locations/{part(location)}"
    if topic_type is not None:
        path += f"/topicTypes/{part(topic_type)}"
    return session.client.list(f"{path}/eventSubscriptions", filter)


@noun.verb("delete")
def delete(session: CommandSession, *, name: flags.Name = None, scope: ScopeFlags) -> Any:
    """Delete an event subscription and drop its pending events."""
    return session.client.arm("DELETE", scope.path(session, name))


def asking(endpoint: str | None) -> str:
    """The reason why a subscription is not created at once: its endpoint does not answer, and is asked again."""
    where = "the endpoint" if endpoint is None else endpoint.partition("?")[0]
    tries, pause = limits.HANDSHAKE_TRIES, limits.HANDSHAKE_PAUSE_NS // SECOND
    return (
        f"waiting for {where} to consent: it is asked {tries} times, {pause} s apart, and has"
        f" {limits.ANSWER_WAIT_NS // SECOND} s for each answer, so this ends after {_MOST_S} s at the latest"
    )


def _changed_destination(old: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The destination with the given members changed. The server keeps a secret that it is not sent."""
    if old.get("endpointType") != wanted["endpointType"]:
        return wanted
    if not wanted["properties"]:
        return None
    return {**wanted, "properties": {**old["properties"], **wanted["properties"]}}


def _merged(current: dict[str, Any], change: dict[str, Any]) -> dict[str, Any] | None:
    return {**current, **change} if change else None


def _noted(session: CommandSession, subscription: Any) -> Any:
    """Print what the user must do for the handshake, if anything."""
    message = subscription["properties"].get("handshakeMessage")
    if message:
        session.note(message)
    return subscription
