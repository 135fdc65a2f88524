"""The sockets of Microsoft's messaging clients: they forget one that broke, or that was still being opened."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_LOOK_S = 0.005
_INNER = ("_handler", "_connection", "_transport")


class Sockets:
    """Remembers the transports that a client has used, so that all of them are closed. `holder` has the client's."""

    def __init__(self, holder: Callable[[], Any]) -> None:
        self._holder = holder
        self._seen: list[Any] = []

    def __repr__(self) -> str:
        return f"<Sockets, {len(self._seen)} seen>"

    async def open(self, opening: Coroutine[Any, Any, object]) -> None:
        """Do what opens the client, and see what it opens."""
        task = asyncio.get_running_loop().create_task(opening)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=None if self._seen else _LOOK_S)
                self._look()
            task.result()
        except asyncio.CancelledError:
            self._look()
            task.cancel()
            await asyncio.wait([task])
            raise

    async def close(self) -> None:
        """Close all, once more where the client has."""
        for transport in self._seen:
            await transport.close()

    def _look(self) -> None:
        found = self._holder()
        for name in _INNER:
            found = getattr(found, name, None)
        if found is not None and found not in self._seen:
            self._seen.append(found)
