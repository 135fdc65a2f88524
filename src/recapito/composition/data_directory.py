"""The data directory of a server as commands see it: backup, restore, damage. The one door of the command line to it.

Commands read beside a running server and never write a file that a role writes. `restore` alone fills a directory, and
holds the locks of both roles meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from recapito.contracts.damage import Damage
from recapito.stores.sqlite.files import backup, damage
from recapito.stores.sqlite.files.damage import DamageSign
from recapito.stores.sqlite.sql.damage_sql import read_all


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

    def damaged_records(self) -> Iterator[Damage]:
        """The damaged records that were set aside, with their bytes."""
        yield from read_all(self._path)

    def damage_signs(self) -> Sequence[DamageSign]:
        """The reasons why files are marked as damaged."""
        return damage.read_signs(self._path)

    def inspect(self) -> Mapping[str, Sequence[str]]:
        """The faults that SQLite finds in each file; this reads the whole files."""
        return damage.check(self._path)

    def clear_damage(self) -> bool:
        """Let the server accept events again; False if no file is marked as damaged."""
        return damage.clear_signs(self._path)
