"""An estate file's own shape: sections of resources by kind, with subscriptions inside of their topics.

A resource is written flat: keys that are not listed here are the properties that Event Grid's API takes, and are
checked by it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from recapito.domain import limits
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.domain.templates import faults
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import InvalidInput

CONNECTION = "/connections"
"""The first part of a connection's id; the id of its resource follows."""

NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
DEFAULT_GROUP = "local"

_SECTIONS = ("resourceGroups", "storageAccounts", "connections", "topics", "domains", "systemTopics")
_TOP = ("$schema", "azureSubscription", "resourceGroup", "location", *_SECTIONS)
_PLACE = ("azureSubscription", "resourceGroup")
_ENVELOPE = ("location", "tags", "identity", "sku", "kind", "keys")
_CONNECTION_FORMS = ("connectionString", "sasUrl", "hostUrl", "defaultCredential", "azurite", "endpoints")

_ELSEWHERE = {
    "subscriptions": "Write each subscription inside of its topic, under 'subscriptions'.",
    "eventSubscriptions": "Write each subscription inside of its topic, under 'subscriptions'.",
    "parameters": "This is a file of parameters: apply its template, with --parameters @FILE.",
}

Secrets = Callable[[str, str, str], str]
"""Returns the content of a variable of the environment (`env`) or of a file (`file`), for the key at a path."""


class _Place(NamedTuple):
    azure_subscription: str
    resource_group: str
    location: str | None

    @property
    def group_id(self) -> str:
        return f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.resource_group}"


def is_template(data: Any) -> bool:
    """Whether a document has the shape of an ARM template."""
    return isinstance(data, dict) and "resources" in data


def fill_in(data: Any, read: Secrets, path: str = "") -> Any:
    """The data with each `{env: NAME}` and `{file: PATH}` replaced by its content; tags are left as they are."""
    if isinstance(data, list):
        return [fill_in(item, read, faults.at(path, n)) for n, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        [(source, name)] = data.items()
        if source in ("env", "file") and isinstance(name, str):
            return read(source, name, path)
    return {key: value if key == "tags" else fill_in(value, read, faults.at(path, key)) for key, value in data.items()}


def resources_of(data: Any) -> list[Declared]:
    """The resources that an estate asks for. A name that is there twice is refused."""
    if not isinstance(data, dict):
        raise DocumentFault(f"An estate file has sections: {', '.join(_SECTIONS)}.", "")
    for name, instead in _ELSEWHERE.items():
        if name in data:
            raise DocumentFault(f"'{name}' is not a key here. {instead}", name)
    _check_keys(data, _TOP, "")
    place = _Place(
        _text(data, "azureSubscription", "") or NO_SUBSCRIPTION,
        _text(data, "resourceGroup", "") or DEFAULT_GROUP,
        _text(data, "location", ""),
    )
    found: list[Declared] = []
    places: dict[str, str] = {}
    for declared in _walk(data, place):
        if declared.id.lower() in places:
            name = declared.id.rpartition("/")[2]
            raise DocumentFault(f"'{name}' is there twice, first at {places[declared.id.lower()]}.", declared.path)
        places[declared.id.lower()] = declared.path
        found.append(declared)
        if len(found) > limits.ESTATE_RESOURCES:
            raise DocumentFault(f"An estate may have {limits.ESTATE_RESOURCES} resources at most.", declared.path)
    return found


def _walk(data: Mapping[str, Any], place: _Place) -> Iterator[Declared]:
    for item, path in _items(data, "resourceGroups", ""):
        _check_keys(item, ("name", "azureSubscription", "location", "tags", "managedBy"), path)
        id = _at(place, item, path)._replace(resource_group=_name(item, path)).group_id
        yield Declared(id, _without(item, "name", "azureSubscription"), path, flat=True)
    for item, path in _items(data, "storageAccounts", ""):
        _check_keys(item, ("name", *_PLACE, "location", "tags", "sku", "kind", "subscriptions"), path)
        account = _top(item, "Microsoft.Storage/storageAccounts", place, path)
        yield account
        yield from _subscriptions(item, f"{account.id}/providers/Microsoft.EventGrid", path)
    for item, path in _items(data, "connections", ""):
        yield _connection(item, path)
    for kind in ("topics", "domains", "systemTopics"):
        for item, path in _items(data, kind, ""):
            topic = _top(item, f"Microsoft.EventGrid/{kind}", place, path)
            yield topic
            yield from _subscriptions(item, topic.id, path)
            if kind == "domains":
                yield from _domain_topics(item, topic.id, path)


def _domain_topics(domain: Mapping[str, Any], id: str, path: str) -> Iterator[Declared]:
    for item, place in _items(domain, "topics", path):
        _check_keys(item, ("name", "subscriptions"), place)
        topic = f"{id}/topics/{_name(item, place)}"
        yield Declared(topic, {}, place, flat=True)
        yield from _subscriptions(item, topic, place)


def _subscriptions(topic: Mapping[str, Any], id: str, path: str) -> Iterator[Declared]:
    for item, place in _items(topic, "subscriptions", path):
        properties = _without(item, "name", "endpoint", "options")
        if "endpoint" in item:
            if "destination" in item or "deliveryWithResourceIdentity" in item:
                raise DocumentFault("'endpoint' and 'destination' exclude each other.", f"{place}.endpoint")
            hook = {"endpointUrl": item["endpoint"]}
            properties["destination"] = {"endpointType": "WebHook", "properties": hook}
        body = {"properties": properties, **({"options": item["options"]} if "options" in item else {})}
        yield Declared(f"{id}/eventSubscriptions/{_name(item, place)}", body, place, flat=True)


def _top(item: Mapping[str, Any], type: str, place: _Place, path: str) -> Declared:
    """A resource directly in a group."""
    id = f"{_at(place, item, path).group_id}/providers/{type}/{_name(item, path)}"
    body = {key: item[key] for key in _ENVELOPE if key in item}
    if place.location is not None:
        body.setdefault("location", place.location)
    topics = ("topics",) if type.endswith("/domains") else ()
    properties = _without(item, "name", *_PLACE, "subscriptions", *topics, *_ENVELOPE)
    return Declared(id, {**body, "properties": properties} if properties else body, path, flat=True)


def _at(place: _Place, item: Mapping[str, Any], path: str) -> _Place:
    """The place of an item, which may name another one than the file."""
    return place._replace(
        azure_subscription=_text(item, "azureSubscription", path) or place.azure_subscription,
        resource_group=_text(item, "resourceGroup", path) or place.resource_group,
    )


def _connection(item: Mapping[str, Any], path: str) -> Declared:
    _check_keys(item, ("resourceId", *_CONNECTION_FORMS), path)
    try:
        id = parse_resource_id(_text(item, "resourceId", path) or "").text
    except InvalidInput as error:
        raise DocumentFault(error.message, f"{path}.resourceId") from None
    return Declared(f"{CONNECTION}{id}", _without(item, "resourceId"), path, flat=True)


def _items(data: Mapping[str, Any], key: str, path: str) -> Iterator[tuple[Any, str]]:
    """The members of a section, with their paths. A topic may be its name alone."""
    section = data.get(key)
    if section is None:
        return
    path = faults.at(path, key)
    if not isinstance(section, list):
        raise DocumentFault(f"'{path}' must be a list.", path)
    for n, item in enumerate(section):
        if not isinstance(item, dict) and not (isinstance(item, str) and key == "topics"):
            raise DocumentFault(f"'{path}[{n}]' must have a name.", f"{path}[{n}]")
        yield {"name": item} if isinstance(item, str) else item, f"{path}[{n}]"


def _name(item: Mapping[str, Any], path: str) -> str:
    name = _text(item, "name", path)
    if not name or "/" in name:
        raise DocumentFault(f"'{path}.name' is required, and has no slash.", f"{path}.name")
    return name


def _text(item: Mapping[str, Any], key: str, path: str) -> str | None:
    value = item.get(key)
    if value is not None and not isinstance(value, str):
        place = faults.at(path, key)
        raise DocumentFault(f"'{place}' must be a text; put it in quotes.", place)
    return value


def _without(item: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in keys}


def _check_keys(item: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    for name in item:
        if name not in known:
            place = faults.at(path, name)
            raise DocumentFault(f"'{name}' is not a key here. {faults.nearest(name, list(known))}", place)
