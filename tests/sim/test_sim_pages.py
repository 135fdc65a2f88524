"""Damaged pages of real SQLite files, with people who restore a backup: nothing sound is given up, and all goes on."""

from pathlib import Path
from typing import Any

import pytest

from recapito.contracts.log import Entry, EntryKind
from recapito.dispatch.dispatcher import Dispatcher
from recapito.errors import StoreDamaged
from tests.sim.behaviour import answering
from tests.sim.books import State
from tests.sim.machine import Parts
from tests.sim.pages import PageRot
from tests.sim.scene import Scene, act
from tests.sim.storage import SqliteStorage
from tests.stores.page_layout import zero

EVENTS = 40
KINDS = [
    ("log.db", "entry internal"),
    ("log.db", "entry leaf"),
    ("log.db", "sqlite_autoindex_entry_1 leaf"),
    ("log.db", "topic leaf"),
    ("log.db", "subscription leaf"),
    ("log.db", "change leaf"),
    ("dispatch.db", "lane leaf"),
    ("dispatch.db", "parked leaf"),
    ("dispatch.db", "parked_by_due leaf"),
]


class DespairingLog:
    """Gives up whatever SQLite cannot read."""

    instead = EntryKind.DAMAGED

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        try:
            found: list[Entry] = await self._log.read(topic, position, limit_bytes)
        except StoreDamaged:
            return [Entry(position, self.instead, b"", b"", 1)]
        return found


class SkippingLog(DespairingLog):
    """Leaves out whatever SQLite cannot read."""

    instead = EntryKind.CHANGE


class EndingDispatcher(Dispatcher):
    """Ends when it cannot open its lanes."""

    async def start(self) -> None:
        await self._open_lanes()


BUGS: dict[str, tuple[dict[str, Any], tuple[str, str], set[str]]] = {
    "a log that gives up entries that are out of reach": (
        {"log": DespairingLog},
        ("log.db", "entry internal"),
        {"damage"},
    ),
    "a dispatcher that ends at a damaged page": (
        {"dispatcher": EndingDispatcher},
        ("log.db", "change leaf"),
        {"I24"},
    ),
    "a log that leaves out entries that are out of reach": (
        {"log": SkippingLog},
        ("log.db", "sqlite_autoindex_entry_1 leaf"),
        {"I1"},
    ),
}


def play(directory: Path, file: str, kind: str, seed: int = 0, **parts: Any) -> tuple[Scene, list[Any]]:
    """Deliver some events, damage a page under others that wait, restore it, and deliver the rest."""
    storage = SqliteStorage(directory, small_pages=True)
    lanes: list[Any] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe("good"))
        lanes.append(await scene.subscribe("ill", answering(503)))
        for _ in range(EVENTS):
            await scene.publish()
        scene.become("good", answering(503))
        for _ in range(EVENTS):
            await scene.publish()
        rot = PageRot(scene, storage, scene.clock._rng)
        assert await rot.spoil(file, kind, zero)
        for name in ("good", "ill"):
            scene.become(name, answering(200))
        await scene.wait(120)
        await rot.restore()
        await scene.wait(90)  # both roles are up again
        await scene.publish()
        await scene.quiet()
        await scene.close_the_books()

    return act(script, Parts(storage=storage, **parts), seed), lanes


@pytest.mark.parametrize(("file", "kind"), KINDS)
def test_a_damaged_page_costs_time(tmp_path: Path, file: str, kind: str) -> None:
    """Whatever page is damaged until it is restored: every event is delivered to every subscription in the end."""
    scene, lanes = play(tmp_path, file, kind)
    assert scene.faults.counts[f"damaged page of {file}"] == 1
    for lane in lanes:
        assert {owed.state for owed in lane.books.owed.values()} == {State.DELIVERED}
        assert len(lane.books.owed) == 2 * EVENTS + 1


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(tmp_path: Path, bug: str) -> None:
    """Each is found by an invariant that it breaks."""
    parts, page, invariants = BUGS[bug]
    with pytest.raises(AssertionError) as caught:
        play(tmp_path, *page, **parts)
    assert any(f"'{id}" in str(caught.value) for id in invariants), str(caught.value)
