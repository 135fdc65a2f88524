"""Checksums of stored rows."""

import struct
from hashlib import blake2b

from recapito.stores.sqlite.sql.rows import checksum, is_sound


def test_a_row_is_sound_where_it_belongs() -> None:
    """Another place, other bytes or another sum is no row of ours."""
    stored = checksum((1, 2), b"ab", b"c")
    assert is_sound(stored, (1, 2), b"ab", b"c")
    assert not is_sound(stored, (1, 3), b"ab", b"c")
    assert not is_sound(stored, (1, 2), b"ab", b"d")
    assert not is_sound(stored + 1, (1, 2), b"ab", b"c")


def test_rows_of_the_first_stores_are_read() -> None:
    """They were summed up with BLAKE2."""
    old = blake2b(struct.pack(">2q", 1, 2) + b"abc", digest_size=8).digest()
    assert is_sound(int.from_bytes(old, "big", signed=True), (1, 2), b"ab", b"c")
