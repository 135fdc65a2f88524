"""The base of Log and Ledger on SQLite: their verbs run synchronous functions on one file through a worker."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Concatenate, ParamSpec, Self, TypeVar

import apsw

from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files import volume
from recapito.stores.sqlite.files.connection import DISK, FileKind, FileMedium
from recapito.stores.sqlite.files.volume import Ballast
from recapito.stores.sqlite.worker import InlineWorker, ThreadWorker, Worker

P = ParamSpec("P")
T = TypeVar("T")


class AsyncStore:
    """The asynchronous side of a Database of one kind, which only the worker may call."""

    KIND: ClassVar[FileKind]

    def __init__(self, database: Database, threaded: bool, journal: Journal = silent) -> None:
        self.database = database
        self._journal = journal
        self._free_pages = 0  # in bytes
        self._worker: Worker = (
            ThreadWorker(f"store-{database.path.stem}", self._clean_up) if threaded else InlineWorker(self._clean_up)
        )

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        threaded: bool = True,
        medium: FileMedium = DISK,
        ballast: Ballast | None = None,
        allow_network: bool = False,
        journal: Journal = silent,
    ) -> Self:
        """Open the file to write it, by default in a thread of its own; a missing file is made."""
        if medium.vfs is None:
            volume.check_directory(directory, allow_network)
            medium = medium._replace(trusted_times=not allow_network)
        path = directory / cls.KIND.file
        return cls(Database(path, cls.KIND, medium=medium, ballast=ballast, journal=journal), threaded, journal)

    @classmethod
    def open_reader(cls, directory: Path, *, threaded: bool = False, journal: Journal = silent) -> Self:
        """Open the file to read it, by default inline: such reads are short.

        Verbs that write raise io.UnsupportedOperation.
        """
        path = directory / cls.KIND.file
        return cls(Database(path, cls.KIND, read_only=True, journal=journal), threaded, journal)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.database!r}>"

    @property
    def reusable(self) -> int:
        """The bytes of free pages in the file, less those in the WAL that wait to be copied into it."""
        return self._free_pages - self.database.uncopied

    async def close(self) -> None:
        """Finish the calls under way, and close the file."""
        try:
            await self._worker(self.database.close)
        finally:
            await self._worker.close()

    def _clean_up(self) -> None:
        """The housekeeping after each call."""
        self.database.checkpoint()

    def _count_free_pages(self) -> None:
        self._free_pages = self.database.read(_free_pages_bytes)

    async def _read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker(partial(self.database.read, verb, *args, **kwargs))

    async def _write(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker(partial(self.database.write, verb, *args, **kwargs))

    async def _drain(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._worker(partial(self.database.drain, verb, *args, **kwargs))


def _free_pages_bytes(connection: apsw.Connection) -> int:
    return int(connection.pragma("freelist_count")) * int(connection.pragma("page_size"))
