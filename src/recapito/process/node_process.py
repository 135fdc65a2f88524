"""Runs a node of a cluster: puts its parts together, from the settings, and keeps it until it is stopped."""

import asyncio
import socket
from collections.abc import Callable
from time import monotonic_ns

from recapito.clock import SystemClock
from recapito.composition.cluster import backend_on, connect_streams, copies_of, open_peers, stored_formats
from recapito.composition.cluster_secret import read_secret
from recapito.composition.replicas import make_inspection
from recapito.contracts.stream import StreamMissing, StreamUnknown
from recapito.domain.cluster.view import StreamCopy
from recapito.observability.journal import Journal
from recapito.process.node import Node, NodeParts
from recapito.process.node_roles import ProcessRoles
from recapito.settings.settings import Settings
from recapito.system.hang_up import on_hang_up


async def run_node(
    settings: Settings,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
    journal: Journal,
) -> None:
    """Run a node until `stopping` is set."""
    read_secret(settings)  # before anything of it is shown to the cluster
    async with open_peers(settings, journal) as peers:
        streams = await asyncio.to_thread(connect_streams, settings, journal)
        backend = backend_on(settings, streams, journal)
        roles = ProcessRoles(settings, listener, journal, on_ready)
        if settings.estate.file:
            on_hang_up(roles.reload, stopping.set)

        async def copies_now() -> list[StreamCopy]:
            try:
                return await asyncio.to_thread(copies_of, backend, streams)
            except (StreamUnknown, StreamMissing):
                return []

        parts = NodeParts(
            settings.cluster.node_name,
            settings.node_url,
            stored_formats(),
            peers,
            backend,
            roles,
            SystemClock(),
            monotonic_ns,
            journal,
            copies_now,
            make_inspection(settings),
        )
        try:
            await Node(parts).run(stopping)
        finally:
            await roles.close()
            await asyncio.to_thread(streams.close)
