"""A short excerpt of an answer from outside: cut, made printable, and without the secrets that the server sent."""

from urllib.parse import unquote, unquote_plus

from recapito.domain import limits

_SECRET_CHARS = 4
"""Query values shorter than this are taken for flags, not for secrets."""


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
