"""Batches of the blob service: many requests in one, as parts of a body, and their answers in the same form.

The law: a part is told by its Content-ID, which the answer repeats; one that cannot be read changes nothing here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from recapito.domain.storage.blob_change import BlobChange, read_change

_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_BLANK = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(r"\r?\n")


class BatchResult(NamedTuple):
    """The answer to one request of a batch; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]


class _Part(NamedTuple):
    id: str
    start: str
    headers: dict[str, str]


def is_batch(method: str, target: str) -> bool:
    """Whether a request is a batch."""
    if method != "POST":
        return False
    query = {name.lower(): value for name, value in parse_qsl(urlsplit(target).query)}
    return query.get("comp") == "batch"


def read_batch(headers: Mapping[str, str], body: bytes) -> dict[str, BlobChange]:
    """The changes that the requests of a batch would make, by Content-ID."""
    changes: dict[str, BlobChange] = {}
    for part in _parts(headers, body):
        words = part.start.split(" ")
        if len(words) != 3:
            continue
        change = read_change(words[0], words[1], {"host": headers.get("host", ""), **part.headers})
        if change is not None:
            changes[part.id] = change
    return changes


def read_results(headers: Mapping[str, str], body: bytes) -> dict[str, BatchResult]:
    """The answers to the requests of a batch, by Content-ID."""
    results: dict[str, BatchResult] = {}
    for part in _parts(headers, body):
        words = part.start.split(" ")
        if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdigit():
            results[part.id] = BatchResult(int(words[1]), part.headers)
    return results


def _parts(headers: Mapping[str, str], body: bytes) -> Iterator[_Part]:
    boundary = _BOUNDARY.search(headers.get("content-type", ""))
    if boundary is None:
        return
    for text in body.split(b"--" + boundary[1].strip().encode("latin-1"))[1:]:
        pieces = _BLANK.split(text.lstrip(b"\r\n"), 2)
        if len(pieces) < 2:
            continue
        id = _headers(_lines(pieces[0])).get("content-id", "")
        start, *lines = _lines(pieces[1])
        if id:
            yield _Part(id, start, _headers(lines))


def _lines(text: bytes) -> list[str]:
    return _LINE.split(text.strip(b"\r\n").decode("latin-1"))


def _headers(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
