"""The stores of a server: the one place that chooses a backend by the settings; and its connections, in a keyring."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from recapito.composition.partition_paths import directory_of
from recapito.connections.configured import read_configured
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Backend, PreparedState
from recapito.contracts.history import HistoryBounds
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.instant import HOUR
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings
from recapito.stores.memory.backend import MemoryBackend
from recapito.stores.sqlite.backend import SqliteBackend, SqliteOptions


def make_backend(
    settings: Settings, journal: Journal, lost: Callable[[], None] = lambda: None, partition: Partition = WHOLE
) -> Backend:
    """The backend that `server.store` names. `lost` is called, from any thread, when another node has the store."""
    if settings.in_cluster:
        from recapito.composition.cluster import make_replicated  # NATS takes a while to load

        return make_replicated(settings, journal, lost, partition)
    if settings.in_memory:
        return MemoryBackend(_keep(settings))
    return SqliteBackend(sqlite_options(settings), journal)


def sqlite_options(settings: Settings, partition: Partition = WHOLE) -> SqliteOptions:
    """The data directory, and the use that is made of its volume. Partitions have directories of their own in it."""
    disk = settings.disk
    return SqliteOptions(
        directory_of(settings.data, partition),
        _keep(settings, partition.of),
        stop_fraction=disk.stop_percent / 100,
        stop_bytes=disk.stop_mb * limits.MB,
        ballast_bytes=disk.ballast_mb * limits.MB // partition.of,
        allow_network=disk.allow_network_filesystem,
    )


def _keep(settings: Settings, partitions: int = 1) -> HistoryBounds | None:
    history = settings.history
    size = history.keep_mb * limits.MB // partitions
    return HistoryBounds(history.keep_hours * HOUR, size) if history.enabled else None


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
