"""The checksum that every stored event carries, so that bit rot is found when it is read and never delivered."""

import struct
from hashlib import blake2b, sha256
from typing import Any


def checksum(place: tuple[int, ...], *parts: bytes) -> int:
    """Eight bytes of SHA-256 over where a row belongs and what it holds, as a signed integer.

    Today's processors have instructions for it: of 30 KB it takes a fifth of the time of BLAKE2.
    """
    return _digest(sha256(), place, parts)


def is_sound(stored: int, place: tuple[int, ...], *parts: bytes) -> bool:
    """Whether a row is what was stored. The first stores were summed up with BLAKE2, and are read as well."""
    return stored == checksum(place, *parts) or stored == _digest(blake2b(digest_size=8), place, parts)


def _digest(hash: Any, place: tuple[int, ...], parts: tuple[bytes, ...]) -> int:
    hash.update(struct.pack(f">{len(place)}q", *place))
    for part in parts:
        hash.update(part)
    return int.from_bytes(hash.digest()[:8], "big", signed=True)
