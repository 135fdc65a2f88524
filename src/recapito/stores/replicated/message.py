"""The messages of a stream: what an owner published, chained by checksums.

A message is the checksum of its predecessor, its own checksum over that and its content, and the content. So a reader
notices a damaged message, a missing one, and one of another history. A commit that is larger than a message is several
`ROWS`; it takes effect with the last one, and never if an `OWN` comes before that. The rows of a large commit are
compressed: each of three servers stores every byte twice, so bytes cost more than their compression.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from hashlib import sha256
from threading import local
from typing import Any

import msgspec
import zstandard

from recapito.errors import StoreDamaged
from recapito.stores.replicated.rows import Digest, Operation

SUM_BYTES = 8
OVERHEAD_BYTES = 1024  # of a message, beside its rows
ORIGIN = bytes(SUM_BYTES)  # stands for the checksum of the message before the first
VERSION = 2  # of messages: 1 had no compressed rows
COMPRESSED_FROM = 1024  # bytes; fewer gain little
_COMPRESSED = zstandard.FRAME_HEADER  # a list of msgpack never begins so


class Kind(IntEnum):
    OWN = 1  # a claim, or the barrier of an owner that continues
    ROWS = 2


class CommitHead(msgspec.Struct, frozen=True, array_like=True):
    """The facts that each message carries.

    owner: the random id of the claim under which it was published, by `node`; epoch: the number of that claim.
    commit: a random id; the parts of one commit have the same.
    schema: the version of the file's schema.
    floor: every row is in the messages from this sequence on; older ones may be purged.
    digest: of the file after this commit.
    """

    kind: Kind
    owner: str
    node: str
    epoch: int
    commit: str
    schema: int
    floor: int
    digest: Digest
    last: bool = True

    def unfinished(self) -> "CommitHead":
        """The head of a part that others follow."""
        return msgspec.structs.replace(self, last=False)


class CommitContent(msgspec.Struct, frozen=True, array_like=True):
    """A head, and the operations or a part of their bytes."""

    head: CommitHead
    rows: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CommitContent).decode
_decode_rows = msgspec.msgpack.Decoder(list[list[Any]]).decode


def pack(head: CommitHead, previous: bytes, rows: bytes = b"") -> bytes:
    """The body of one message."""
    content = _encode(CommitContent(head, rows))
    return previous + _sum(previous, content) + content


def checksum(body: bytes) -> bytes:
    """The checksum of a message, which its successor carries."""
    return body[SUM_BYTES : 2 * SUM_BYTES]


def unpack(body: bytes, previous: bytes | None) -> CommitContent:
    """The content of a message; StoreDamaged if it is not what was published, or does not follow `previous`."""
    before, sum, content = body[:SUM_BYTES], body[SUM_BYTES : 2 * SUM_BYTES], body[2 * SUM_BYTES :]
    if sum != _sum(before, content):
        raise StoreDamaged("a message of the stream has a wrong checksum")
    if previous is not None and before != previous:
        raise StoreDamaged("a message of the stream does not follow the one before it: this is another history")
    return _decode(content)


class _Codec(local):
    """The contexts of zstd, which threads cannot share."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def pack_rows(operations: Sequence[Operation]) -> bytes:
    rows = _encode(operations)
    return rows if len(rows) < COMPRESSED_FROM else _codec.compress(rows)


def unpack_rows(rows: bytes) -> list[list[Any]]:
    """The operations; StoreDamaged if these are not whole rows of one commit."""
    try:
        return _decode_rows(_codec.decompress(rows) if rows.startswith(_COMPRESSED) else rows)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise StoreDamaged(f"the rows of a commit cannot be read: {error}") from error


def plain_size(rows: bytes) -> int:
    """The size of packed rows without compression."""
    return zstandard.frame_content_size(rows) if rows.startswith(_COMPRESSED) else len(rows)


def cut(rows: bytes, size: int) -> Iterator[tuple[bytes, bool]]:
    """Parts of at most `size` bytes, and whether each is the last."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size], start + size >= len(rows)


def _sum(previous: bytes, content: bytes) -> bytes:
    sum = sha256(previous)
    sum.update(content)
    return sum.digest()[:SUM_BYTES]
