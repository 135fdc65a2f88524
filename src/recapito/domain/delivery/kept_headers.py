"""The headers of a request and of its answer as people may see them: printable, bounded and without secrets.

A sender keeps the lines as they are. The text is made when history stores the attempt, or when a reader asks for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from recapito.domain import limits
from recapito.domain.delivery.headers import OUTPUT_EVENT_ID
from recapito.domain.excerpt import excerpt

MASK = "***"
ID_PLACE = "\0"
_SECRET_NAME = re.compile(r"auth|cookie|key|passw|secret|signature|token", re.IGNORECASE)


class HeaderText(NamedTuple):
    """One header a line. The answer begins with its status line; it is empty if none came."""

    request: str
    answer: str


class RawHeaders(msgspec.Struct, frozen=True, gc=False):
    """The lines of a request in libcurl's form, the lines of its answer, and the texts that must not be shown.

    `has_id`: the request also has the header with the id of its one event. The lines leave it out, so that the texts of
    a subscription's requests are equal; ID_PLACE stands for the id.
    """

    request: Sequence[str]
    answer: Sequence[bytes]
    secrets: tuple[str, ...]
    has_id: bool = False

    def __repr__(self) -> str:
        return f"<RawHeaders of {len(self.request)} and {len(self.answer)} lines>"

    def text(self) -> HeaderText:
        return HeaderText(
            _request_text(tuple(self.request), self.secrets, self.has_id),
            _answer_text(tuple(self.answer), self.secrets),
        )


def text_of(headers: RawHeaders | HeaderText | None) -> HeaderText | None:
    """The text, made now if the lines are still raw."""
    return headers.text() if isinstance(headers, RawHeaders) else headers


# Requests of one subscription differ little, and answers of one second hardly at all.
@lru_cache(512)
def _request_text(lines: tuple[str, ...], secrets: tuple[str, ...], has_id: bool) -> str:
    return _shown(_sent(lines), secrets) + (f"\n{OUTPUT_EVENT_ID}: {ID_PLACE}" if has_id else "")


@lru_cache(512)
def _answer_text(lines: tuple[bytes, ...], secrets: tuple[str, ...]) -> str:
    return _shown((line.decode("latin-1").rstrip("\r\n") for line in lines), secrets)


def _sent(lines: Iterable[str]) -> Iterator[str]:
    """The headers that libcurl sends: 'Name:' switches one of its own off, 'Name;' stands for an empty value."""
    for line in (part for joined in lines for part in joined.split("\r\n")):
        if line.endswith(";") and ":" not in line:
            yield f"{line[:-1]}:"
        elif not line.endswith(":"):
            yield line


def _shown(lines: Iterable[str], secrets: tuple[str, ...]) -> str:
    masked = (_masked(line, secrets) for line in lines if line)
    return "\n".join(masked)[: limits.KEPT_HEADER_CHARS]


def _masked(line: str, secrets: tuple[str, ...]) -> str:
    name, colon, _ = line.partition(":")
    if colon and _SECRET_NAME.search(name):
        return f"{name}: {MASK}"
    return excerpt(line, secrets)
