"""The checksum that every stored event carries, so that bit rot is found when it is read and never delivered."""

import struct
from hashlib import blake2b


def checksum(place: tuple[int, ...], *parts: bytes) -> int:
    """Eight bytes of BLAKE2 over where a row belongs and what it holds, as a signed integer."""
    digest = blake2b(struct.pack(f">{len(place)}q", *place), digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "big", signed=True)
