"""Reads JSON texts without changing them: their faults, their members, the value at a path.

Nothing here encodes a value again: the value of a member is the very bytes of the text.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from recapito.domain import limits

T = TypeVar("T")
SHORTEST_MEMBER = len('"":1,')

_BOM = b"\xef\xbb\xbf"


class Fault(Exception):
    """A fault of a text, in words for its publisher."""


class _Name:
    """The name of a member, equal to no other: a dict with such keys keeps repeated members."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _name(kind: type, text: str) -> _Name:
    return _Name(text)


_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_pairs = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=_name).decode
_decode_lists_of_pairs = msgspec.json.Decoder(list[dict[_Name, Raw]], dec_hook=_name).decode
_decode_string = msgspec.json.Decoder(str).decode


def decode(decoder: Callable[[bytes], T], body: bytes) -> T:
    """Decode a body with a decoder of msgspec; its error becomes a Fault."""
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the UTF-8 of raw values
        return decoder(body)
    except UnicodeDecodeError as error:
        raise Fault(f"The body is not UTF-8 (byte {error.start}).") from None
    except msgspec.ValidationError as error:
        raise Fault(_explain(str(error))) from None
    except msgspec.DecodeError as error:
        raise Fault(_malformed(str(error), body)) from None
    except RecursionError:
        raise Fault(f"The JSON is nested deeper than {limits.JSON_DEPTH} levels.") from None


def members(text: bytes | Raw) -> dict[str, Raw]:
    """The members of an object, which is valid JSON; a repeated member is a Fault."""
    found = _decode_members(text)
    compact = 1 + sum([len(name) + len(bytes(value)) + 4 for name, value in found.items()])
    if len(bytes(text)) - compact >= SHORTEST_MEMBER:  # room for a repeated member, or for blanks only
        _check_once(_decode_pairs(text))
    return found


def check_members_once(body: bytes) -> None:
    """Refuse a list of objects, which is valid JSON, if one of them repeats a member."""
    for n, event in enumerate(_decode_lists_of_pairs(body)):
        try:
            _check_once(event)
        except Fault as fault:
            raise Fault(f"Event {n}: {fault}") from None


def _check_once(pairs: dict[_Name, Raw]) -> None:
    seen: set[str] = set()
    for name in pairs:
        if name.text in seen:
            raise Fault(f"property '{shortened(name.text)}' is present more than once.")
        seen.add(name.text)


def top(text: bytes | Raw) -> dict[str, Raw]:
    """The members of an object, which is valid JSON; the last of repeated ones."""
    return _decode_members(text)


def reach(properties: dict[str, Raw], path: tuple[str, ...]) -> Raw | None:
    """The value at a path of names, starting from these members; None if there is none."""
    value = properties.get(path[0])
    for name in path[1:]:
        if value is None:
            return None
        try:
            value = _decode_members(value).get(name)
        except msgspec.ValidationError:
            return None  # not an object
    return value


def scalar(value: Raw) -> str | None:
    """The text of a string, a number (as it was written) or a boolean; None for anything else."""
    text = bytes(value)
    match text[:1]:
        case b'"':
            return _decode_string(text)
        case b"{" | b"[" | b"n":
            return None
    return text.decode()


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def too_deep(text: bytes) -> bool:
    """Whether valid JSON is nested deeper than allowed: the innermost pairs are removed, level by level.

    Few events have enough brackets for that; `replace` finds them five times faster than `count` does.
    """
    if len(text) - len(text.replace(b"{", b"").replace(b"[", b"")) <= limits.JSON_DEPTH:
        return False
    brackets = _STRING.sub(b"", text).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(limits.JSON_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_SHAPE = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_PLACE = re.compile(r" - at `\$(?:\[(\d+)\])?(?:\.(\w+))?`$")
_TOKENS = {
    "object": "StartObject",
    "array": "StartArray",
    "str": "String",
    "int": "Integer",
    "float": "Float",
    "bool": "Boolean",
    "null": "Null",
}


def _explain(error: str) -> str:
    """A validation error of msgspec in Event Grid's words: the event, the property, the expected type."""
    place = _PLACE.search(error)
    message = error[: place.start()] if place else error
    index, field = place.groups() if place else (None, None)
    where = "" if index is None else f"Event {index}: "
    if unknown := _UNKNOWN.fullmatch(message):
        return f"{where}received unexpected property '{shortened(unknown[1])}' in JSON."
    if missing := _MISSING.fullmatch(message):
        return f"{where}required property '{missing[1]}' is missing."
    if not where and not field and (shape := _SHAPE.fullmatch(message)):
        return _wrong_shape(*shape.groups())
    return f"{where}property '{field}': {_sentence(message)}." if field else f"{where}{_sentence(message)}."


def _wrong_shape(expected: str, received: str) -> str:
    """Event Grid's words for a body of the wrong kind, and then ours."""
    wanted = "an array of events" if expected == "array" else "one event, an object"
    return (
        f"Token Expected: {_TOKENS.get(expected, expected)}, Actual Token Received: {_TOKENS.get(received, received)}: "
        f"the body must be {wanted}."
    )


_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_NOT_A_NUMBER = re.compile(rb"-?(NaN|Infinity)")


def _malformed(error: str, body: bytes) -> str:
    """A text that is not JSON: the error of msgspec, and an explanation of the usual mistakes."""
    if not body.strip():
        return "The body is empty."
    if body.startswith(_BOM):
        return "The body begins with a byte order mark: send UTF-8 without one."
    message = f"{_sentence(error)}."
    place = re.search(r"\(byte (\d+)\)$", error)
    if place and _NOT_A_NUMBER.match(body, int(place[1])):
        return f"{message} JSON has no NaN and no Infinity: send null or a string."
    if "surrogate" in error or _LONE_SURROGATE.search(body):
        return f"{message} An escape from \\ud800 to \\udfff must be half of a pair."
    return message


def _sentence(message: str) -> str:
    return message.replace("`", "'").replace(" | null", "")


def shortened(name: str) -> str:
    """A name for an error message: printable, and at most 64 characters."""
    printable = "".join(c if c.isprintable() else "?" for c in name[:65])
    return printable if len(name) <= 64 else f"{printable[:64]}…"
