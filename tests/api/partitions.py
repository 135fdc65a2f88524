"""A cluster of several partitions in one process: servers in memory on free ports, and the router in front of them."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from recapito.api.router.forward import Forwarder
from recapito.api.router.partitions import PartitionRouter
from recapito.api.server.protocol import HttpProtocol
from recapito.domain.cluster.partition import Partition, home_of
from recapito.domain.connections.connection import Connection
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.process.app_server import AppServer
from tests.api.client import VERSION, Answer, World
from tests.api.router.asking import ask_at

SECRET = ClusterSecret.new()


class Partitions:
    """The servers of all partitions. A URL that is empty is that of a partition without an owner.

    heed: called with the number of a partition and each request to it; an error of it is a failure of the partition.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.urls = [""] * count
        self.heed: Callable[[int, Scope], None] = lambda number, scope: None
        self.worlds: list[World] = []
        self._port = 0

    def forwarders(self) -> list[Forwarder]:
        numbers = range(self.count)
        return [Forwarder(partial(self.urls.__getitem__, number), SECRET, partition=number) for number in numbers]

    def name_in(self, number: int, prefix: str = "topic") -> str:
        """The name of a topic that lives in a partition."""
        return next(name for n in range(999) if home_of(name := f"{prefix}-{n}", self.count) == number)

    async def call(self, method: str, path: str, body: Any = None, token: str = "") -> Answer:
        """One request to the router."""
        content = "" if body is None else json.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content.encode())}"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        found = await ask_at(self._port, "\r\n".join([*lines, "", content]))
        return Answer(found.status, found.headers, found.body)

    async def arm(self, method: str, path: str, body: Any = None) -> Answer:
        return await self.call(method, f"{path}?{VERSION}", body)

    async def estate(self, document: Any, **more: Any) -> Answer:
        return await self.call("POST", "/estate", {"document": document, **more})

    async def export(self, query: str = "") -> Any:
        """The whole estate, with secrets."""
        found = await self.call("POST", f"/estate/export{query}", {})
        assert found.status == 200, found.body
        return found.json

    @asynccontextmanager
    async def serve(self, **options: Any) -> AsyncIterator["Partitions"]:
        async with AsyncExitStack() as opened:
            for number in range(self.count):
                world = World(
                    estate=True,
                    partition=Partition(number, self.count),
                    forwarders=self._open(opened),
                    find_connection=partial(self._find, number),
                    **options,
                )
                self.worlds.append(await opened.enter_async_context(world))
                port = await opened.enter_async_context(_serve(self._watched(number, world.app)))
                self.urls[number] = f"http://127.0.0.1:{port}"
            router = PartitionRouter(self.forwarders(), SECRET)
            opened.push_async_callback(router.close)
            self._port = await opened.enter_async_context(_serve(router))
            yield self

    def _open(self, opened: AsyncExitStack) -> Callable[[], Sequence[Forwarder]]:
        def open_forwarders() -> list[Forwarder]:
            made = self.forwarders()
            for forwarder in made:
                opened.push_async_callback(forwarder.close)
            return made

        return open_forwarders

    async def _find(self, number: int, resource_id: str) -> Connection | None:
        estate = self.worlds[number].estate
        return None if estate is None else await estate.parts.keyring.find(resource_id)

    def _watched(self, number: int, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            self.heed(number, scope)
            await app(scope, receive, send)

        return watched


@asynccontextmanager
async def _serve(app: ASGIApp) -> AsyncIterator[int]:
    """Serve an application on a free port."""
    server = AppServer(app, partial(HttpProtocol, client_of=_client_of))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.stop()
            await serving


def _client_of(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    signed = next((value for name, value in headers if name == FORWARDED), None)
    return None if signed is None else SECRET.verify(signed, int(time.time()))
