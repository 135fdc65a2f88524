"""The parts of a node of a cluster, by the settings: its peers, its copies of the streams, and its formats."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

from recapito.composition.stores import sqlite_options
from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.peers.nats import NatsPeers
from recapito.settings.settings import Settings
from recapito.stores.jetstream.connect import JetStreamOptions, connect
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.stores.sqlite.sql_files import migrations

CONNECT_S = 2


def stored_formats() -> str:
    """The versions of the formats in the streams: those of the log's and of the ledger's schema."""
    return f"{len(migrations('log'))}.{len(migrations('dispatch'))}"


def peers_stream(settings: Settings) -> str:
    """The name of the stream of the peers."""
    return f"RCP_{settings.cluster.name}_PEERS"


def jetstream_options(settings: Settings) -> JetStreamOptions:
    """How this node reaches the NATS servers."""
    cluster = settings.cluster
    return JetStreamOptions(
        settings.nats_servers,
        cluster.name,
        cluster.user,
        _password(settings),
        *(Path(path) if path else None for path in (cluster.creds_file, cluster.nkey_file)),
        *(Path(path) if path else None for path in (cluster.ca_file, cluster.cert_file, cluster.key_file)),
        tuple(cluster.monitors),
        cluster.unchecked,
    )


def make_replicated(settings: Settings, journal: Journal, lost: Callable[[], None] = lambda: None) -> ReplicatedBackend:
    """The node's copies of the streams. It connects, which blocks, and checks the servers.

    `lost` is called, from any thread, when another node owns the streams.
    """
    streams = connect(jetstream_options(settings), journal)
    return ReplicatedBackend(sqlite_options(settings), streams, settings.cluster.node_name, journal, lost)


@asynccontextmanager
async def open_peers(settings: Settings) -> AsyncIterator[NatsPeers]:
    """The peers, on a connection of their own."""
    client = await _connect(settings)
    try:
        yield NatsPeers(client, peers_stream(settings))
    finally:
        await client.close()


async def _connect(settings: Settings) -> Client:
    async def ignore(error: Exception) -> None:
        """The verbs report what fails."""

    try:
        return await nats.connect(
            servers=list(settings.nats_servers),
            name=f"recapito node {settings.cluster.node_name}",
            connect_timeout=CONNECT_S,
            ping_interval=1,
            max_outstanding_pings=2,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.25,
            allow_reconnect=True,
            error_cb=ignore,
            **_credentials(settings),
        )
    except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise SettingsError(
            f"server.store: no NATS server of {', '.join(settings.nats_servers)} lets this node in: {reason}. "
            "Check that they run, and the credentials under [cluster]."
        ) from None


def _credentials(settings: Settings) -> dict[str, Any]:
    cluster = settings.cluster
    given: dict[str, Any] = {}
    if cluster.user:
        given |= {"user": cluster.user, "password": _password(settings)}
    if cluster.creds_file:
        given["user_credentials"] = cluster.creds_file
    if cluster.nkey_file:
        given["nkeys_seed"] = cluster.nkey_file
    if cluster.ca_file or cluster.cert_file or settings.server.store.startswith("tls:"):
        context = ssl.create_default_context(cafile=cluster.ca_file or None)
        if cluster.cert_file:
            context.load_cert_chain(cluster.cert_file, cluster.key_file)
        given["tls"] = context
    return given


def _password(settings: Settings) -> str:
    file = settings.cluster.password_file
    try:
        return Path(file).read_text("utf-8").strip() if file else settings.cluster.password
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cluster.password_file: {file} cannot be read: {error}") from None
