"""Free space: when intake closes, when it opens again, and what the journal is told."""

from typing import Any

import pytest

from recapito.domain.capacity import Space, StreamRoom
from recapito.domain.limits import MB
from recapito.intake.publish.disk_watch import DiskWatch


class Volume:
    """A volume whose free space a test sets, and the journal of its watch."""

    def __init__(self, total: int, **options: Any) -> None:
        self.space = Space(total, total)
        self.told: list[str] = []
        self.watch = DiskWatch(lambda: self.space, journal=self._journal, **options)

    def _journal(self, event: str, **_: object) -> None:
        self.told.append(event)

    def look(self, free: int) -> bool:
        """Whether intake is open with this much space."""
        self.space = Space(free, self.space.total)
        self.watch.look()
        return self.watch.reason() is None


@pytest.mark.parametrize(("total", "limit"), [(1000 * MB, 50 * MB), (1_000_000 * MB, 512 * MB)])
def test_intake_closes_below_the_smaller_limit(total: int, limit: int) -> None:
    """Intake closes below 5 % of the volume or 512 MiB, whichever is less, and says how much is left."""
    volume = Volume(total)
    assert volume.look(limit)
    assert not volume.look(limit - 1)
    assert "nearly full" in (volume.watch.reason() or "")


def test_intake_opens_again_only_well_above_the_limit() -> None:
    """A little space does not make intake flap: it opens again at a quarter more."""
    volume = Volume(1000 * MB)
    assert [volume.look(free * MB) for free in (49, 51, 62, 63, 51, 49)] == [False, False, False, True, True, False]
    assert volume.told == ["disk.full", "disk.low", "disk.reopened", "disk.full"]


def test_low_space_is_told_once() -> None:
    """Below 20 % the journal has one warning, and another after it had recovered."""
    volume = Volume(1000 * MB)
    for free in (900, 199, 150, 201, 199):
        assert volume.look(free * MB)
    assert volume.told == ["disk.low", "disk.low"]


def test_the_limits_are_settings() -> None:
    """Both limits can be set."""
    volume = Volume(1000 * MB, close_fraction=0.5, close_bytes=100 * MB)
    assert not volume.look(99 * MB)
    assert volume.look(125 * MB)


def test_intake_closes_when_a_file_is_lost() -> None:
    """Nothing is accepted into a file that was removed; when it is back, intake opens again."""
    volume = Volume(1000 * MB)
    for lost in ("log.db", "log.db", ""):
        volume.space = Space(900 * MB, 1000 * MB, lost)
        volume.watch.look()
        assert (volume.watch.reason() or "").startswith(lost)
    assert volume.watch.reason() is None
    assert volume.told == ["store.lost", "disk.reopened"]


def test_a_commit_is_counted_before_it_is_made() -> None:
    """Bytes about to be written count twice, in the WAL and in the file; intake closes before they are written."""
    volume = Volume(1000 * MB)
    volume.space = Space(60 * MB, 1000 * MB)
    assert volume.watch.reserve(5 * MB) is None
    assert "nearly full" in (volume.watch.reserve(6 * MB) or "")
    assert volume.told == ["disk.full"]
    assert volume.watch.reserve(5 * MB) is not None
    assert volume.look(63 * MB)


def test_free_pages_of_the_file_are_room() -> None:
    """A file that was emptied takes what comes, if the volume has room for the WAL; what waits to be copied is owed."""
    volume = Volume(1000 * MB)
    volume.space = Space(20 * MB, 1000 * MB, reusable=500 * MB)
    assert volume.watch.reserve(5 * MB) is None
    assert volume.watch.reserve(15 * MB) is not None
    volume.space = Space(60 * MB, 1000 * MB, reusable=-20 * MB)
    assert volume.watch.reserve(1) is not None


def test_the_room_of_a_stream_is_not_that_of_the_disk() -> None:
    """A stream much smaller than the disk is neither low nor full; a nearly full one closes intake and is named."""
    volume = Volume(100_000 * MB)

    def look(left: int) -> bool:
        volume.space = volume.space._replace(stream=StreamRoom("LOG_0", left * MB, 50 * MB))
        volume.watch.look()
        return volume.watch.reason() is None

    assert look(50)
    assert volume.told == []
    assert [look(left) for left in (9, 0, 2, 4)] == [True, False, False, True]
    assert volume.told == ["stream.low", "stream.full", "stream.reopened"]
    assert "Stream LOG_0 is nearly full" in (volume.watch.reserve(30 * MB) or "")
