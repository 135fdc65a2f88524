"""The stores of a server: the one place that chooses a backend by the settings; and its connections, in a keyring."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from recapito.connections.configured import read_configured
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Backend, PreparedState
from recapito.contracts.history import HistoryBounds
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.instant import HOUR
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings
from recapito.stores.memory.backend import MemoryBackend
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions


def make_backend(settings: Settings, journal: Journal) -> Backend:
    """The backend that `server.store` names."""
    history, disk = settings.history, settings.disk
    keep = HistoryBounds(history.keep_hours * HOUR, history.keep_mb * limits.MB) if history.enabled else None
    if settings.in_memory:
        return MemoryBackend(keep)
    options = SqliteOptions(
        settings.data,
        keep,
        stop_fraction=disk.stop_percent / 100,
        stop_bytes=disk.stop_mb * limits.MB,
        ballast_bytes=disk.ballast_mb * limits.MB,
        allow_network=disk.allow_network_filesystem,
    )
    return SqliteBackend(options, journal)


def make_keyring(settings: Settings, registry: Registry, secret_box: SecretBox | None = None) -> Keyring:
    """The connections of a server, those of its settings included; encrypted under the key in its file.

    A server in memory has a key of its own, which both roles must share.
    """
    if secret_box is None:
        secret_box = SecretBox.in_memory() if settings.in_memory else SecretBox.in_file(settings.connection_key)
    configured = read_configured(settings.connection.resources, os.environ)
    behind_front = settings.azure.azurite_url.rstrip("/") if settings.azure.azurite_front else ""
    return Keyring(registry, secret_box, settings.azure.azurite, configured, behind_front)


@asynccontextmanager
async def inspecting(backend: Backend, prepared: PreparedState, ready: asyncio.Event) -> AsyncIterator[None]:
    """While this lasts, and once the server is ready, inspect stores that a crash may have damaged.

    Reading through gigabytes before would take the processor from the roles that start.
    """
    inspection = asyncio.create_task(_inspect(backend, ready)) if prepared.doubtful else None
    try:
        yield
    finally:
        if inspection is not None:
            inspection.cancel()
            await asyncio.wait([inspection])


async def _inspect(backend: Backend, ready: asyncio.Event) -> None:
    await ready.wait()
    await backend.inspect()
