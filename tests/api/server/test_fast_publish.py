"""The express lane, over real sockets: what it takes and what it hands on is answered alike, in order."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from recapito.errors import StoreFailed
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
                await world.provisioner.find_topic("orders")
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


def test_pipelined_requests_are_answered_in_order() -> None:
    """Publishes and other requests sent in one go are each answered, in their order."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(publish(key, 1) + GET + publish(key, 2) + publish("wrong", 3) + publish(key, 4) + GET)
        statuses = [(await answer(reader))[0] for _ in range(6)]
        assert statuses == [200, 200, 200, 401, 200, 200]

    assert talk(conversation) == 3


def test_a_request_in_pieces_is_taken() -> None:
    """A body that arrives in pieces is published like any other, and the connection goes on."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        whole = publish(key, 1, 2, 3)
        for piece in (whole[:30], whole[30:150], whole[150:200], whole[200:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        assert await answer(reader) == (200, b"")
        writer.write(publish(key, 4))
        assert await answer(reader) == (200, b"")

    assert talk(conversation) == 2


def test_errors_are_those_of_the_ordinary_way() -> None:
    """Wrong key, unknown topic, bad events and a wrong method have their answers, and the connection goes on."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        for request, status, said in (
            (publish("wrong", 1), 401, b"Unauthorized"),
            (publish(key, 1, topic="nobody"), 404, b"NotFound"),
            (publish(key, body=b"[{}]"), 400, b"InputJsonInvalid"),
            (publish(key, body=b""), 400, b"InputJsonInvalid"),
            (publish(key, 1).replace(b"POST", b"PUT", 1), 405, b"MethodNotAllowed"),
        ):
            writer.write(request)
            got, body = await answer(reader)
            assert (got, said in body) == (status, True), body

    assert talk(conversation) == 0


def test_connection_close_is_honoured() -> None:
    """A caller that asks for it gets the answer, then the end of the connection."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(publish(key, 1, close=True))
        assert (await answer(reader))[0] == 200
        assert await reader.read() == b""

    assert talk(conversation) == 1


class _Refusing(MemoryLog):
    """A log whose commits fail."""

    async def append(self, segments: object) -> list[int]:
        raise StoreFailed("the disk is gone")


def test_a_failed_commit_is_a_503() -> None:
    """A publish whose commit failed is told to come again, and counted as failed."""

    async def conversation(line: Line, key: str, world: World) -> None:
        reader, writer = line
        writer.write(publish(key, 1) + GET)
        status, body = await answer(reader)
        assert status == 503 and b"StoreFailed" in body and b"OutcomeUnknown" in body
        assert (await answer(reader))[0] == 200
        assert world.publisher.tallies.of(1).failed == {"ServiceUnavailable": 1}

    assert talk_in(conversation, _Refusing()) == 0


def test_the_host_names_a_topic_on_the_express_lane_too() -> None:
    """A topic by its host name, and one that is asked for in the wrong schema, are answered like any other."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        by_host = (
            publish(key, 1).replace(b"/topics/orders", b"").replace(b"127.0.0.1", b"orders.local-1.eventgrid.azure.net")
        )
        wrong = publish(key, 2).replace(
            b"Content-Length", b"Content-Type: application/cloudevents+json\r\nContent-Length"
        )
        writer.write(by_host)
        assert await answer(reader) == (200, b"")
        writer.write(wrong)
        status, body = await answer(reader)
        assert status == 400 and b"EventGridEvent" in body

    assert talk(conversation) == 1
