"""Runs a node of a cluster: puts its parts together, from the settings, and keeps it until it is stopped."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import monotonic_ns

from recapito.clock import SystemClock
from recapito.composition.cluster import (
    backend_on,
    connect_streams,
    copies_of,
    hold_directory,
    open_peers,
    stream_formats,
)
from recapito.composition.cluster_secret import read_secret
from recapito.composition.cluster_setup import check_secret
from recapito.composition.partition_paths import socket_of
from recapito.composition.replicas import make_inspection
from recapito.contracts.stream import StreamMissing, StreamUnknown
from recapito.domain.cluster.partition import Partition
from recapito.domain.cluster.view import StreamCopy
from recapito.observability.journal import Journal
from recapito.process.keeper import KeeperParts
from recapito.process.node import Node, NodeParts, RouterRole
from recapito.process.node_roles import OwningRoles, StandbyRole, WholeRoles, listen_inside
from recapito.settings.settings import Settings
from recapito.stores.jetstream.streams import JetStreamStreams
from recapito.stores.replicated.backend import ReplicatedBackend
from recapito.system.hang_up import on_hang_up

THREADS, THREADS_OF_PARTITION = 4, 3  # a partition follows two streams, or claims, and is measured


async def run_node(
    settings: Settings,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
    journal: Journal,
) -> None:
    """Run a node until `stopping` is set."""
    secret = read_secret(settings)
    async with open_peers(settings, journal) as peers:
        every = await asyncio.to_thread(connect_streams, settings, journal)
        try:
            await check_secret(settings, secret, peers)  # before anything of this node is shown to the cluster
            threads = ThreadPoolExecutor(THREADS + THREADS_OF_PARTITION * len(every))
            asyncio.get_running_loop().set_default_executor(threads)
            async with _roles(settings, listener, on_ready, journal, len(every)) as (roles, router):
                if settings.estate.file:
                    on_hang_up(partial(_reload, roles), stopping.set)
                keepers = [
                    _keeper(settings, streams, roles[number], Partition(number, len(every)), journal)
                    for number, streams in enumerate(every)
                ]
                parts = NodeParts(
                    settings.cluster.node_name,
                    settings.node_url,
                    stream_formats(),
                    peers,
                    keepers,
                    SystemClock(),
                    monotonic_ns,
                    journal,
                    make_inspection(settings),
                    router,
                )
                await Node(parts).run(stopping)
        finally:
            await asyncio.to_thread(every[0].close)


def _reload(roles: Sequence[WholeRoles | OwningRoles]) -> None:
    for each in roles:
        each.reload()


def _keeper(
    settings: Settings,
    streams: JetStreamStreams,
    roles: WholeRoles | OwningRoles,
    partition: Partition,
    journal: Journal,
) -> KeeperParts:
    backend = backend_on(settings, streams, journal, partition=partition)
    return KeeperParts(backend, roles, _copies_now(backend, streams), partition)


def _copies_now(backend: ReplicatedBackend, streams: JetStreamStreams) -> Callable[[], Awaitable[Sequence[StreamCopy]]]:
    async def copies_now() -> list[StreamCopy]:
        try:
            return await asyncio.to_thread(copies_of, backend, streams)
        except (StreamUnknown, StreamMissing):
            return []

    return copies_now


@asynccontextmanager
async def _roles(
    settings: Settings,
    listener: socket.socket,
    on_ready: Callable[[], None],
    journal: Journal,
    partitions: int,
) -> AsyncIterator[tuple[Sequence[WholeRoles | OwningRoles], RouterRole | None]]:
    """The roles of each partition, and the router of several."""
    async with AsyncExitStack() as opened:
        if partitions == 1:
            whole = WholeRoles(settings, listener, journal, on_ready)
            opened.push_async_callback(whole.close)
            yield [whole], None
            return
        every = []
        opened.enter_context(hold_directory(settings.data))
        for number in range(partitions):
            inside = opened.enter_context(listen_inside(socket_of(settings.data, number)))
            roles = OwningRoles(settings, inside, journal, partition=Partition(number, partitions))
            opened.push_async_callback(roles.close)
            every.append(roles)
        router = StandbyRole(settings, listener, journal, on_ready, partitions)
        opened.callback(router.close)
        yield every, router
