"""The ballast: room that is given to the verbs that drain when the disk is full."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from recapito.contracts.ledger import DeadLetterGroup
from recapito.domain.delivery.delivery import DeliveryId
from recapito.errors import StoreFailed
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.connection import FileMedium
from recapito.stores.sqlite.files.volume import Ballast
from tests.stores.values import burial, new_topic, parked, segment, settlement
from tests.system.power_loss_disk import Disk, PowerLossVFS
from tests.system.volume import fill_up, volume

SIZE = 1 << 20


@pytest.fixture
def ballast(tmp_path: Path) -> Ballast:
    """A small ballast, not taken yet."""
    return Ballast(tmp_path, SIZE)


def test_it_takes_up_room(ballast: Ballast, tmp_path: Path) -> None:
    """The file has its size on the disk, not only in the directory, and is taken once."""
    assert not ballast.held
    ballast.take()
    ballast.take()
    assert ballast.held == SIZE
    assert (tmp_path / "ballast").stat().st_blocks * 512 >= SIZE
    assert [path.name for path in tmp_path.iterdir()] == ["ballast"]


def test_it_is_given_once(ballast: Ballast) -> None:
    """After it is released there is nothing to give until it is taken again."""
    ballast.take()
    assert ballast.release()
    assert not ballast.held
    assert not ballast.release()
    ballast.take()
    assert ballast.held


@pytest.mark.parametrize("size", [0, 1 << 60])
def test_none_is_taken_of_a_size_that_makes_no_sense(tmp_path: Path, size: int) -> None:
    """None is wanted, or so much that the fair part of the free room would not help: nothing is left lying about."""
    Ballast(tmp_path, size).take()
    assert not list(tmp_path.iterdir())


def test_it_grows_with_the_room(tmp_path: Path) -> None:
    """Where room is short an eighth of it goes into the ballast; when there is more, so does the rest."""
    with volume(tmp_path / "volume", 16 * SIZE) as place:
        ballast, stranger = Ballast(place, SIZE), place / "stranger"
        stranger.write_bytes(bytes(12 * SIZE))
        ballast.take()
        assert SIZE // 4 < ballast.held <= SIZE // 2
        few = ballast.held
        ballast.take()
        assert ballast.held == few
        stranger.unlink()
        ballast.take()
        assert ballast.held == SIZE


def test_a_full_volume_has_none(tmp_path: Path) -> None:
    """Taking it fails without a word and leaves nothing."""
    with volume(tmp_path / "volume", SIZE) as place:
        fill_up(place / "stranger")
        Ballast(place, SIZE).take()
        assert [file.name for file in place.iterdir()] == ["stranger"]


class Machine:
    """Both stores on a disk of which the ballast is the last room."""

    def __init__(self, ballast: Ballast, journal: Any) -> None:
        self.disk = Disk(1)
        self.vfs = PowerLossVFS(self.disk)
        self.ballast = ballast
        medium = FileMedium(self.vfs.name, names=self.vfs)
        options: Any = {"threaded": False, "medium": medium, "ballast": ballast, "journal": journal}
        self.log = SqliteLog.open(self.disk.directory, **options)
        self.ledger = SqliteLedger.open(self.disk.directory, **options)

    def fill(self) -> None:
        """From now on there is only what the ballast frees."""
        self.disk.fault = lambda kind: apsw.FullError("full") if kind == "write" and self.ballast.held else None


@pytest.fixture
def machine(ballast: Ballast, journal: Any, run: Any) -> Iterator[Machine]:
    """The two stores, with a topic, and a lane in which something waits."""
    machine = Machine(ballast, journal)
    assert ballast.held
    run(machine.log.put_topic(new_topic()))
    run(machine.log.append([segment(1)]))
    lane = run(machine.ledger.open_lane(1, 1, machine.log.id, 1))
    run(machine.ledger.settle([settlement(lane, matched=2, park=[parked(1)], bury=[burial(2)])]))
    run(machine.ledger.name_group(DeadLetterGroup(1, "dead", None, None, [burial(2)]), "path", 1))
    yield machine
    machine.disk.fault = None
    run(machine.log.close())
    run(machine.ledger.close())
    machine.vfs.unregister()


def drains(machine: Machine, run: Any) -> dict[str, Any]:
    lane = run(machine.ledger.lane(1))
    return {
        "settle": lambda: machine.ledger.settle([settlement(lane, finish=[DeliveryId(1, 0)])]),
        "written": lambda: machine.ledger.written(1, "path"),
        "abandon": lambda: machine.ledger.abandon(1, "path", "why"),
        "trim": lambda: machine.log.trim(1, 2),
    }


@pytest.mark.parametrize("verb", ["settle", "written", "abandon", "trim"])
def test_draining_gets_the_ballast(machine: Machine, journal: Any, run: Any, verb: str) -> None:
    """On a full disk what ends work succeeds, once the ballast is released; that is told."""
    machine.fill()
    run(drains(machine, run)[verb]())
    assert not machine.ballast.held
    assert journal.events == ["store.ballast_released"]


def test_new_events_do_not_get_the_ballast(machine: Machine, journal: Any, run: Any) -> None:
    """An append to a full disk fails, leaves nothing, and the ballast stays for those who drain."""
    machine.fill()
    with pytest.raises(StoreFailed, match="full"):
        run(machine.log.append([segment(1)]))
    assert machine.ballast.held
    assert journal.events == ["store.full"]
    machine.disk.fault = None
    assert run(machine.log.end(1)) == 2
    assert run(machine.log.append([segment(1)])) == [3]


def test_when_the_ballast_is_gone_too(machine: Machine, run: Any) -> None:
    """Nothing is left to give: draining fails as everything does, and goes on when there is room."""
    machine.ballast.release()
    machine.disk.fault = lambda kind: apsw.FullError("full") if kind == "write" else None
    with pytest.raises(StoreFailed):
        run(machine.ledger.written(1, "path"))
    machine.disk.fault = None
    run(machine.ledger.written(1, "path"))
    assert run(machine.ledger.lane(1)).counts.dead_lettered == 1
