"""Bytes on a connection: the whole HTTP surface behind a transport that only remembers what was written to it.

Whatever comes in, nothing is raised, and what goes out is a row of whole HTTP responses, none of which is a 5xx.
"""

import asyncio
import re
from typing import Any

from recapito.process.http_server import HttpServer
from tests.api.client import World
from tests.fuzz.wrong import Wrong

TURNS = 12  # of the loop, after each piece: a publish is committed and answered in fewer
RENEWED_AFTER = 2000  # connections; a store in memory keeps what was published
_HEAD = re.compile(rb"HTTP/1\.1 ([1-5]\d\d)[^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
_LENGTH = re.compile(rb"(?i)^content-length: *(\d+)\r$", re.MULTILINE)
_CHUNKED = re.compile(rb"(?i)^transfer-encoding: *chunked\r$", re.MULTILINE)
BODY = b'[{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","data":{},"dataVersion":"1"}]'
KEY = b"{KEY}"  # replaced by the topic's key


class Transport(asyncio.Transport):
    """Remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        """Pieces that are here are given anyway."""

    def resume_reading(self) -> None:
        """As above."""


class Surface:
    """A running intake in memory, and a loop for it; made anew now and then."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        self._unhandled: list[str] = []
        self._left = 0
        self._world: World | None = None

    def talk(self, pieces: list[bytes]) -> bytes:
        """The answers on one connection that sends these pieces."""
        written = self._loop.run_until_complete(self._talk(pieces))
        if self._unhandled:
            raise Wrong(f"nobody handled {self._unhandled.pop()}")
        return written

    async def _talk(self, pieces: list[bytes]) -> bytes:
        if self._left == 0:
            await self._renew()
        self._left -= 1
        protocol = self._server.config.http_protocol_class(
            config=self._server.config, server_state=self._server.server_state, app_state={}
        )
        transport = Transport()
        protocol.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                protocol.data_received(piece.replace(KEY, self._key))
            for _ in range(TURNS):
                await asyncio.sleep(0)
        protocol.connection_lost(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if protocol.timeout_keep_alive_task is not None:
            protocol.timeout_keep_alive_task.cancel()
        return bytes(transport.written)

    async def _renew(self) -> None:
        if self._world is not None:
            await self._world.__aexit__(None, None, None)
        self._world = World()
        await self._world.__aenter__()
        self._key = (await self._world.topic()).key1.encode()
        await self._world.topics.find("orders")
        self._server = HttpServer(self._world.surface)
        self._left = RENEWED_AFTER

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._unhandled.append(f"{context.get('message')} {context.get('exception')!r}")


_surface: list[Surface] = []


def http(data: bytes) -> None:
    """A connection; a line of two bars is where one piece ends and the next begins."""
    if not _surface:
        _surface.append(Surface())
    check_responses(_surface[0].talk(data.split(b"||")))


def check_responses(left: bytes) -> None:
    """Raise Wrong unless these are whole responses, none of them an error of ours."""
    while left:
        head = _HEAD.match(left)
        if head is None:
            raise Wrong(f"this is no response: {left[:200]!r}")
        if head[1].startswith(b"5") and head[1] not in (b"501", b"505"):
            raise Wrong(f"a caller made us fail: {left[:500]!r}")
        left = left[head.end() :]
        length = _LENGTH.search(head[2])
        if left.startswith(b"HTTP/1.1 "):
            continue  # an answer to HEAD has no body, whatever its length says
        if length:
            left = left[int(length[1]) :]
        elif _CHUNKED.search(head[2]) or not head[1].startswith((b"1", b"204", b"304")):
            return  # what follows is not counted here


def _request(head: bytes, body: bytes = b"") -> bytes:
    return head + b"Host: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


_POST = b"POST /topics/orders/api/events HTTP/1.1\r\naeg-sas-key: " + KEY + b"\r\n"
_CHUNKS = b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nA: b\r\n\r\n" % (len(BODY), BODY)
_VERSION = b"api-version=2022-06-15"
SEEDS = (
    _request(b"GET /healthz HTTP/1.1\r\n"),
    _request(b"GET /metrics HTTP/1.0\r\n") + b"||",
    _request(_POST, BODY),
    _request(_POST, BODY) * 2 + b"||" + _request(_POST, BODY),
    _POST + _CHUNKS,
    _request(_POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n", BODY),
    _request(_POST + b"Expect: 100-continue\r\n") + b"||" + BODY,
    _request(_POST, BODY)[:90] + b"||" + _request(_POST, BODY)[90:],
    _request(
        b"PUT /subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/x?" + _VERSION + b" HTTP/1.1\r\n",
        b"{}",
    ),
    _request(b"OPTIONS * HTTP/1.1\r\n"),
    _request(b"CONNECT a:1 HTTP/1.1\r\n"),
)
WORDS = (
    b"||",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Authorization: Bearer a.b.c\r\n",
    b" HTTP/1.1\r\n",
    b"\r\n\r\n",
    b"%2e%2e/",
    b"?" + _VERSION,
)
