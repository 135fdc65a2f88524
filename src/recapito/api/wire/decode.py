"""Bodies of management requests into typed values; every error is an ARM error that names the field.

Names of properties compare without case, as ARM's do.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import InvalidInput

T = TypeVar("T")
Shown = dict[str, Any]

# The paths of fields that rules in lower layers name by their short names.
_TARGETS = {
    "endpointUrl": "properties.destination.properties.endpointUrl",
    "maxEventsPerBatch": "properties.destination.properties.maxEventsPerBatch",
    "preferredBatchSizeInKilobytes": "properties.destination.properties.preferredBatchSizeInKilobytes",
    "deliveryAttributeMappings": "properties.destination.properties.deliveryAttributeMappings",
    "azureActiveDirectoryApplicationIdOrUri": (
        "properties.destination.properties.azureActiveDirectoryApplicationIdOrUri"
    ),
    "resourceId": "properties.destination.properties.resourceId",
    "deadLetterDestination": "properties.deadLetterDestination.properties.resourceId",
    "eventDeliverySchema": "properties.eventDeliverySchema",
    "expirationTimeUtc": "properties.expirationTimeUtc",
    "includedEventTypes": "properties.filter.includedEventTypes",
    "inputSchema": "properties.inputSchema",
    "inputSchemaMapping": "properties.inputSchemaMapping",
    "source": "properties.source",
    "topicType": "properties.topicType",
    "profile": "tags.recapito-profile",
}
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_NAME_CHARS = 100

UNKNOWN = "is not a known property."


class Body(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A JSON object of a management request; a field that Event Grid does not know is refused."""


class Typed(Body):
    """An object whose `properties` depend on its `endpointType`."""

    endpoint_type: str
    properties: Any = msgspec.field(default_factory=dict)


def decode(body: bytes, type: type[T]) -> T:
    try:
        return convert(_parse(body, type), type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput("InvalidRequestContent", f"The request body is not valid JSON: {what}.") from None


def _parse(body: bytes, type: type[T]) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:  # an unreadable number: decoding into the type names its field
        try:
            return msgspec.json.decode(body, type=type)
        except msgspec.ValidationError as error:
            raise _explain(str(error), "", type) from None


def convert(value: object, type: type[T], within: str = "") -> T:
    """Plain data as a value of this type; `within` is its path in the request."""
    try:
        return msgspec.convert(_respell(value, _info(cast(Hashable, type))), type)
    except msgspec.ValidationError as error:
        raise _explain(str(error), within, type) from None


@cache
def _info(type: Hashable) -> inspect.Type:
    return inspect.type_info(type)


def _respell(value: object, info: inspect.Type) -> object:
    """The same data with the names of properties spelled as in the type."""
    match info:
        case inspect.UnionType(types=types):
            return next((other for type in types if (other := _respell(value, type)) is not value), value)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            known = {field.encode_name.lower(): field for field in fields}
            new: dict[str, object] = {}
            for name, member in value.items():
                field = known.get(name.lower())
                new[field.encode_name if field else name] = _respell(member, field.type) if field else member
            return new
        case inspect.ListType(item_type=item) if isinstance(value, list):
            return [_respell(member, item) for member in value]
    return value


def _explain(error: str, within: str, type: type[Any]) -> InvalidInput:
    place = _PLACE.search(error)
    message = error[: place.start()] if place else error
    path = ".".join(part for part in (within, place[1] if place else "") if part)
    if field := _FIELD.fullmatch(message):
        target = f"{path}.{shorten(field[2])}" if path else shorten(field[2])
        if "unknown" not in field[1]:
            return invalid(f"'{target}' is required.", target)
        known = _names_at(_info(cast(Hashable, type)), place[1] if place else "")
        return invalid(f"'{target}' {UNKNOWN}{did_you_mean(field[2], known)}", target)
    message = message.replace(" | null", "").replace("`", "")
    return invalid(f"'{path or 'the body'}' has the wrong type: {message}.", path or None)


def _names_at(info: inspect.Type, path: str) -> list[str]:
    """The names of the properties of the object at a path."""
    steps = re.findall(r"[^.\[\]]+|\[", path)
    for step in ["", *steps]:
        if isinstance(info, inspect.StructType) and step:
            info = next((field.type for field in info.fields if field.encode_name == step), inspect.AnyType())
        elif isinstance(info, inspect.ListType) and step == "[":
            info = info.item_type
        if isinstance(info, inspect.UnionType):
            info = next((one for one in info.types if isinstance(one, inspect.StructType | inspect.ListType)), info)
    return [field.encode_name for field in info.fields] if isinstance(info, inspect.StructType) else []


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The end of an error about a wrong name: the known name that is most like it, if one is."""
    names = {name.lower(): name for name in known}
    close = get_close_matches(wrong.lower(), list(names), 1)
    return f" Did you mean '{names[close[0]]}'?" if close else ""


def invalid(message: str, target: str | None) -> InvalidInput:
    return InvalidInput("InvalidRequest", message, target)


def read_resource_id(text: str | None, kinds: tuple[str, ...], what: str, target: str) -> str:
    """The id of a resource of one of these kinds, or an error that names the field."""
    resource = parse_resource_id(text or "", target)
    if resource.kind not in kinds:
        raise invalid(f"'{target}' must be the resource id of {what}.", target)
    return resource.text


def check_range(value: int, allowed: tuple[int, int], target: str) -> int:
    """The value, if it lies within its range, both ends included."""
    least, most = allowed
    if not least <= value <= most:
        raise invalid(f"'{target}' must be between {least} and {most}.", target)
    return value


def check_length(value: str, most: int, target: str, least: int = 0) -> str:
    """The string, if its length is within the limits, both ends included."""
    if not least <= len(value) <= most:
        raise invalid(f"'{target}' must have {least} to {most} characters.", target)
    return value


def check_choice(value: str, choices: tuple[str, ...], target: str) -> str:
    """The choice in its proper spelling; case does not matter."""
    chosen = next((choice for choice in choices if choice.lower() == value.lower()), None)
    if chosen is None:
        raise invalid(f"'{target}' must be one of {', '.join(choices)}.", target)
    return chosen


def refuse_unbuilt(fields: Mapping[str, object]) -> None:
    """Refuse settings of Event Grid that are not implemented, instead of ignoring them."""
    for target, value in fields.items():
        if value:
            raise InvalidInput("NotSupported", f"'{target}' is not supported yet by this version of Recapito.", target)


def is_flat(method: str, path: str) -> bool:
    """Whether a request's body has no `properties` around its fields: only PATCH of an event subscription is so."""
    return method == "PATCH" and "/eventsubscriptions/" in path.lower()


def full_target(target: str | None, flat: bool) -> str | None:
    """The path in the request of a field that a rule named by its short name."""
    if target is None:
        return None
    full = _TARGETS.get(target, target)
    return full.removeprefix("properties.") if flat else full


def shorten(name: str) -> str:
    """A name from outside, printable and at most 100 characters long."""
    printable = "".join(char if char.isprintable() else "?" for char in name[:_NAME_CHARS])
    return printable if len(name) <= _NAME_CHARS else f"{printable}…"
