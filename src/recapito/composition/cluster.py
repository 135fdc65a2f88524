"""The parts of a node of a cluster, by the settings: its peers, its copies of the streams, and its formats.

A role connects without the checks that its parent has made: a node must take over while one NATS server is down.
"""

import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from pathlib import Path
from ssl import SSLContext

from msgspec.structs import replace

from recapito.composition.stores import sqlite_options
from recapito.contracts.backend import Backend
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.cluster.view import ClusterView, StreamCopy
from recapito.errors import ClusterUnreachable, SettingsError
from recapito.observability.journal import Journal, silent
from recapito.peers.nats import NatsPeers
from recapito.settings.settings import Settings
from recapito.stores.jetstream.client import JetStreamOptions, open_client
from recapito.stores.jetstream.streams import JetStreamStreams, connect, connect_all
from recapito.stores.replicated import message
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.stores.sqlite.files.lock import lock_role
from recapito.stores.sqlite.sql_files import migrations

MONITOR_S = 2.0


def stored_formats() -> str:
    """The versions of the formats in the files: those of the log's and of the ledger's schema."""
    return f"{len(migrations('log'))}.{len(migrations('dispatch'))}"


def stream_formats() -> str:
    """The versions of the formats in the streams: those of the files, and that of messages."""
    return f"{stored_formats()}.{message.VERSION}"


def jetstream_options(settings: Settings) -> JetStreamOptions:
    """How this node reaches the NATS servers."""
    cluster = settings.cluster

    def file(key: str) -> Path | None:
        path = getattr(cluster, key)
        if path and not Path(path).is_file():
            raise SettingsError(f"cluster.{key}: '{path}' is not a file")
        return Path(path) if path else None

    return JetStreamOptions(
        settings.nats_servers,
        cluster.name,
        cluster.user,
        cluster.password,
        file("password_file"),
        creds=file("creds_file"),
        nkey=file("nkey_file"),
        ca=file("ca_file"),
        certificate=file("cert_file"),
        key=file("key_file"),
        monitors=tuple(url.rstrip("/") for url in cluster.monitors),
        unchecked=cluster.unchecked,
    )


def connect_streams(settings: Settings, journal: Journal) -> list[JetStreamStreams]:
    """The streams of each partition, with all checks, by one connection.

    A server whose monitor does not answer is passed over: readiness names it.
    """
    options = jetstream_options(settings)
    answering = tuple(url for url in options.monitored if _answers(url, options.tls()))
    unchecked = options.unchecked or (bool(options.monitors) and not answering)
    return connect_all(options._replace(monitors=answering, unchecked=unchecked), journal)


def make_replicated(
    settings: Settings, journal: Journal, lost: Callable[[], None] = lambda: None, partition: Partition = WHOLE
) -> ReplicatedBackend:
    """A role's stores in a cluster. It connects, which blocks. Starting the role again helps if that fails.

    `lost` is called, from any thread, when another node owns the streams.
    """
    try:
        options = jetstream_options(settings)._replace(monitors=(), unchecked=True)
        streams = connect(options, journal, partition.number)
    except SettingsError as error:
        raise ClusterUnreachable(str(error)) from error
    return backend_on(settings, streams, journal, lost, partition)


def backend_on(
    settings: Settings,
    streams: JetStreamStreams,
    journal: Journal = silent,
    lost: Callable[[], None] = lambda: None,
    partition: Partition = WHOLE,
) -> ReplicatedBackend:
    return ReplicatedBackend(sqlite_options(settings, partition), streams, settings.cluster.node_name, journal, lost)


def hold_directory(data: Path) -> AbstractContextManager[None]:
    """Keep every other node and server from the data directory; SettingsError if one has it."""
    return lock_role(data, "intake")


def peers_stream(settings: Settings) -> str:
    """The name of the stream of the peers."""
    return f"{settings.cluster.name}_PEERS"


@asynccontextmanager
async def open_peers(settings: Settings, journal: Journal = silent) -> AsyncIterator[NatsPeers]:
    """The peers, on a connection of their own."""
    try:
        client = await open_client(jetstream_options(settings), journal)
    except SettingsError as error:
        raise ClusterUnreachable(str(error)) from error
    try:
        yield NatsPeers(client, peers_stream(settings), lambda: client.why)
    finally:
        with suppress(Exception):  # a server that is gone cannot be taken leave of
            await client.close()


def copies_of(backend: ReplicatedBackend, streams: JetStreamStreams) -> list[StreamCopy]:
    """The copies that are open here beside what the servers say of their streams. It blocks.

    While the roles of this node have the copies open, they are at the end of the streams.
    """
    views = {view.stream: view for view in backend.views()}
    copies = []
    for stream in (streams.log, streams.lanes):
        state, view = stream.state(), views.get(stream.name)
        applied = state.last if view is None else view.applied
        doubt = view is not None and view.doubt
        copies.append(StreamCopy(stream.name, applied, state.last, state.bytes, state.max_bytes, doubt))
    return copies


def with_doubts(view: ClusterView, backend: Backend) -> ClusterView:
    """A node's view, with the streams whose last commit by this process has an unknown outcome."""
    open_here = backend.views() if isinstance(backend, ReplicatedBackend) else []
    doubted = {known.stream for known in open_here if known.doubt}
    copies = [replace(copy, doubt=copy.doubt or copy.stream in doubted) for copy in view.copies]
    return replace(view, copies=copies)


def _answers(monitor: str, tls: SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(f"{monitor}/healthz?js-server-only=true", timeout=MONITOR_S, context=tls):
            return True
    except (OSError, ValueError):
        return False
