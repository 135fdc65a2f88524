"""Limits: Event Grid's numbers, and how ours relate to them."""

from recapito.domain import limits
from recapito.domain.instant import HOUR, SECOND


def test_event_grid_numbers() -> None:
    """The documented limits of Event Grid hold here."""
    assert limits.PUBLISH_BYTES == 1024 * 1024
    assert limits.EVENT_BYTES == 1024 * 1024
    assert limits.PUBLISH_EVENTS == 5000
    assert limits.ATTEMPTS == (1, 30)
    assert limits.ATTEMPTS_DEFAULT == 30
    assert limits.TTL_MINUTES == (1, 1440)
    assert limits.TTL_MINUTES_DEFAULT == 1440
    assert limits.BATCH_EVENTS == (1, 5000)
    assert limits.BATCH_EVENTS_DEFAULT == 1
    assert limits.BATCH_KILOBYTES == (1, 1024)
    assert limits.BATCH_KILOBYTES_DEFAULT == 64
    assert limits.ANSWER_WAIT_NS == 30 * SECOND
    assert limits.LATE_ANSWER_WAIT_NS == 180 * SECOND
    assert limits.RETRY_AFTER_NS == HOUR


def test_a_publish_fits_a_segment() -> None:
    """A publish is never split: the largest one fits into one segment."""
    assert limits.EVENT_BYTES <= limits.PUBLISH_BYTES <= limits.SEGMENT_BYTES <= limits.WAITING_BYTES
    assert limits.PUBLISH_EVENTS <= limits.SEGMENT_EVENTS


def test_a_batch_fits_a_window() -> None:
    """The largest batch fits into a lane's window, and a window into the process."""
    assert limits.BATCH_KILOBYTES[1] * limits.KB <= limits.WINDOW_BYTES <= limits.OPEN_BYTES
    assert 1 <= limits.WINDOW_START <= limits.WINDOW_REQUESTS <= limits.OPEN_EXCHANGES


def test_an_event_fits_wherever_it_goes() -> None:
    """The largest event fits into the cache, the late exchanges and a dead-letter group."""
    room = (limits.SEGMENT_CACHE_BYTES, limits.LATE_EXCHANGE_BYTES, limits.DEAD_LETTER_GROUP_BYTES)
    assert all(size > limits.EVENT_BYTES for size in room)
    assert limits.RESPONSE_EXCERPT_BYTES <= limits.RESPONSE_BODY_BYTES


def test_ranges_hold_their_defaults() -> None:
    """Every range is one, and its default lies in it."""
    ranged = [
        (limits.ATTEMPTS, limits.ATTEMPTS_DEFAULT),
        (limits.TTL_MINUTES, limits.TTL_MINUTES_DEFAULT),
        (limits.BATCH_EVENTS, limits.BATCH_EVENTS_DEFAULT),
        (limits.BATCH_KILOBYTES, limits.BATCH_KILOBYTES_DEFAULT),
    ]
    assert all(least <= default <= most for (least, most), default in ranged)
