"""What both stores on SQLite share: their verbs go through a pump to the synchronous functions on one file."""

from collections.abc import Callable
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.pump import InlinePump, Pump, ThreadPump

P = ParamSpec("P")
T = TypeVar("T")


class Face:
    """The asynchronous face of a Database, which only the pump may call."""

    def __init__(self, database: Database, threaded: bool) -> None:
        self.database = database
        self._pump: Pump = (
            ThreadPump(f"store-{database.path.stem}", self._clean_up) if threaded else InlinePump(self._clean_up)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.database!r}>"

    async def close(self) -> None:
        """Finish what is under way, and close the file."""
        try:
            await self._pump(self.database.close)
        finally:
            await self._pump.close()

    def _clean_up(self) -> None:
        """The housekeeping after each call."""
        self.database.checkpoint()

    async def _read(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._pump(partial(self.database.read, verb, *args, **kwargs))

    async def _write(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._pump(partial(self.database.write, verb, *args, **kwargs))

    async def _drain(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._pump(partial(self.database.drain, verb, *args, **kwargs))
