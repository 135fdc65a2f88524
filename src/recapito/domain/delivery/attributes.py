"""Custom delivery properties: headers that a subscriber wants on each delivery (spec §1.9).

A source field is looked up like a filter key, in the event as it was published. A value that is missing, too long or
unsafe in a header is left out, never sent.
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
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.filters.field_reader import path_of
from recapito.domain.resources.subscription import DeliveryAttribute, DynamicAttribute, StaticAttribute

# Headers that the service sets itself, or that frame the request.
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
    """A header of a delivery. Its value may be a secret and is never shown."""

    name: str
    value: str
    secret: bool = False

    def __repr__(self) -> str:
        return f"<Header {self.name}>"


def is_header_name(name: str) -> bool:
    """Whether HTTP allows a header of this name."""
    return _TOKEN.fullmatch(name) is not None


def is_allowed(name: str) -> bool:
    """Whether a subscriber may set a header of this name: a valid one that the service does not reserve."""
    lower = name.lower()
    return is_header_name(name) and lower not in RESERVED and not lower.startswith(PREFIX)


def is_sendable(value: str) -> bool:
    """Whether a value is safe in a header, and not too long."""
    return len(value) <= limits.HEADER_VALUE_CHARS and value.isascii() and value.isprintable()


def is_key(value: str) -> bool:
    """Whether a broker accepts a value as a message key."""
    return 1 <= len(value) <= limits.BROKER_KEY_CHARS


class Attributes:
    """The custom headers of one subscription; the `static` ones are the same for every event.

    `left_out` is called with the name of each header that cannot be sent, once for each request. `keys` are the names,
    in lower case, of a broker's message keys, whose values must be short and not empty.
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
        row = INPUT_SCHEMAS[published]
        self._inside_data = row.mapped
        exact = row.mapped or row.stores_cloud_events
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
        return self.headers_of(self.values(stored)) if self._dynamic else self.static

    def values(self, stored: bytes) -> Values:
        """The values of an event, as it was published, for each dynamic header; None if one cannot be sent."""
        event = top(split_data(stored)[1] if self._inside_data else stored)
        return tuple([self._value(event, name, path) for name, path in self._dynamic])

    def headers_of(self, values: Values) -> tuple[Header, ...]:
        """The headers for events that have these values."""
        headers = list(self.static)
        for (name, _), value in zip(self._dynamic, values, strict=True):
            if value is None:
                self._left_out(name)
            else:
                headers.append(Header(name, value))
        return tuple(headers)

    def _value(self, event: dict[str, Raw], name: str, path: tuple[str, ...]) -> str | None:
        value = reach(event, path)
        text = None if value is None else scalar(value)
        return text if text is not None and self._fits(name, text) else None

    def _fits(self, name: str, value: str) -> bool:
        return is_sendable(value) and (name.lower() not in self._keys or is_key(value))
