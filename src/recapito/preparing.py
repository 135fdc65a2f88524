"""Before a server starts: its files are made, migrated or refused, and after a crash looked through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from recapito.app import open_both
from recapito.errors import SettingsError
from recapito.settings import Settings
from recapito.stores.sqlite.inspection import inspect, stopped_uncleanly
from recapito.stores.sqlite.volume import check_directory
from recapito.telemetry import Journal


class Found(NamedTuple):
    """What was in the data directory: when something was stored last, and whether it may be damaged."""

    newest: int
    doubtful: bool


async def prepare_store(settings: Settings, journal: Journal) -> Found:
    """Make or migrate the files, or refuse them."""
    if settings.server.store == "memory":
        return Found(0, doubtful=False)
    data = settings.data
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"server.data: {data} can not be made: {error.strerror}") from None
    check_directory(data, settings.disk.allow_network_filesystem)
    newest = max((file.stat().st_mtime_ns for file in data.glob("*.db*")), default=0)
    doubtful = stopped_uncleanly(data)
    async with open_both(settings, journal):
        return Found(newest, doubtful)


@asynccontextmanager
async def inspecting(settings: Settings, found: Found, journal: Journal) -> AsyncIterator[None]:
    """While this lasts, files that a crash may have damaged are looked through."""
    looking = asyncio.create_task(inspect(settings.data, journal)) if found.doubtful else None
    try:
        yield
    finally:
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
