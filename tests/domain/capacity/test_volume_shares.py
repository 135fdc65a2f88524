"""How a volume is shared out, and when dispatch is short of room."""

import pytest

from recapito.domain import limits
from recapito.domain.capacity.volume_shares import Room, needed, share_out
from recapito.domain.limits import MB

SIZES = [64, 100, 160, 512, 1024, 10_000, 1_000_000]


@pytest.mark.parametrize(
    ("megabytes", "stop", "ballast"), [(64, 8, 4), (160, 16, 10), (1024, 51, 64), (1_000_000, 512, 64)]
)
def test_shares_follow_the_volume(megabytes: int, stop: int, ballast: int) -> None:
    """Five per cent, 512 MB at most and on a small volume an eighth; the ballast is a sixteenth, 64 MB at most."""
    shares = share_out(megabytes * MB)
    assert (shares.stop // MB, shares.ballast // MB) == (stop, ballast)


@pytest.mark.parametrize("megabytes", SIZES)
def test_what_is_kept_back_is_enough_to_settle(megabytes: int) -> None:
    """The WALs of both files, and what is written before one is copied, fit into what intake leaves and the ballast."""
    shares = share_out(megabytes * MB)
    assert 2 * (shares.wal_kept + shares.checkpoint) <= shares.stop + shares.ballast
    assert 0 < shares.least < shares.floor < shares.stop
    assert shares.stop + shares.ballast + shares.history < megabytes * MB / 2


def test_an_operator_may_want_more_or_less() -> None:
    """The wishes are bounds; the least of a volume stays whatever they are."""
    assert share_out(1024 * MB, stop_fraction=0.5).stop == 512 * MB
    assert share_out(1024 * MB, stop_bytes=0).stop == limits.DISK_STOP_LEAST_BYTES
    assert share_out(1024 * MB, ballast_bytes=0).ballast == 0


def test_room_is_short_below_the_floor() -> None:
    """A quarter of the room may be under way; below the floor it is short, and there is never less than nothing."""
    assert Room(100, 50) == (100, 50)
    assert not Room(100, 100).short
    assert Room(99, 100).short
    assert Room(100, 50).for_requests == 25
    assert Room(-8, 50).for_requests == 0


def test_many_segments_need_pages_of_their_own() -> None:
    """A thousand topics with a byte each take a thousand times two pages."""
    assert needed(1000, 1000) > 1000 * 2 * limits.LOG_PAGE_BYTES
    assert needed(MB, 1) < MB + MB // 8
