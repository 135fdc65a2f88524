"""The store of a cluster on any streams, for the suites of the contracts."""

from functools import partial
from pathlib import Path

from recapito.contracts.stream import Streams
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.connection import DISK, DISPATCH, LOG

COPY = DISK._replace(synchronous="OFF")


class CompactingDatabase(ReplicatedDatabase):
    """It always compacts, by a few rows in each commit, so that a load nearly always begins at a purged prefix."""

    SLICE_BYTES = 200

    def _wants_compaction(self) -> bool:
        return True


def open_node(
    directory: Path,
    name: str,
    streams: Streams,
    threaded: bool = False,
    founding: bool = False,
    make: type[ReplicatedDatabase] = CompactingDatabase,
) -> list[ReplicatedDatabase]:
    """The copies of log and lanes in the directory of a node, after it has founded the streams or claimed them."""
    (directory / name).mkdir(exist_ok=True)
    databases = []
    for kind, stream in ((LOG, streams.log), (DISPATCH, streams.lanes)):
        path = directory / name / kind.file
        database = make(path, kind, stream, name, COPY, threaded=threaded, founding=founding)
        try:
            database.found() if founding else database.claim()
        except BaseException:
            for opened in (*databases, database):
                opened.close()
            raise
        databases.append(database)
    return databases


class ReplicatedStores:
    """Copies of streams. Reopening is a takeover by a node without copies."""

    spoil: object = None

    def __init__(
        self,
        directory: Path,
        streams: Streams,
        threaded: bool = False,
        kind: type[ReplicatedDatabase] = CompactingDatabase,
    ) -> None:
        self._directory = directory
        self._streams = streams
        self._threaded = threaded
        self._kind = kind
        self._nodes = 0
        self._open(founding=True)

    def _open(self, founding: bool = False) -> None:
        self._nodes += 1
        name = f"node{self._nodes}"
        self.databases = open_node(self._directory, name, self._streams, self._threaded, founding, self._kind)
        self.log = SqliteLog(self.databases[0], self._threaded)
        self.ledger = SqliteLedger(self.databases[1], self._threaded)

    async def reopen(self) -> None:
        await self.close()
        self._open()

    async def close(self) -> None:
        """Close both, after a look at their digests, which the worker takes: it may be cleaning up after a call."""
        for store, database in zip((self.log, self.ledger), self.databases, strict=True):
            await store._worker(partial(_check_digest, database))
        await self.log.close()
        await self.ledger.close()


def _check_digest(database: ReplicatedDatabase) -> None:
    assert database.digest() == database.note.digest, "the digest was not kept up to date"
