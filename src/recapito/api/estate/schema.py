"""The JSON schema of estate files, for editors: made from the types that requests are read by, so it cannot be stale.

The server checks more than a schema can: names, ranges, limits, and settings that exclude each other.
"""

from typing import Any

import msgspec

from recapito.api.operate.connections import ConnectionBody
from recapito.api.wire.options import OptionsBody
from recapito.api.wire.subscription import SubscriptionProperties
from recapito.api.wire.topic import BODIES
from recapito.domain import limits
from recapito.domain.resources.destination import DESTINATION_KINDS
from recapito.domain.resources.topic import TopicKind

_SECRET = "#/$defs/Secret"
_WRITTEN = {
    *("provisioningState", "metricResourceId", "endpoint", "privateEndpointConnections"),
    *("topic", "handshakeMessage", "extendedLocation", "id", "name", "type", "systemData", "properties"),
}
_TITLES = {
    TopicKind.CUSTOM: "Topics: events are published to them.",
    TopicKind.DOMAIN: "Domains: many topics behind one endpoint.",
    TopicKind.SYSTEM: "System topics: events of Azure resources.",
}


def estate_schema() -> dict[str, Any]:
    """The schema, in draft 2020-12."""
    types = [SubscriptionProperties, OptionsBody, ConnectionBody, *BODIES.values()]
    _, parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    named = {kind: parts[body.__name__] for kind, body in BODIES.items()}
    inner = {kind: parts[_properties_of(named[kind])] for kind in TopicKind}
    defs = {name: part for name, part in parts.items() if name not in {body.__name__ for body in BODIES.values()}}
    defs["Secret"] = _secret()
    defs["Subscription"] = _subscription(parts["SubscriptionProperties"])
    defs["Options"] = _options(parts["OptionsBody"])
    defs["Connection"] = _connection(parts["ConnectionBody"])
    for kind in TopicKind:
        defs[kind.value] = _topic(kind, named[kind], inner[kind])
    del defs["SubscriptionProperties"], defs["OptionsBody"], defs["ConnectionBody"]
    text = {"type": "string"}
    place = {"azureSubscription": text, "resourceGroup": text}
    account = _item({**place, "location": text, "tags": _tags(), "kind": text, "sku": {"type": "object"}})
    account["properties"]["subscriptions"] = _list("#/$defs/Subscription")
    sections: dict[str, Any] = {
        "$schema": text,
        **place,
        "location": {"type": "string", "description": "The location of resources that name none."},
        "resourceGroups": {
            "type": "array",
            "items": _item({"azureSubscription": text, "location": text, "tags": _tags(), "managedBy": text}),
        },
        "storageAccounts": {"type": "array", "items": account},
        "connections": _list("#/$defs/Connection"),
        **{kind.value: {**_list(f"#/$defs/{kind.value}"), "description": _TITLES[kind]} for kind in TopicKind},
    }
    sections["topics"]["items"] = {"anyOf": [text, sections["topics"]["items"]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Recapito estate file",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
        "$defs": defs,
    }


def names_of(path: str) -> list[str]:
    """The keys of a resource at a path such as `topics[0].subscriptions[1]`."""
    section = path.rpartition(".")[2].partition("[")[0]
    part = estate_schema()["$defs"]["Subscription" if section == "subscriptions" else section]
    return list(part["properties"])


def _properties_of(body: dict[str, Any]) -> str:
    """The name of the type of a body's `properties`."""
    refs = [one["$ref"] for one in body["properties"]["properties"]["anyOf"] if "$ref" in one]
    return str(refs[0]).rpartition("/")[2]


def _known(part: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in part["properties"].items() if name not in _WRITTEN}


def _topic(kind: TopicKind, body: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string"}
    item = _item({"azureSubscription": text, "resourceGroup": text, **_known(body), **_known(properties)})
    item["properties"]["subscriptions"] = _list("#/$defs/Subscription")
    if kind is not TopicKind.SYSTEM:
        keys = {name: {"$ref": _SECRET} for name in ("key1", "key2")}
        item["properties"]["keys"] = {"type": "object", "properties": keys, "additionalProperties": False}
    if kind is TopicKind.DOMAIN:
        inner = _item({"subscriptions": _list("#/$defs/Subscription")})
        item["properties"]["topics"] = {"type": "array", "items": {"anyOf": [text, inner]}}
    return item


def _subscription(part: dict[str, Any]) -> dict[str, Any]:
    item = _item(_known(part))
    kinds = sorted(kind.endpoint_type for kind in DESTINATION_KINDS.values())
    item["properties"]["endpoint"] = {"$ref": _SECRET, "description": "The URL of a webhook."}
    item["properties"]["destination"] = {
        "type": "object",
        "properties": {"endpointType": {"enum": kinds}, "properties": {"type": "object"}},
        "required": ["endpointType"],
    }
    item["properties"]["options"] = {"$ref": "#/$defs/Options"}
    return item


def _options(part: dict[str, Any]) -> dict[str, Any]:
    members = _known(part) | {"signingSecrets": _list(_SECRET) | {"maxItems": limits.SIGNING_SECRETS}}
    return {
        "type": "object",
        "description": "Options that Event Grid does not have. Without them, those of the server stay.",
        "properties": members,
        "additionalProperties": False,
    }


def _connection(part: dict[str, Any]) -> dict[str, Any]:
    members = _known(part)
    for name in ("connectionString", "sasUrl", "hostUrl"):
        members[name] = {"$ref": _SECRET}
    members["resourceId"] = {"type": "string", "description": "The Azure id of the resource."}
    return {"type": "object", "properties": members, "required": ["resourceId"], "additionalProperties": False}


def _secret() -> dict[str, Any]:
    sources = [
        {"type": "object", "properties": {name: {"type": "string"}}, "required": [name], "additionalProperties": False}
        for name in ("env", "file")
    ]
    return {
        "description": "The text itself, or where it is: {env: NAME} or {file: PATH}.",
        "anyOf": [{"type": "string"}, *sources],
    }


def _item(members: dict[str, Any]) -> dict[str, Any]:
    named = {"name": {"type": "string"}, **members}
    return {"type": "object", "properties": named, "required": ["name"], "additionalProperties": False}


def _list(ref: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": ref}}


def _tags() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "string"}}
