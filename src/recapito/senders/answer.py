"""Reading an endpoint's answer: what it asks for, and a short excerpt for the operator.

Nothing of an answer is trusted: it is cut, made printable, and stripped of the secrets that we sent.
"""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, unquote_plus

from recapito.domain import limits
from recapito.domain.instant import SECOND

_SECRET_CHARS = 4
"""Shorter query values than this are taken for flags, not for secrets."""


def retry_after_ns(headers: list[bytes], now: int) -> int:
    """How long the endpoint asks us to stay away, from `Retry-After` in seconds or as a date; 0 if it does not.

    What is malformed, past or beyond belief is as if it were not there.
    """
    text = next((line.partition(b":")[2] for line in headers if line[:12].lower() == b"retry-after:"), b"")
    value = text.decode("latin-1").strip()
    wait_ns = int(value) * SECOND if re.fullmatch(r"[0-9]{1,10}", value) else _date(value) - now
    return wait_ns if 0 < wait_ns <= limits.RETRY_AFTER_BELIEVED_NS else 0


def _date(value: str) -> int:
    """The instant of an HTTP date; the beginning of time for anything else."""
    try:
        parsed = parsedate_to_datetime(value)
        return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0


def secrets_of(url: str) -> tuple[str, ...]:
    """The texts of a URL that must not be shown: its query and every value in it, longest first."""
    query = url.partition("?")[2]
    values = {part.partition("=")[2] for part in query.split("&")} | {query}
    spellings = {spelt for value in values for spelt in (value, unquote(value), unquote_plus(value))}
    return tuple(sorted((s for s in spellings if len(s) >= _SECRET_CHARS), key=len, reverse=True))


def excerpt(text: str, secrets: tuple[str, ...] = ()) -> str:
    """The beginning of a text, printable and without the secrets."""
    for secret in secrets:
        text = text.replace(secret, "*" * len(secret))
    printable = "".join(c if c.isprintable() else _escaped(c) for c in text[: limits.RESPONSE_EXCERPT_BYTES])
    return printable.encode()[: limits.RESPONSE_EXCERPT_BYTES].decode(errors="ignore")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
