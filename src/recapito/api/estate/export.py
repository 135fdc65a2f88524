"""A server's resources as a document: an estate file, or an ARM template of one group.

Values that the API never shows become `{env: NAME}` in an estate file and parameters in a template, unless secrets are
asked for. Values that are defaults are left out, so an export and the file that made it read alike.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from recapito.api.estate.address import ResourceAddress, Stage
from recapito.api.estate.kinds import Parts
from recapito.api.wire.attributes import MAPPINGS, show_attributes
from recapito.api.wire.subscription import show_subscription
from recapito.api.wire.topic import show_topic
from recapito.connections.keyring import ListedConnection
from recapito.domain import limits
from recapito.domain.connections.form import SECRET_FORMS, form_of
from recapito.domain.delivery.signature import show_secret
from recapito.domain.estate.estate import NO_SUBSCRIPTION
from recapito.domain.events.schema import InputSchema
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import StaticAttribute, Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.templates.expression import escape
from recapito.errors import SettingsError
from recapito.intake.resources.topics import PAGE
from recapito.intake.resources.validation import DEFAULT_LOCATION, delivery_schema

TEMPLATE_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
_VERSIONS = {"Microsoft.Storage": "2023-01-01"}
_VERSION = "2022-06-15"
_WRITTEN = ("provisioningState", "metricResourceId", "endpoint", "privateEndpointConnections")
_TOPIC_DEFAULTS: dict[str, Any] = {
    "inputSchema": InputSchema.EVENT_GRID.value,
    "publicNetworkAccess": "Enabled",
    "inboundIpRules": [],
    "disableLocalAuth": False,
    "autoCreateTopicWithFirstSubscription": True,
    "autoDeleteTopicWithLastSubscription": True,
}
_HOOK_DEFAULTS: dict[str, Any] = {
    "maxEventsPerBatch": limits.BATCH_EVENTS_DEFAULT,
    "preferredBatchSizeInKilobytes": limits.BATCH_KILOBYTES_DEFAULT,
}
_RETRY_DEFAULTS = {
    "maxDeliveryAttempts": limits.ATTEMPTS_DEFAULT,
    "eventTimeToLiveInMinutes": limits.TTL_MINUTES_DEFAULT,
}
_FILTER_DEFAULTS: dict[str, Any] = {
    "subjectBeginsWith": "",
    "subjectEndsWith": "",
    "isSubjectCaseSensitive": False,
    "enableAdvancedFilteringOnArrays": False,
}


class Secret(NamedTuple):
    """A value that is not shown; `name` is that of its variable."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"


class Exported(NamedTuple):
    """One resource with its body as ARM takes it, and `Secret` in places of secrets."""

    address: ResourceAddress
    body: dict[str, Any]


async def walk_all(parts: Parts, public_url: str) -> AsyncIterator[Exported]:
    """All resources that a document can name, those first that others need."""
    topics = parts.topics
    for azure in await topics.groups.azure_subscriptions():
        after = ""
        while page := await topics.groups.page(azure, after, PAGE):
            for group in page:
                place = ResourceAddress(Stage.GROUP, group.name, group.azure_subscription, group.name)
                body = {"location": group.location, "tags": group.tags, "managedBy": group.managed_by}
                yield Exported(place, _filled(body))
            after = page[-1].name
    after = ""
    while accounts := await topics.accounts.page(after, PAGE):
        for account in accounts:
            place = ResourceAddress(Stage.ACCOUNT, account.name, account.azure_subscription, account.resource_group)
            about = {"location": account.location, "tags": account.tags, "kind": account.kind}
            yield Exported(place, _filled(about | {"sku": {"name": account.sku}}))
        after = accounts[-1].name
    for listed in await parts.keyring.list():
        if not listed.given:
            yield await _connection(parts, listed)
    for kind in TopicKind:
        async for topic in topics.walk(kind):
            async for exported in _walk_topic(parts, topic, public_url):
                yield exported


async def _walk_topic(parts: Parts, topic: Topic, public_url: str) -> AsyncIterator[Exported]:
    place = ResourceAddress(Stage.TOPIC, topic.name, topic.azure_subscription, topic.resource_group, topic.kind)
    implicit = topic.source is not None and topic.source.implicit
    if not implicit:
        yield Exported(place, _show_topic(topic, public_url))
    if topic.kind is TopicKind.DOMAIN:
        after = ""
        while page := await parts.topics.domain_topics.page(topic, after, PAGE):
            for one in page:
                yield Exported(place._replace(stage=Stage.DOMAIN_TOPIC, name=one.name, topic=topic.name), {})
            after = page[-1].name
    account = topic.source.resource_id if implicit and topic.source is not None else ""
    async for subscription in parts.subscriptions.walk(topic):
        address = place._replace(
            stage=Stage.SUBSCRIPTION,
            name=subscription.name,
            topic=topic.name,
            domain_topic=subscription.domain_topic,
            account=account,
        )
        yield Exported(address, _show_subscription(parts, topic, subscription))


async def _connection(parts: Parts, listed: ListedConnection) -> Exported:
    address = ResourceAddress(Stage.CONNECTION, listed.resource_id)
    name = f"{listed.resource_id.rpartition('/')[2]} connection"
    try:
        connection = await parts.keyring.get(listed.resource_id)
    except SettingsError:
        connection = None
    if connection is None:
        return Exported(address, {"connectionString": Secret(name, "")})
    form = form_of(connection)
    body = {key: Secret(name, value) if key in SECRET_FORMS else value for key, value in form.items()}
    return Exported(address._replace(name=connection.resource_id), body)


def _show_topic(topic: Topic, public_url: str) -> dict[str, Any]:
    shown = show_topic(topic, public_url)
    properties = {
        name: value
        for name, value in shown["properties"].items()
        if name not in _WRITTEN and _TOPIC_DEFAULTS.get(name, _NOTHING) != value
    }
    body = {name: shown.get(name) for name in ("location", "tags", "identity")} | {"properties": properties}
    if topic.kind is not TopicKind.SYSTEM:
        keys = {"key1": topic.key1, "key2": topic.key2}
        body["keys"] = {name: Secret(f"{topic.name} {name}", key) for name, key in keys.items()}
    filled: dict[str, Any] = _filled(body)
    return filled


def _show_subscription(parts: Parts, topic: Topic, stored: Subscription) -> dict[str, Any]:
    subscription = stored.proposed or stored
    shown = show_subscription(subscription, "", "", "", "")["properties"]
    name = f"{topic.name} {subscription.name}"
    for where in ("destination", "deliveryWithResourceIdentity"):
        destination = shown[where] if where == "destination" else (shown[where] or {}).get("destination")
        if destination is not None:
            destination["properties"] = _show_destination(subscription, destination["properties"], name)
    properties = {key: shown[key] for key in shown if key not in ("topic", "provisioningState", "handshakeMessage")}
    properties["retryPolicy"] = _unusual(shown["retryPolicy"], _RETRY_DEFAULTS)
    properties["filter"] = _unusual(shown["filter"], _FILTER_DEFAULTS)
    if subscription.delivery_schema is delivery_schema(None, topic):
        del properties["eventDeliverySchema"]
    options: dict[str, Any] = _filled({"options": _show_options(parts, stored, name)})
    return {"properties": _filled(properties), **options}


def _show_options(parts: Parts, subscription: Subscription, name: str) -> dict[str, Any]:
    options = subscription.options
    try:
        secrets = [show_secret(key) for key in parts.options.open(subscription).secrets]
    except SettingsError:
        secrets = [""] * len(options.signing)
    names = (f"{name} signing secret", f"{name} former signing secret")
    return {
        "maxRequests": options.max_requests or None,
        "eventsPerSecond": options.events_per_second or None,
        "signingSecrets": [Secret(*pair) for pair in zip(names, secrets, strict=False)],
    }


def _show_destination(subscription: Subscription, shown: dict[str, Any], name: str) -> dict[str, Any]:
    properties = _unusual(shown, _HOOK_DEFAULTS)
    hook = subscription.destination
    if isinstance(hook, WebHook):
        del properties["endpointBaseUrl"]
        url = hook.url if hook.url == hook.base_url else Secret(f"{name} url", hook.url)
        properties = {"endpointUrl": url, **properties}
    if subscription.attributes:
        properties[MAPPINGS] = show_attributes(subscription.attributes, secrets=True)
        for attribute, mapping in zip(subscription.attributes, properties[MAPPINGS], strict=True):
            if isinstance(attribute, StaticAttribute) and attribute.secret:
                mapping["properties"]["value"] = Secret(f"{name} {attribute.name}", attribute.value)
    return properties


_NOTHING = object()


def _unusual(shown: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if defaults.get(name, _NOTHING) != value}


def _filled(value: Any) -> Any:
    """The value without members that are null, empty texts, lists or objects. A secret is never left out."""
    if isinstance(value, Secret):
        return value
    if isinstance(value, dict):
        inner = {name: _filled(member) for name, member in value.items()}
        return {name: member for name, member in inner.items() if member is not None and member not in ({}, [])}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def as_estate(resources: Sequence[Exported], secrets: bool) -> dict[str, Any]:
    """The document of an estate file."""
    azure = {one.address.azure_subscription for one in resources if one.address.azure_subscription}
    groups = {one.address.group for one in resources if one.address.group}
    document: dict[str, Any] = {}
    if len(azure) == 1 and azure != {NO_SUBSCRIPTION}:
        document["azureSubscription"] = next(iter(azure))
    if len(groups) == 1:
        document["resourceGroup"] = next(iter(groups))
    topics: dict[str, dict[str, Any]] = {}
    accounts: list[Exported] = []
    for exported in resources:
        address, body = exported.address, _write(exported.body, secrets, _variable)
        place: dict[str, Any] = {} if len(azure) <= 1 else {"azureSubscription": address.azure_subscription}
        if address.stage not in (Stage.GROUP, Stage.CONNECTION) and len(groups) > 1:
            place["resourceGroup"] = address.group
        properties = body.pop("properties", {})
        item = {"name": address.name, **place, **body, **properties}
        match address.stage:
            case Stage.GROUP:
                document.setdefault("resourceGroups", []).append(item)
            case Stage.ACCOUNT:
                document.setdefault("storageAccounts", []).append(item)
            case Stage.CONNECTION:
                document.setdefault("connections", []).append({"resourceId": address.name, **body})
            case Stage.TOPIC:
                if not secrets:
                    item.pop("keys", None)
                topics[address.id.lower()] = item
                document.setdefault(address.kind.value, []).append(item)
            case Stage.DOMAIN_TOPIC:
                domain = topics[address._replace(stage=Stage.TOPIC, name=address.topic).id.lower()]
                topic = {"name": address.name}
                topics[address.id.lower()] = topic
                domain.setdefault("topics", []).append(topic)
            case Stage.SUBSCRIPTION if address.account:
                accounts.append(exported)
            case Stage.SUBSCRIPTION:
                stage = Stage.TOPIC if address.domain_topic is None else Stage.DOMAIN_TOPIC
                parent = address._replace(stage=stage, name=address.domain_topic or address.topic)
                one = {key: value for key, value in item.items() if key not in place}
                topics[parent.id.lower()].setdefault("subscriptions", []).append(_shorten(one))
    for exported in accounts:
        _add_to_account(document, exported.address, _write(exported.body, secrets, _variable))
    return document


def _add_to_account(document: dict[str, Any], address: ResourceAddress, body: dict[str, Any]) -> None:
    """A subscription on a storage account itself stands with its account."""
    name = address.account.rpartition("/")[2]
    account = next(item for item in document["storageAccounts"] if item["name"] == name)
    options = {name: value for name, value in body.items() if name != "properties"}
    account.setdefault("subscriptions", []).append(_shorten({"name": address.name, **options, **body["properties"]}))


def _shorten(item: dict[str, Any]) -> dict[str, Any]:
    """A plain webhook is its URL alone."""
    destination = item.get("destination") or {}
    if destination.get("endpointType") != "WebHook" or set(destination["properties"]) != {"endpointUrl"}:
        return item
    rest = {key: value for key, value in item.items() if key not in ("name", "destination")}
    return {"name": item["name"], "endpoint": destination["properties"]["endpointUrl"], **rest}


def as_template(resources: Sequence[Exported], azure_subscription: str, group: str) -> dict[str, Any]:
    """An ARM template of the resources of one group; secrets are its parameters, and it has no keys and no options."""
    parameters: dict[str, Any] = {}

    def parameter(secret: Secret) -> str:
        words = re.findall(r"[A-Za-z0-9]+", secret.name)
        name = words[0].lower() + "".join(word.capitalize() for word in words[1:])
        parameters[name] = {"type": "securestring"}
        return f"[parameters('{name}')]"

    wanted = azure_subscription.lower(), group.lower()
    entries = []
    for address, body in resources:
        place = address.azure_subscription.lower(), address.group.lower()
        if place != wanted or address.stage in (Stage.GROUP, Stage.CONNECTION):
            continue
        names = [part for part in (address.topic, address.domain_topic, address.name) if part]
        if address.account:
            names = [address.name]
        rest = {name: value for name, value in body.items() if name not in ("keys", "options")}
        parent = _parent(address)
        entry: dict[str, Any] = {
            "type": address.type,
            "apiVersion": _VERSIONS.get(address.type.partition("/")[0], _VERSION),
            "name": escape("/".join(names)),
        }
        if address.stage in (Stage.TOPIC, Stage.ACCOUNT):
            entry["location"] = DEFAULT_LOCATION
        if address.account:
            entry["scope"] = address.account
        entry |= _write(rest, False, parameter, escape)
        if parent is not None:
            entry["dependsOn"] = [parent]
        entries.append(entry)
    document: dict[str, Any] = {"$schema": TEMPLATE_SCHEMA, "contentVersion": "1.0.0.0"}
    if parameters:
        document["parameters"] = parameters
    return {**document, "resources": entries}


def _parent(address: ResourceAddress) -> str | None:
    if address.account:
        return address.account
    if address.domain_topic is not None:
        return address._replace(stage=Stage.DOMAIN_TOPIC, name=address.domain_topic).id
    return address._replace(stage=Stage.TOPIC, name=address.topic).id if address.topic else None


def _variable(secret: Secret) -> dict[str, str]:
    return {"env": re.sub(r"[^A-Z0-9]+", "_", secret.name.upper()).strip("_")}


def _write(value: Any, secrets: bool, hide: Any, text: Any = str) -> Any:
    """Plain data: a secret is written out, or hidden."""
    if isinstance(value, Secret):
        return text(value.value) if secrets else hide(value)
    if isinstance(value, dict):
        return {name: _write(member, secrets, hide, text) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_write(item, secrets, hide, text) for item in value]
    return text(value) if isinstance(value, str) else value
