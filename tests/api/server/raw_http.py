"""Requests as bytes on a connection of the test's own, and their answers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from recapito.process.http_server import HttpServer
from recapito.stores.memory import MemoryLog
from tests.api.client import World

EVENT = b'{"id":"%d","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":{}}'
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def publish(key: str, *ids: int, close: bool = False, topic: str = "orders", body: bytes | None = None) -> bytes:
    """A publish request as bytes."""
    body = b"[%b]" % b",".join(EVENT % id for id in ids) if body is None else body
    head = f"POST /topics/{topic}/api/events HTTP/1.1\r\nHost: 127.0.0.1\r\naeg-sas-key: {key}\r\n"
    head += f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "")
    return head.encode() + b"\r\n" + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One response: its status and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in head.split(b"\r\n")[1:]}
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(fields.get(b"content-length", b"0")))


def talk(conversation: Callable[[Line, str], Awaitable[None]], log: MemoryLog | None = None) -> int:
    """Serve on a free port and let a client talk over one connection; how many publishes were stored."""
    return talk_in(lambda line, key, _: conversation(line, key), log)


def talk_in(
    conversation: Callable[[Line, str, World], Awaitable[None]],
    log: MemoryLog | None = None,
    keep_alive_s: float = 75,
) -> int:
    """As `talk`, for one who looks behind the scenes too."""

    async def run() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with World(log) as world:
                key = (await world.topic()).key1
                await world.topics.find("orders")
                server = HttpServer(world.surface)
                server.config.timeout_keep_alive = keep_alive_s  # type: ignore[assignment] # any number will do
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                line = await asyncio.open_connection(*listener.getsockname())
                try:
                    await asyncio.wait_for(conversation(line, key, world), 10)
                finally:
                    line[1].close()
                    server.stop()
                    await serving
                return world.publisher.stats.publishes

    return asyncio.run(run())
