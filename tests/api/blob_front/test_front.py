"""The front between real sockets: a storage service that is down, hangs up or refuses early, and wrong requests."""

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from recapito.api.blob_front.front import BlobFront
from recapito.api.blob_front.passing import PATIENCE_S, take_head, take_some
from recapito.api.blob_front.storage_service import StorageService
from tests.intake.blob_bench import THERE, Bench, run
from tests.kit.ports import free_port
from tests.sim.loop import SimLoop
from tests.sim.loop import run as simulate

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]
PUT = b"PUT /orders1/box/a.txt HTTP/1.1\r\nHost: h\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: %d\r\n\r\n"
GET = b"GET /favicon.ico HTTP/1.1\r\nHost: h\r\n\r\n"
MADE = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"


class BreakingService(StorageService):
    """A service whose first connection ends with an error of TLS."""

    broken = False

    async def connect(self) -> tuple[StreamReader, StreamWriter]:
        reader, writer = await super().connect()
        if not self.broken:
            self.broken = True
            reader.set_exception(ssl.SSLError("bad record"))
        return reader, writer


@asynccontextmanager
async def fronted(
    bench: Bench, handler: Handler | None, make_service: type[StorageService] = StorageService
) -> AsyncIterator[int]:
    """The port of a front before a storage service that runs `handler` on each connection; None is a service down."""
    connections: set[asyncio.Task[None] | None] = set()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        connections.add(asyncio.current_task())
        assert handler is not None
        with suppress(OSError, EOFError):
            await handler(reader, writer)
            await reader.read()  # to close with bytes unread would take the answer back
        writer.close()

    server = None if handler is None else await asyncio.start_server(serve, "127.0.0.1", 0)
    port = free_port() if server is None else server.sockets[0].getsockname()[1]

    async def no_key(account: str) -> str | None:
        return None

    service = make_service(f"http://127.0.0.1:{port}", no_key, bench.clock, None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = BlobFront(service, bench.reporter(), lambda event, **_: bench.journal.append(event), None)
        serving = asyncio.create_task(front.serve(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            if server is not None:
                server.close()
            await asyncio.gather(*(task for task in connections if task is not None))


async def ask(port: int, sent: bytes) -> bytes:
    """The whole answer to some bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


def test_a_service_that_is_down() -> None:
    """The answer is 502 with the address and the reason; the change was not asked for, and nothing is noted."""

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        async with fronted(bench, None) as port:
            answer = await ask(port, PUT % 1 + b"x")
        assert answer.startswith(b"HTTP/1.1 502") and b"No Azurite answers at http://127.0.0.1:" in answer
        assert bench.journal == ["blob_front.unreachable"] and bench.notes.left() == []

    run(test)


@pytest.mark.parametrize("made", [True, False])
def test_a_service_that_hangs_up(made: bool) -> None:
    """The answer is 502, for the change is in doubt; the blob decides afterwards whether it has an event."""

    async def hang_up(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        async with fronted(bench, hang_up) as port:
            answer = await ask(port, PUT % 1 + b"x")
        assert answer.startswith(b"HTTP/1.1 502") and b"hung up" in answer
        assert len(bench.notes.left()) == 1
        bench.blob = THERE if made else None
        await bench.restart()
        assert len(await bench.events(topic)) == int(made) and bench.notes.left() == []

    run(test)


def test_a_connection_that_breaks() -> None:
    """However it breaks, the change stays in doubt, and is settled before the next change of the same blob."""

    async def make(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(MADE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        async with fronted(bench, make, BreakingService) as port:
            assert await ask(port, PUT % 1 + b"x") == b""
            assert len(bench.notes.left()) == 1
            bench.blob = THERE
            assert (await ask(port, PUT % 1 + b"x")).startswith(b"HTTP/1.1 201")
        assert len(await bench.events(topic)) == 2 and bench.notes.left() == []

    run(test)


def test_a_service_that_refuses_before_the_body_is_there() -> None:
    """Its answer reaches a client that is still uploading; a refused change has no event."""

    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")

    async def test(bench: Bench) -> None:
        topic = await bench.topic("blobs")
        async with fronted(bench, refuse) as port:
            answer = await ask(port, PUT % 10_000_000 + b"x" * 1000)
        assert answer.startswith(b"HTTP/1.1 403") and answer.endswith(b"no")
        assert await bench.events(topic) == [] and bench.notes.left() == []

    run(test)


def test_requests_that_are_none_of_the_blob_service() -> None:
    """HTTP passes, whatever it asks for; bytes that are no HTTP/1.1 are refused at once, and the front goes on."""

    async def answer_all(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        async with fronted(bench, answer_all) as port:
            for wrong in (
                b"\x16\x03\x01\x02\x00\x01",  # TLS, whose client waits for an answer
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"nonsense\r\n\r\n",
                PUT.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost") % 1,
                b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
            ):
                assert (await ask(port, wrong)).startswith(b"HTTP/1.1 400"), wrong[:20]
            for strange in (GET, b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"):
                assert (await ask(port, strange)).startswith(b"HTTP/1.1 404"), strange[:20]
        assert bench.notes.left() == []

    run(test)


def test_an_event_that_cannot_be_stored() -> None:
    """While intake is closed a change is refused before the service sees it, and a read passes."""
    seen: list[bytes] = []

    async def take(reader: StreamReader, writer: StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(MADE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    async def test(bench: Bench) -> None:
        await bench.topic("blobs")
        bench.closed = "The disk is full."
        async with fronted(bench, take) as port:
            answer = await ask(port, PUT % 1 + b"x")
            assert answer.startswith(b"HTTP/1.1 503") and b"The disk is full." in answer and b"Retry-After" in answer
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 201")
        assert seen == [GET]

    run(test)


def test_silence_ends() -> None:
    """A peer that stops within a head or a body is waited for two minutes, not for good."""

    async def test(loop: SimLoop) -> None:
        reader = StreamReader()
        reader.feed_data(b"GET / HT")
        for wait in (take_head(reader), take_some(StreamReader(), 1)):
            began = loop.time()
            with pytest.raises(TimeoutError):
                await wait
            assert loop.time() - began == pytest.approx(PATIENCE_S)

    simulate(1, test)
