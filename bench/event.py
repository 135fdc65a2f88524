"""The event of every run: in the Event Grid schema, of 1 KB unless asked; id and data have its publishing instant.

It is padded with hexadecimal digits, by a seed: a store that compresses makes half of it, of events from life less.
"""

import random

SIZE = 1024
MARK = b'"sent":"'
STAMP_CHARS = 19
_STAMP = b"@" * STAMP_CHARS


def template(batch: int, size: int = SIZE, variant: int = 0) -> list[bytes]:
    """The body of a publish of `batch` events of `size` bytes, in parts: between them comes its instant.

    Bodies of different variants have nothing in common but their fields.
    """
    chance = random.Random(variant)
    return (b"[%b]" % b",".join([_event(n, size, chance) for n in range(batch)])).split(_STAMP)


def stamped(parts: list[bytes], instant_ns: int) -> bytes:
    """The body with the instant in it; a body of its own instant has ids of its own."""
    return (b"%019d" % instant_ns).join(parts)


def count_of(delivered: bytes) -> int:
    """How many events a delivery holds: from mark to mark it is never less than an event's size."""
    count, at = 0, delivered.find(MARK)
    while at >= 0:
        count += 1
        at = delivered.find(MARK, at + SIZE)
    return count


def stamp_of(delivered: bytes) -> int:
    """The instant of the first event of a delivery."""
    start = delivered.index(MARK) + len(MARK)
    return int(delivered[start : start + STAMP_CHARS])


def _event(number: int, size: int, chance: random.Random) -> bytes:
    head = b'{"id":"%b-%04d","subject":"bench/%d","eventType":"Bench.Event",' % (_STAMP, number, number % 10)
    head += b'"eventTime":"2026-01-01T00:00:00Z","dataVersion":"1","data":{%b%b","pad":"' % (MARK, _STAMP)
    pad = size - len(head) - 3
    return head + chance.randbytes(pad // 2 + 1).hex().encode()[:pad] + b'"}}'
