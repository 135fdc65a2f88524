"""The backend on replicated SQLite files: one node owns the streams and writes, the others follow."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from recapito.clock import Clock
from recapito.contracts.backend import Prepared, Stores
from recapito.contracts.stream import Streams
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.backend import SqliteOptions


class View(NamedTuple):
    """How far the local copy of a stream is, and the hint of how far the stream is. `doubt`: an outcome is unknown."""

    stream: str
    applied: int
    last: int
    bytes: int
    max_bytes: int
    doubt: bool = False


class ReplicatedBackend:
    """The copies of a cluster's stores in one data directory, and the streams that they are copies of.

    A node's life: `prepare` brings the copies up to date; a standby calls `follow` until it is cancelled; whoever is to
    own calls `claim`, which fences every other owner, and then opens the roles, in this process or in others with
    backends of their own on the same directory: they continue the claim that the directory holds. A verb of a store
    that another node has claimed raises StoreLost, and `lost` is called once, from any thread.
    """

    def __init__(
        self,
        options: SqliteOptions,
        streams: Streams,
        node: str,
        journal: Journal = silent,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        raise NotImplementedError

    async def prepare(self) -> Prepared:
        """Load the copies, or bring them up to date, without owning anything."""
        raise NotImplementedError

    async def follow(self) -> None:
        """Apply the owner's commits as they come, until cancelled. A stream that is out of reach is tried again."""
        raise NotImplementedError

    async def claim(self) -> int:
        """Own both streams: fence every other owner, then read the rest. Return the epoch of the claim.

        StoreFailed: out of reach, nothing is owned for certain; calling again is safe.
        """
        raise NotImplementedError

    async def found(self) -> None:
        """Publish the content of the directory, or empty stores, as the beginning of two new streams (`cluster init`)."""
        raise NotImplementedError

    def views(self) -> list[View]:
        """The copies of log and lanes, for status and metrics."""
        raise NotImplementedError

    def open_both(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        raise NotImplementedError

    def open_intake(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        raise NotImplementedError

    def open_dispatch(self, clock: Clock) -> AbstractAsyncContextManager[Stores]:
        raise NotImplementedError

    async def inspect(self) -> None:
        raise NotImplementedError
