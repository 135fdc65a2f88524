"""The checksum that every stored event carries, so that bit rot is found when it is read and never delivered."""

import struct
from hashlib import sha256


def checksum(place: tuple[int, ...], *parts: bytes) -> int:
    """Eight bytes of SHA-256 over where a row belongs and what it holds, as a signed integer.

    Today's processors have instructions for it: of 30 KB it takes a fifth of the time of BLAKE2.
    """
    digest = sha256(struct.pack(f">{len(place)}q", *place))
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest()[:8], "big", signed=True)
