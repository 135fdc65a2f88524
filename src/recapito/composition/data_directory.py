"""The data directory of a server as commands see it: backup, restore, damage. The one door of the command line to it.

Commands read beside a running server and never write a file that a role writes. `restore` alone fills a directory, and
holds the locks of both roles meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from recapito.composition.container import fetch, gathered, open_container, send
from recapito.contracts.damage import Damage
from recapito.errors import Conflict
from recapito.settings.settings import Settings
from recapito.stores.sqlite.files import backup, damage
from recapito.stores.sqlite.files.connection import DISPATCH, LOG
from recapito.stores.sqlite.files.damage import DamageSign
from recapito.stores.sqlite.files.fit import find_misfit
from recapito.stores.sqlite.sql.damage_sql import read_all

_FILES = (DISPATCH.file, LOG.file)
_REMEDY = (
    "Stop the server and restore a backup into a new directory. Without one, move dispatch.db away, with its -wal: "
    "every subscription then begins again with the oldest event that the log has, and its waiting retries are lost."
)


class DataDirectory:
    """One data directory. The server may run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def back_up(self, target: Path, progress: Callable[[str], None]) -> None:
        """Copy the stores to an empty directory, as they are at one moment each; nothing is trimmed meanwhile."""
        backup.backup(self._path, target, progress)

    def restore(self, source: Path) -> None:
        """Check a backup and copy it here; SettingsError if a server runs, or if the directory is not empty."""
        backup.restore(source, self._path)

    async def back_up_to_container(self, settings: Settings, url: str, progress: Callable[[str], None]) -> None:
        """The same as `back_up`, to an empty folder of a blob container, by the connections of these settings."""
        async with open_container(settings, url) as folder:
            await folder.check_empty()
            with gathered(folder) as copy:
                await asyncio.to_thread(self.back_up, copy, progress)
                await send(folder, copy, _FILES, progress)

    async def restore_from_container(self, settings: Settings, url: str, progress: Callable[[str], None]) -> None:
        """The same as `restore`, from a folder of a blob container."""
        await asyncio.to_thread(backup.prepare, self._path, "The data directory")
        async with open_container(settings, url) as folder:
            with gathered(folder) as copy:
                await fetch(folder, copy, _FILES, progress)
                await asyncio.to_thread(self.restore, copy)

    @property
    def lacks_log(self) -> bool:
        """Whether the log is missing beside its ledger: a server does not start then."""
        return (self._path / DISPATCH.file).exists() and not (self._path / LOG.file).exists()

    def damaged_records(self) -> Iterator[Damage]:
        """The damaged records that were set aside, with their bytes."""
        yield from read_all(self._path)

    def damage_signs(self) -> Sequence[DamageSign]:
        """The reasons why files are marked as damaged."""
        return damage.read_signs(self._path)

    def inspect(self) -> Mapping[str, Sequence[str]]:
        """The faults of each file; this reads the whole files. That both do not fit together is a fault of the log."""
        found = damage.check(self._path)
        misfit = find_misfit(self._path)
        return found | {LOG.file: [*found[LOG.file], misfit]} if misfit else found

    def clear_damage(self) -> bool:
        """Let the server accept events again; False if no file is marked as damaged.

        Refused while both files do not fit together: the server would use positions again that lanes have passed.
        """
        found = find_misfit(self._path) if self.damage_signs() else ""
        if found:
            raise Conflict("FilesDoNotFit", f"{LOG.file} and {DISPATCH.file} do not fit together: {found}. {_REMEDY}")
        return damage.clear_signs(self._path)
