"""A disk for SQLite that can lose power: what was not synced is lost, torn, garbled or kept, sector by sector.

It is a VFS in Python over bytes in memory. It can also fail: with EIO or ENOSPC at the k-th operation, once or from
then on. A sync that failed has thrown away what it should have written, as file systems do. A name that was made,
removed or replaced is lost or comes back unless its directory was synced; a process that is killed loses nothing.
"""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


class PowerLoss(BaseException):
    """The power is gone: nothing runs after this, so no handler of ours may."""


Fault = Callable[[str], BaseException | None]


class File:
    """The bytes that the process sees, those that are on the platter, and what was written since the last sync."""

    def __init__(self, content: bytes = b"") -> None:
        self.live = bytearray(content)
        self.durable = bytearray(content)
        self.unsynced: list[tuple[int, bytes | None]] = []  # an offset and bytes, or a new size and None

    def write(self, offset: int, data: bytes) -> None:
        _write(self.live, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.live[size:]
        self.unsynced.append((size, None))

    def sync(self) -> None:
        for offset, data in self.unsynced:
            if data is None:
                del self.durable[offset:]
            else:
                _write(self.durable, offset, data)
        self.unsynced.clear()

    def after_power_loss(self, chance: random.Random) -> "File":
        """The disk afterwards: each sector that was not synced has the old content, the new, or neither."""
        image = bytearray(self.durable)
        for offset, data in self.unsynced:
            if data is None:
                if chance.random() < 0.5:
                    del image[offset:]
                continue
            for start, end in _sectors(offset, len(data)):
                fate = chance.random()
                if fate < 0.45:
                    _write(image, start, data[start - offset : end - offset])
                elif fate < 0.5:
                    _write(image, start, chance.randbytes(end - start))
        return File(bytes(image))


class Disk:
    """Files by name; `durable_names` are the directory entries that are on the platter."""

    def __init__(self, seed: int) -> None:
        self.directory = Path(f"/disk-{next(_numbers)}")
        self.chance = random.Random(seed)
        self.names: dict[str, File] = {}
        self.durable_names: dict[str, File] = {}
        self.operations = 0
        self.cut_at: int | None = None
        self.fault: Fault | None = None
        self.off = False

    def step(self, kind: str, then: Callable[[], None] = lambda: None) -> None:
        """One operation that changes the disk. Power may go just before or after it; its caller cannot know.

        What SQLite still tries after that, to clean up, has no effect.
        """
        if self.off:
            return
        self.operations += 1
        self.check(kind)
        if self.cut_at is not None and self.operations >= self.cut_at:
            if self.chance.random() < 0.5:
                then()
            self.off = True
            raise PowerLoss
        then()

    def check(self, kind: str) -> None:
        """Fail, if this operation is to fail."""
        error = self.fault(kind) if self.fault else None
        if error is not None:
            raise error

    def create(self, name: str) -> None:
        """Make an empty file, whose name may be lost."""
        self.names[name] = File()

    def delete(self, name: str, sync: bool) -> None:
        """Remove a file, whose name may come back if the directory is not synced."""
        self.names.pop(name, None)
        if sync:
            self.durable_names.pop(name, None)

    def sync_names(self) -> None:
        """Sync the directory."""
        self.durable_names = dict(self.names)

    def lose_process(self) -> "Disk":
        """The disk as the next process finds it, after one was killed: what was not synced is still not synced."""
        after = Disk(0)
        after.chance = self.chance
        after.names = {str(after.directory / Path(name).name): file for name, file in self.names.items()}
        after.durable_names = {
            str(after.directory / Path(name).name): file for name, file in self.durable_names.items()
        }
        return after

    def lose_power(self) -> "Disk":
        """The disk after power came back."""
        after = Disk(0)
        after.chance = self.chance
        for name in {**self.durable_names, **self.names}:
            candidates = [self.durable_names.get(name), self.names.get(name)]
            file = candidates[0] if candidates[0] is candidates[1] else self.chance.choice(candidates)
            if file is not None:
                here = str(after.directory / Path(name).name)
                after.names[here] = after.durable_names[here] = file.after_power_loss(self.chance)
        return after


class PowerLossVFS(apsw.VFS):
    """The VFS, under a name of its own, and the names of its files; `disk` is the one that it has at the moment.

    Files are opened in the disk's own directory: a connection that is closed late, when there is another disk already,
    does not touch that one's files.
    """

    def __init__(self, disk: Disk) -> None:
        self.name = f"power-loss-{next(_numbers)}"
        super().__init__(self.name, base="")
        self.disk = disk

    def make(self, path: Path) -> None:
        """Make a file, as our own code does for SQLite."""
        if str(path) not in self.disk.names:
            self.disk.step("create", lambda: self.disk.create(str(path)))

    def sync(self, directory: Path) -> None:
        """Sync the directory, as our own code does."""
        self.disk.step("sync", self.disk.sync_names)

    def xOpen(self, name: Any, flags: list[int]) -> "OpenFile":
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        disk = self.disk
        if path not in disk.names:
            if not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError("no such file")
            disk.step("create", lambda: disk.create(path))
        flags[1] = flags[0]
        creates = bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        return OpenFile(disk, path, syncs_directory=creates and not flags[0] & apsw.SQLITE_OPEN_MAIN_DB)

    def xDelete(self, name: str, sync: bool) -> None:
        if self._is_here(name):
            self.disk.step("delete", lambda: self.disk.delete(name, sync))

    def xAccess(self, name: str, flags: int) -> bool:
        return self._is_here(name) and name in self.disk.names

    def xFullPathname(self, name: str) -> str:
        return name

    def _is_here(self, name: str) -> bool:
        return name.startswith(f"{self.disk.directory}/")


class OpenFile:
    """An open file of a disk. As in SQLite's own VFS, the first sync of a journal makes its name durable too.

    Only its own: POSIX promises nothing about other names, and a build of SQLite may sync none.
    """

    def __init__(self, disk: Disk, name: str, syncs_directory: bool) -> None:
        self.disk = disk
        self.name = name
        self.file = disk.names[name]
        self.syncs_directory = syncs_directory

    def xRead(self, amount: int, offset: int) -> bytes:
        self.disk.check("read")
        return bytes(self.file.live[offset : offset + amount])

    def xWrite(self, data: Any, offset: int) -> None:
        written = bytes(data)
        self.disk.step("write", lambda: self.file.write(offset, written))

    def xTruncate(self, size: int) -> None:
        self.disk.step("truncate", lambda: self.file.truncate(size))

    def xSync(self, flags: int) -> None:
        try:
            self.disk.step("sync", self._sync)
        except apsw.IOError:
            self.file.unsynced.clear()
            raise

    def _sync(self) -> None:
        self.file.sync()
        if self.syncs_directory:
            self.syncs_directory = False
            if self.disk.names.get(self.name) is self.file:
                self.disk.durable_names[self.name] = self.file

    def xFileSize(self) -> int:
        return len(self.file.live)

    def xClose(self) -> None:
        return None

    def xLock(self, level: int) -> None:
        return None

    def xUnlock(self, level: int) -> None:
        return None

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # as SQLite's own VFS claims


_numbers = itertools.count()


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset: int, length: int) -> list[tuple[int, int]]:
    """The parts of a range that lie in one sector each."""
    cuts = [offset, *range((offset // SECTOR + 1) * SECTOR, offset + length, SECTOR), offset + length]
    return list(itertools.pairwise(cuts))
