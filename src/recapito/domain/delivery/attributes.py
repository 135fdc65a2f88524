"""Custom delivery properties: headers that a subscriber wants on each delivery (spec §1.9).

A source field is found as a filter key is, in the event as it was published.

A value from an event that is missing, too long or could be mistaken for more than a value is left out, never sent.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Raw

from recapito.domain import limits
from recapito.domain.delivery.headers import PREFIX
from recapito.domain.events.conversion import split_data
from recapito.domain.events.json_text import reach, scalar, top
from recapito.domain.events.schema import InputSchema
from recapito.domain.filters.field_reader import path_of
from recapito.domain.resources.subscription import DeliveryAttribute, DynamicAttribute, StaticAttribute

# Whose values are the service's own, or say how the request is framed.
RESERVED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "origin",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "webhook-request-origin",
    }
)
Values = tuple[str | None, ...]
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Header(NamedTuple):
    """A header of a delivery. A secret value is shown nowhere."""

    name: str
    value: str
    secret: bool = False

    def __repr__(self) -> str:
        return f"<Header {self.name}>"


def is_header_name(name: str) -> bool:
    """Whether a header may have this name at all."""
    return _TOKEN.fullmatch(name) is not None


def is_allowed(name: str) -> bool:
    """Whether a subscriber may set a header of this name."""
    lower = name.lower()
    return is_header_name(name) and lower not in RESERVED and not lower.startswith(PREFIX)


def is_sendable(value: str) -> bool:
    """Whether a value is nothing but a value on the wire, and not too long."""
    return len(value) <= limits.HEADER_VALUE_CHARS and value.isascii() and value.isprintable()


def is_key(value: str) -> bool:
    """Whether a broker takes a value to sort messages by."""
    return 1 <= len(value) <= limits.BROKER_KEY_CHARS


class Attributes:
    """The custom headers of one subscription; the `static` ones are the same for every event.

    `left_out` gets the name of each header that cannot be sent, once for each request. `keys` are the names, in lower
    case, of what a broker sorts messages by, which must be short and not empty.
    """

    def __init__(
        self,
        attributes: Sequence[DeliveryAttribute],
        published: InputSchema,
        left_out: Callable[[str], None],
        keys: frozenset[str] = frozenset(),
    ) -> None:
        self._keys = keys
        self.static: tuple[Header, ...] = ()
        self._dynamic: list[tuple[str, tuple[str, ...]]] = []
        self._inside_data = published is InputSchema.CUSTOM
        exact = published is not InputSchema.EVENT_GRID
        self._left_out = left_out
        for attribute in attributes:
            match attribute:
                case StaticAttribute(name, value, secret) if is_allowed(name) and self._fits(name, value):
                    self.static += (Header(name, value, secret),)
                case DynamicAttribute(name, source) if is_allowed(name):
                    self._dynamic.append((name, path_of(source, exact)))
                case _:
                    left_out(attribute.name)

    @property
    def dynamic(self) -> bool:
        """True when events may have different headers."""
        return bool(self._dynamic)

    def headers(self, stored: bytes) -> tuple[Header, ...]:
        """The headers for one event."""
        return self.headers_of(self.values(stored)) if self._dynamic else self.static

    def values(self, stored: bytes) -> Values:
        """What one event, looked at as it was published, has for each dynamic header; None for what cannot be sent."""
        event = top(split_data(stored)[1] if self._inside_data else stored)
        return tuple([self._value(event, name, path) for name, path in self._dynamic])

    def headers_of(self, values: Values) -> tuple[Header, ...]:
        """The headers for events that have these values."""
        found = list(self.static)
        for (name, _), value in zip(self._dynamic, values, strict=True):
            if value is None:
                self._left_out(name)
            else:
                found.append(Header(name, value))
        return tuple(found)

    def _value(self, event: dict[str, Raw], name: str, path: tuple[str, ...]) -> str | None:
        found = reach(event, path)
        text = None if found is None else scalar(found)
        return text if text is not None and self._fits(name, text) else None

    def _fits(self, name: str, value: str) -> bool:
        return is_sendable(value) and (name.lower() not in self._keys or is_key(value))
