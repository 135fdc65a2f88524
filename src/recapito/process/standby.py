"""The standby role: it serves HTTP by forwarding, for a node that does not own, or for all partitions of several.

It is a process of its own, which alone loads the HTTP client of the router.
"""

import asyncio
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.types import ASGIApp

from recapito.api.router.app import make_router, make_standby
from recapito.api.router.forward import Forwarder
from recapito.api.router.histories import HistoryDesk
from recapito.api.router.partitions import PartitionRouter
from recapito.api.server.protocol import HttpProtocol
from recapito.composition import identity as access
from recapito.composition.cluster_secret import make_client_of, read_secret
from recapito.composition.crossing import make_forwarders, open_history
from recapito.domain.cluster.view import ClusterView
from recapito.process.app_server import AppServer
from recapito.process.node_link import NodeLink
from recapito.process.role_config import RoleConfig
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.system.service import ServiceTask, run_configured, run_services, stop_order

ORDERED_S = 0.005  # for an order to stop that came before this process was loaded


def run_standby() -> int:
    """Run the role as its parent configures it, and return the exit code."""

    def start(config: RoleConfig) -> Coroutine[Any, Any, None]:
        return _run(settings_module.from_tree(config.settings), config)

    return run_configured(RoleConfig, start)


async def _run(settings: Settings, config: RoleConfig) -> None:
    link = NodeLink(config.node, settings.cluster.node_name)
    histories = HistoryDesk(partial(open_history, settings, config.partitions), config.partitions)
    forwarder, app = _make_app(settings, link, config.partitions, histories)
    link.listen(forwarder.owner_changed)
    server = AppServer(app, partial(HttpProtocol, client_of=make_client_of(settings)), access.make_tls(settings))

    async def finish(task: "asyncio.Task[None]") -> None:
        server.stop()

    def on_ready() -> None:
        with suppress(OSError):
            os.write(config.ready, b"standby\n")

    listener = socket.socket(fileno=config.listener)
    stop = asyncio.create_task(stop_order())
    try:
        if not (await asyncio.wait({stop}, timeout=ORDERED_S))[0]:  # otherwise the node owns already, on this socket
            await run_services([ServiceTask(lambda: server.serve(sockets=[listener]), finish)], stop, on_ready)
    finally:
        await forwarder.close()
        await histories.close()


def _make_app(
    settings: Settings, link: NodeLink, partitions: int, histories: HistoryDesk
) -> tuple[Forwarder | PartitionRouter, ASGIApp]:
    secret, status = read_secret(settings), access.make_status_access(settings)
    if partitions == 1:
        forwarder = Forwarder(lambda: _owner_url(link.view), secret, access.make_node_tls(settings))
        return forwarder, make_standby(forwarder, lambda: link.view, status, histories)
    router = PartitionRouter(make_forwarders(settings, lambda: link.view, partitions), secret)
    return router, make_router(router, lambda: link.view, status, histories)


def _owner_url(view: ClusterView) -> str:
    """The owner's URL, unless this node itself is about to own: then nothing is forwarded."""
    return view.owner_url if view.owner != view.node else ""
