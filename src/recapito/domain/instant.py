"""Instants are integers: nanoseconds since 1970, UTC. Durations are nanoseconds too.

Every time that the service stamps has exactly seven fractional digits and `Z`, as Event Grid's have.
"""

from datetime import UTC, datetime

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def utc(instant: int) -> datetime:
    """The calendar date and time of an instant, without its fraction of a second."""
    return datetime.fromtimestamp(instant // SECOND, UTC)


def stamp(instant: int) -> str:
    """An instant as Event Grid writes it: `2020-08-13T17:18:14.0265758Z`."""
    return f"{utc(instant):%Y-%m-%dT%H:%M:%S}.{instant % SECOND // 100:07d}Z"
