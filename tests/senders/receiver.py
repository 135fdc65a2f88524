"""A raw HTTP endpoint on a loopback port, as well-behaved or as hostile as a test wants it."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

from recapito.domain.access.egress import Egress
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import WebHook
from recapito.senders.http.resolver import Resolver
from recapito.senders.http.transfer import CurlReply, Transfer
from recapito.senders.webhook import WebhookExchange, WebhookSender

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
NOON = 1_900_000_000 * 1_000_000_000
"""What the wall clock says in these tests."""


class Request(NamedTuple):
    """One request as it came off the wire."""

    line: str
    headers: dict[str, str]
    body: bytes


class Connection:
    """One accepted connection."""

    def __init__(self, receiver: "Receiver", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._receiver = receiver
        self._reader = reader
        self._writer = writer

    @property
    def dialled(self) -> str:
        """The address that the other side connected to."""
        return str(self._writer.get_extra_info("sockname")[0])

    async def request(self) -> Request | None:
        """The next whole request; None at the end of the connection."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        pairs = [line.partition(":") for line in head[1:-2]]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        request = Request(head[0], headers, await self._reader.readexactly(int(headers.get("content-length", 0))))
        self._receiver.requests.append(request)
        self._receiver.changed.set()
        return request

    async def write(self, data: bytes) -> None:
        """Send some bytes."""
        self._writer.write(data)
        await self._writer.drain()

    def half_close(self) -> None:
        """End our direction, and go on reading."""
        self._writer.write_eof()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        plug = self._writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def ended(self) -> None:
        """Return when the other side has gone."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read()


Handler = Callable[[Connection], Awaitable[None]]


def answering(*answers: bytes) -> Handler:
    """Answer each request of each connection with the next of these bytes, the last of them forever."""
    remaining = list(answers)

    async def handle(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.write(remaining.pop(0) if len(remaining) > 1 else remaining[0])

    return handle


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {code} Whatever", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def saying_where(connection: Connection) -> None:
    """Answer one request with the address that was dialled, in the body of a failure, and close."""
    await connection.request()
    await connection.write(status(500, "Connection: close", body=connection.dialled.encode()))


async def silent(connection: Connection) -> None:
    """Take the request and never answer."""
    await connection.request()
    await connection.ended()


class Receiver:
    """The endpoint: counts its connections, keeps the requests, and frees everything at its end."""

    def __init__(
        self, handle: Handler, tls: ssl.SSLContext | None = None, addresses: tuple[str, ...] = ("127.0.0.1",)
    ) -> None:
        self._handle = handle
        self._tls = tls
        self._addresses = addresses
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.open = 0
        self.requests: list[Request] = []
        self.changed = asyncio.Event()

    async def until(self, fact: Callable[["Receiver"], object]) -> None:
        """Return when something is true of this endpoint's connections and requests."""
        async with asyncio.timeout(15):
            while not fact(self):
                self.changed.clear()
                await self.changed.wait()

    async def __aenter__(self) -> Self:
        self.port = 0
        for address in self._addresses:
            server = await asyncio.start_server(self._accept, address, self.port, ssl=self._tls, backlog=4096)
            self.port = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return self.at("127.0.0.1")

    def at(self, host: str) -> str:
        """The URL with another host in it."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/hook"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        self.changed.set()
        try:
            await self._handle(Connection(self, reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self.changed.set()
            self._tasks.discard(task)
            writer.transport.abort()


def batch(
    body: bytes = b'[{"id":"1"}]', attempts: int = 0, version: str | None = "1.0", id: str | None = "e1"
) -> Batch:
    """A batch of one event."""
    return Batch("orders-hook", body, 1, attempts, version, id)


class Posting:
    """Posts batches with a webhook sender."""

    def __init__(self, sender: WebhookSender) -> None:
        self.sender = sender

    def start(self, url: str, sent: Batch | None = None) -> tuple[WebhookExchange, asyncio.Future[Outcome]]:
        """Start an exchange: it, and what will be its answer."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        return self.sender.send(WebHook(url=url), sent or batch(), answer.set_result), answer

    async def __call__(self, url: str, sent: Batch | None = None) -> Outcome:
        """The answer of one exchange."""
        async with asyncio.timeout(15):
            return await self.start(url, sent)[1]


@contextlib.asynccontextmanager
async def posting(
    egress: Egress = Egress.LOCAL, ca_file: str | None = None, resolver: Resolver | None = None
) -> AsyncIterator[Posting]:
    """A sender for the length of a test."""
    sender = WebhookSender(egress, ca_file, resolver, now=lambda: NOON)
    try:
        yield Posting(sender)
    finally:
        await sender.close()


class RawPost:
    """A POST straight to the pump, as if all judgement before it had been fooled."""

    method = "POST"
    kept_bytes = 4096

    def __init__(self, url: str, resolve: str | None) -> None:
        self.url = url
        self.headers = ["Accept:"]
        self.body = b"[]"
        self.resolve = resolve
        self.over = False
        self.transfer: Transfer | None = None
        self.reply: asyncio.Future[CurlReply] = asyncio.get_running_loop().create_future()

    def finish(self, reply: CurlReply) -> None:
        self.reply.set_result(reply)


def names(**addresses: str) -> Resolver:
    """A resolver that knows these names only; dots in a name are written as underscores."""
    table = {name.replace("_", "."): found.split() for name, found in addresses.items()}

    def lookup(host: str) -> list[str]:
        if host not in table:
            raise OSError("Name or service not known")
        return table[host]

    return Resolver(lookup)
