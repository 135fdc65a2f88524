"""Damaged pages of the files: a page rots while the server is down, and later a person puts the backup back.

While a file is damaged it is not written, as in a server whose intake is closed: else a backup would be older than the
rest. Dispatch goes on delivering, unless its own file is damaged, or entries may be given up: the oracle counts
entries by their events, which cannot be read on a damaged leaf.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.sim.faults import Role
from tests.sim.scene import Scene
from tests.sim.storage import SqliteStorage
from tests.stores.page_layout import WAYS, Way, lay_out, spoil_page, swap_pages

TRIES = 100
MARKER = "damaged.json"
GIVEN_UP = ("entry leaf", "entry overflow")
UNOPENABLE = ("sqlite_schema", "log")  # the server does not start with these: tests/stores/test_pages.py
FREE = "free"


class Damaged(NamedTuple):
    """A page that was damaged, and the sound content of its file."""

    file: str
    kind: str
    sound: bytes


class PageRot:
    """Damages one page at a time of the files of a scene."""

    def __init__(self, scene: Scene, storage: SqliteStorage, rng: random.Random) -> None:
        self._scene = scene
        self._storage = storage
        self._rng = rng
        self._damaged: Damaged | None = None

    async def spoil(self, file: str = "", kind: str = "", way: Way | None = None) -> bool:
        """Damage a page as both roles start: of this kind, in this way, or of any.

        False if there is no such page, or if something else is damaged now.
        """
        oracle = self._scene.oracle
        if oracle.page_damaged or oracle.rotten:
            return False
        file = file or self._rng.choice(("log.db", "dispatch.db"))
        await self._at_rest(lambda: self._spoil(file, kind, way))
        return oracle.page_damaged

    async def restore(self) -> None:
        """Put the backup back, as both roles start."""
        if self._damaged is not None:
            await self._at_rest(self._restore)

    async def _at_rest(self, act: Callable[[], None]) -> None:
        """Kill both roles until neither has a file open, and do something then."""
        self._storage.at_rest = act
        for _ in range(TRIES):
            for role in Role:
                self._scene.machine.crash(role)
            await asyncio.sleep(self._rng.uniform(0.5, 70))
            if self._storage.at_rest is None:
                return
        raise AssertionError("a file is always open")

    def _spoil(self, file: str, kind: str, how: Way | None) -> None:
        path, rng, scene = self._storage.directory / file, self._rng, self._scene
        _checkpoint(path)
        layout = lay_out(path, "entry" if file == "log.db" else "lane")
        used = {number for numbers in layout.kinds.values() for number in numbers}
        count = path.stat().st_size // layout.page_bytes
        kinds = {name: pages for name, pages in layout.kinds.items() if name.split()[0] not in UNOPENABLE}
        free = [number for number in range(2, count + 1) if number not in used]
        kinds |= {FREE: free} if free else {}
        if kind and kind not in kinds:
            return
        kind = kind or rng.choice(sorted(kinds))
        number, others = rng.choice(kinds[kind]), kinds[kind]
        self._damaged = Damaged(file, kind, path.read_bytes())
        if how is None and len(others) > 1 and rng.random() < 0.2:
            way = "swapped"
            swap_pages(path, layout.page_bytes, number, rng.choice([page for page in others if page != number]))
        else:
            how = how or rng.choice(WAYS)
            way = how.__name__
            spoil_page(path, layout.page_bytes, number, how, rng)
        scene.oracle.note("fault", "damaged page", file, kind, way)
        scene.faults.counts[f"damaged page of {file}"] += 1
        scene.oracle.page_damaged = True
        scene.faults.closed = set(Role) if file != "log.db" or kind in GIVEN_UP else {Role.INTAKE}

    def _restore(self) -> None:
        assert self._damaged is not None
        path = self._storage.directory / self._damaged.file
        for extra in ("-wal", "-shm"):
            Path(f"{path}{extra}").unlink(missing_ok=True)
        path.write_bytes(self._damaged.sound)
        (self._storage.directory / MARKER).unlink(missing_ok=True)
        self._damaged = None
        self._scene.oracle.page_damaged = False
        self._scene.faults.closed = set()
        self._scene.oracle.note("restored page")
        self._scene.oracle.disturb()


def _checkpoint(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(1000)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
