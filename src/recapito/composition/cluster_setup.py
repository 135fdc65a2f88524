"""Making a cluster, joining it, and moving a store into one and out of one.

The law: a step that fails leaves nothing to be removed by hand. An attempt to make a cluster is noted in the data
directory before its first stream is made; the next attempt there takes back what that one left. Streams of another
store are never touched.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from recapito.composition import identity as access
from recapito.composition.cluster import (
    backend_on,
    connect_streams,
    jetstream_options,
    open_peers,
    peers_stream,
)
from recapito.composition.cluster_secret import read_secret
from recapito.composition.partition_paths import directory_of, file_of
from recapito.composition.replicas import ask_all
from recapito.composition.stores import sqlite_options
from recapito.connections.encryption import KEY_BYTES
from recapito.contracts.stream import StreamMissing, StreamUnknown
from recapito.domain import limits
from recapito.domain.cluster.lease import LeaseSeen
from recapito.domain.cluster.member import Sighting, clock_problem
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.errors import ClusterUnreachable, PeersFailed, SettingsError, StoreFailed
from recapito.identity.cluster_secret import ClusterSecret
from recapito.observability.journal import silent
from recapito.peers.nats import NatsPeers
from recapito.settings.settings import Settings
from recapito.stores.jetstream.link import Link
from recapito.stores.jetstream.stream import JetStreamStream
from recapito.stores.jetstream.streams import JetStreamStreams, check_servers, create
from recapito.stores.replicated.convert import check_empty, copy_stores, digests, forget_streams, noted_digests
from recapito.stores.replicated.rows import Digest
from recapito.stores.sqlite.backend import SqliteBackend
from recapito.system.durable_names import make_directory, sync_directory
from recapito.system.secret_file import keep, write

PAPERS = "keys"
_ATTEMPT = "cluster.attempt"
_LOOKS = 24  # a quarter of a second apart: longer than a member is remembered
_SHARED = ("identity/signing-key.pem", "identity/development.json", "identity/scrape-token", "tls/ca.pem", "tls/ca.key")
_CONNECTION_KEY = "connection.key"


class StreamSizes(NamedTuple):
    """The bounds of the streams of all partitions together, the number of servers that keep them, and of partitions."""

    log_bytes: int
    lanes_bytes: int
    replicas: int
    partitions: int = 1


async def init(settings: Settings, sizes: StreamSizes, filled: bool = False) -> None:
    """Make a cluster out of this node's data directory: an empty one, or an embedded store that no server uses.

    filled: it has a store for each partition already.
    """
    secret_file = settings.cluster.secret_in(settings.data)
    attempt = settings.data / _ATTEMPT
    if secret_file.exists() and not attempt.exists():
        raise SettingsError(f"{secret_file} exists: this node belongs to a cluster already.")
    if sizes.partitions > 1 and not filled and not attempt.exists():
        _check_unused(settings.data)
    make_directory(settings.data)
    before = attempt.read_text("ascii") if attempt.exists() else ""
    async with open_peers(settings) as peers:
        await asyncio.to_thread(check_servers, jetstream_options(settings), sizes.replicas)
        try:
            await peers.create(sizes.replicas)
            if await peers.paper(PAPERS) is not None:
                raise SettingsError(
                    f"There is a cluster named '{settings.cluster.name}' already: join it by `recapito cluster join`, "
                    "or choose another cluster.name."
                )
            if before:
                await asyncio.to_thread(_take_back, settings, before)
            log_id = secrets.token_hex(16)
            write(attempt, log_id.encode())
            try:
                await _found(settings, sizes, log_id)
                secret = ClusterSecret.new()
                secret.write(secret_file)
                await peers.put_paper(PAPERS, secret.seal(PAPERS, make_papers(settings)))
            except BaseException:
                secret_file.unlink(missing_ok=True)
                await asyncio.to_thread(_take_back, settings, log_id)
                attempt.unlink(missing_ok=True)
                raise
        except PeersFailed as error:
            raise SettingsError(f"The cluster cannot be made: {error}. Try again.") from error
    attempt.unlink()
    sync_directory(settings.data)


def _check_unused(data: Path) -> None:
    """Refuse a store for several partitions: its topics would have to be divided."""
    used = [*data.glob("*.db"), *data.glob("partition-*")]
    if used:
        raise SettingsError(
            f"{used[0]} exists: a cluster of several partitions begins with an empty data directory. A store moves "
            "into a cluster of one partition only; into several, move its resources by `recapito export --secrets` and "
            "`recapito apply`, while the old server delivers its events."
        )


async def _found(settings: Settings, sizes: StreamSizes, log_id: str) -> None:
    options, sized = jetstream_options(settings), (sizes.log_bytes, sizes.lanes_bytes, sizes.replicas)
    await asyncio.to_thread(create, options, log_id, *sized, partitions=sizes.partitions)
    async with open_partitions(settings) as every:
        try:
            for partition, streams in every.items():
                await backend_on(settings, streams, partition=partition).found(partition.first_id)
        except StoreFailed as error:
            raise SettingsError(f"The streams cannot be filled: {error}. Try again.") from error


def _take_back(settings: Settings, log_id: str) -> None:
    """Remove the streams of an attempt, and its marks in the data directory. Streams of another log stay."""
    link = Link(jetstream_options(settings))
    try:
        for number in range(limits.PARTITIONS):
            streams = JetStreamStreams(link, settings.cluster.name, number)
            taken = [_take_back_stream(link, stream, log_id) for stream in (streams.log, streams.lanes)]
            if not any(taken):
                break  # they were made in order
    finally:
        link.close()
    forget_streams(settings.data)
    for directory in settings.data.glob("partition-*"):
        shutil.rmtree(directory)


def _take_back_stream(link: Link, stream: JetStreamStream, log_id: str) -> bool:
    """Remove a stream of this log. False: there is no such stream."""
    try:
        if stream.state().log_id == log_id:
            link.request(f"$JS.API.STREAM.DELETE.{stream.name}", b"")
    except StreamMissing:
        return False
    except StreamUnknown as error:
        raise SettingsError(
            f"Stream {stream.name} of an attempt that failed cannot be removed: {error}. Run the command again."
        ) from error
    return True


async def join(settings: Settings, secret: ClusterSecret) -> None:
    """Make this data directory that of a node of the cluster."""
    async with open_peers(settings) as peers:
        papers = open_papers(settings, secret, await read_paper(peers, settings))
    write_papers(settings, papers)
    secret.write(settings.cluster.secret_in(settings.data))


async def read_paper(peers: NatsPeers, settings: Settings) -> bytes:
    """The sealed keys of the cluster."""
    try:
        sealed = await peers.paper(PAPERS)
    except PeersFailed as error:
        raise ClusterUnreachable(f"{peers_stream(settings)}: {error}") from error
    if sealed is None:
        raise SettingsError(f"There is no cluster named '{settings.cluster.name}': make it by `recapito cluster init`.")
    return sealed


def open_papers(settings: Settings, secret: ClusterSecret, sealed: bytes) -> dict[str, bytes]:
    """The keys of the cluster, by their names."""
    papers = secret.unseal(PAPERS, sealed)
    if papers is None:
        raise SettingsError(f"This is not the secret of the cluster '{settings.cluster.name}'.")
    return papers


async def check_secret(settings: Settings, secret: ClusterSecret, peers: NatsPeers) -> None:
    """Refuse a node of another cluster with this name: its keys would not fit those of the others."""
    if secret.unseal(PAPERS, await read_paper(peers, settings)) is None:
        raise SettingsError(
            f"{settings.cluster.secret_in(settings.data)} is not the secret of the cluster '{settings.cluster.name}' "
            "on these NATS servers, but of another one: correct server.store and cluster.name, or have an empty data "
            "directory join this cluster by `recapito cluster join`."
        )


def make_papers(settings: Settings) -> dict[str, bytes]:
    """The keys that all nodes must share; missing ones are made."""
    access.prepare_identity(settings)
    access.make_status_access(settings)
    access.prepare_tls(settings)
    keep(settings.connection_key, lambda: os.urandom(KEY_BYTES))
    found = {name: settings.data / name for name in _SHARED} | {_CONNECTION_KEY: settings.connection_key}
    return {name: path.read_bytes() for name, path in found.items() if path.exists()}


def write_papers(settings: Settings, papers: dict[str, bytes]) -> None:
    """Write the shared keys. A directory that has others belongs to another server."""
    paths = {
        name: settings.connection_key if name == _CONNECTION_KEY else settings.data / name
        for name in papers
        if name in (*_SHARED, _CONNECTION_KEY)
    }
    for name, path in paths.items():
        if path.exists() and path.read_bytes() != papers[name]:
            raise SettingsError(f"{path} is the key of another server: choose an empty data directory for this node.")
    for name, path in paths.items():
        if not path.exists():
            write(path, papers[name])


class ClusterState(NamedTuple):
    """The whole cluster at one moment."""

    leases: Sequence[LeaseSeen]  # of each partition
    members: Sequence[Sighting]
    streams: list[dict[str, object]]
    servers: list[dict[str, object]]

    def show(self) -> dict[str, object]:
        """Plain data for people and programs."""
        owners = [seen.lease.holder if seen.lease else "" for seen in self.leases]
        return {
            "owner": owners[0] if len(set(owners)) == 1 else "",
            "partitions": [{"partition": number, "owner": owner} for number, owner in enumerate(owners)],
            "members": [
                {
                    "name": seen.member.name,
                    "state": seen.member.state,
                    "url": seen.member.url,
                    "version": seen.member.version,
                    "behind": seen.member.behind,
                    "clock": clock_problem(seen) or "ok",
                }
                for seen in self.members
            ],
            "streams": self.streams,
            "servers": self.servers,
        }


async def status(settings: Settings) -> ClusterState:
    """Ask peers, streams and monitors."""
    async with open_peers(settings) as peers, open_partitions(settings) as every:
        try:
            leases, members = [await peers.lease(each.number) for each in every], await peers.members()
        except PeersFailed as error:
            raise SettingsError(str(error)) from error
        shown = []
        for stream in (stream for streams in every.values() for stream in (streams.log, streams.lanes)):
            try:
                state = await asyncio.to_thread(stream.state)
            except (StreamMissing, StreamUnknown) as error:
                raise SettingsError(str(error)) from error
            fill = round(100 * state.bytes / state.max_bytes, 1) if state.max_bytes else 0
            behind = [replica.server for replica in state.replicas if not replica.current]
            shown.append(
                {
                    "name": stream.name,
                    "first": state.first,
                    "last": state.last,
                    "bytes": state.bytes,
                    "fillPercent": fill,
                    "leader": state.leader,
                    "replicas": [replica.server for replica in state.replicas],
                    "behind": behind,
                }
            )
        servers: list[dict[str, object]] = []
        for url, told in (await ask_all(settings)).items():
            if isinstance(told, str):
                servers.append({"monitor": url, "answers": False, "problem": told})
            else:
                lacks = {name: copy.missing for name, copy in told.copies.items() if copy.missing}
                servers.append({"monitor": url, "answers": True, "syncsEachCommit": told.syncs, "lacks": lacks})
        return ClusterState(leases, members, shown, servers)


async def drain(settings: Settings, node: str, undo: bool, wait_s: float) -> bool:
    """Have a node hand over and stand by (or try again), and wait until it does. False: it has not in time."""
    wanted = ("drained",) if not undo else ("standby", "claiming", "owner")
    async with open_peers(settings) as peers:
        try:
            id = await _find(peers, node)
            if id is None:
                raise SettingsError(f"There is no living node named '{node}': see `recapito cluster status`.")
            await peers.ask_to_drain(id, not undo)
            for _ in range(int(wait_s * 4)):
                states = {seen.member.name: seen.member.state for seen in await peers.members()}
                if states.get(node) in wanted:
                    return True
                await asyncio.sleep(0.25)
        except PeersFailed as error:
            raise SettingsError(str(error)) from error
    return False


async def _find(peers: NatsPeers, node: str) -> str | None:
    """The id of a living node. One look is a hint: a busy node may be late, and a server behind the others."""
    for _ in range(_LOOKS):
        for seen in await peers.members():
            if seen.member.name == node:
                return seen.member.id
        await asyncio.sleep(0.25)
    return None


class Moved(NamedTuple):
    """The digests of both files, before and after."""

    before: dict[str, Digest]
    after: dict[str, Digest]

    @property
    def equal(self) -> bool:
        return self.before == self.after


async def move_in(settings: Settings, source: Path, sizes: StreamSizes, progress: Callable[[str], None]) -> Moved:
    """Move an embedded store into a new cluster. The source stays as it is; this node's directory gets a copy."""
    check_empty(settings.data)
    await SqliteBackend(sqlite_options(with_data(settings, source))).prepare()  # of this version, and sound
    progress(f"copying {source}")
    copy_stores(source, settings.data)
    for name in (*_SHARED, _CONNECTION_KEY):
        if (source / name).exists():
            write(settings.data / name, (source / name).read_bytes())
    before = digests(source)
    return Moved(before, await found_and_read_back(settings, sizes, progress))


async def found_and_read_back(
    settings: Settings, sizes: StreamSizes, progress: Callable[[str], None]
) -> dict[str, Digest]:
    """Make a cluster out of the files in a directory that was empty, and return the digests of what it then has."""
    try:
        await init(settings, sizes, filled=True)
    except BaseException:
        shutil.rmtree(settings.data)
        raise
    progress("reading the streams back")
    with TemporaryDirectory(dir=settings.data.parent) as beside:
        proof = Path(beside)
        async with open_partitions(settings) as every:
            for partition, streams in every.items():
                await backend_on(with_data(settings, proof), streams, partition=partition).prepare()
            return digests_of(proof, every)


def digests_of(data: Path, partitions: Iterable[Partition]) -> dict[str, Digest]:
    """The digest of each file of all partitions, by its path in the directory."""
    return {
        file_of(partition, file): digest
        for partition in partitions
        for file, digest in digests(directory_of(data, partition)).items()
    }


async def move_out(settings: Settings, target: Path, progress: Callable[[str], None]) -> Moved:
    """Move the store of a cluster whose nodes have stopped into an empty directory, for a server of its own.

    It claims the streams first, so that a node that starts meanwhile is fenced.
    """
    check_empty(target)
    async with open_peers(settings) as peers:
        await check_stopped(peers)
        papers = open_papers(settings, read_secret(settings), await read_paper(peers, settings))
    there = with_data(settings, target)
    progress("reading the streams")
    async with open_streams(settings) as streams:
        backend = backend_on(there, streams)
        try:
            await backend.prepare()
            await backend.claim()
        except StoreFailed as error:
            raise SettingsError(f"The streams cannot be read: {error}. Try again with an empty directory.") from error
    before = noted_digests(target)
    forget_streams(target)
    write_papers(there, papers)
    return Moved(before, digests(target))


async def check_stopped(peers: NatsPeers) -> None:
    """Refuse a cluster whose nodes run."""
    try:
        living = [seen.member.name for seen in await peers.members()]
    except PeersFailed as error:
        raise SettingsError(str(error)) from error
    if living:
        raise SettingsError(f"The nodes {', '.join(living)} run: stop all nodes of the cluster first.")


@asynccontextmanager
async def open_streams(settings: Settings) -> AsyncIterator[JetStreamStreams]:
    """The streams of a cluster of one partition."""
    async with open_partitions(settings) as every:
        if len(every) > 1:
            raise SettingsError(
                f"This cluster has {len(every)} partitions, and only a store of one partition moves out: take a backup "
                "by `recapito cluster backup`; `recapito restore` makes a server of each partition's directory in it. "
                "Or move the resources by `recapito export --secrets` and `recapito apply`."
            )
        yield every[WHOLE]


@asynccontextmanager
async def open_partitions(settings: Settings) -> AsyncIterator[dict[Partition, JetStreamStreams]]:
    """The partitions, in order, and the streams of each."""
    every = await asyncio.to_thread(connect_streams, settings, silent)
    try:
        yield {Partition(number, len(every)): streams for number, streams in enumerate(every)}
    finally:
        await asyncio.to_thread(every[0].close)


def with_data(settings: Settings, data: Path) -> Settings:
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, data=str(data)))
