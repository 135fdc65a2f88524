"""HTTP over real sockets, from callers who are old, new, slow or hostile."""

import asyncio
from collections.abc import Callable

import pytest

from recapito.domain import limits
from recapito.process.http_server import HttpServer
from tests.api.client import World
from tests.api.server.raw_http import EVENT, GET, Line, answer, publish, talk, talk_in

OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"


def offering(request: bytes) -> bytes:
    """A request with the offer to speak HTTP/2, as Java's client and `curl --http2` make it on every first request."""
    return request.replace(b"\r\n", b"\r\n" + OFFER, 1)


def chunked(key: str, body: bytes, trailers: bytes = b"") -> bytes:
    """A publish whose body comes in chunks."""
    head = f"POST /topics/orders/api/events HTTP/1.1\r\nHost: 127.0.0.1\r\naeg-sas-key: {key}\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:9], body[9:]))
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (chunks, trailers)


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_an_offer_to_upgrade_is_declined_and_the_request_is_answered(pieces: int) -> None:
    """The body of a request that offers HTTP/2 arrives, in one piece or several, and the connection goes on."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        body = b"[%b]" % (EVENT % 1)
        for request in (publish(key, 1), chunked(key, body), publish(key, 2) + GET + publish(key, 3), GET):
            whole = offering(request)
            size = -(-len(whole) // pieces)
            for start in range(0, len(whole), size):
                writer.write(whole[start : start + size])
                await asyncio.sleep(0.01)
            for _ in range(whole.count(b" HTTP/1.1\r\n")):
                assert (await answer(reader))[0] == 200
        writer.write(publish(key, 4))
        assert await answer(reader) == (200, b"")

    assert talk(conversation) == 5


def test_offers_are_taken_out_of_habit_too() -> None:
    """A client that offers an upgrade with every request is served like any other."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        for id in range(5):
            writer.write(offering(publish(key, id)) * (1 + id % 2))
            for _ in range(1 + id % 2):
                assert await answer(reader) == (200, b"")

    assert talk(conversation) == 7


@pytest.mark.parametrize("requests", [1, 2, 5])
@pytest.mark.parametrize("express", [True, False])
def test_who_sends_no_more_gets_what_they_asked_for(requests: int, express: bool) -> None:
    """A caller that half-closes after its requests, as `nc -N` does, gets every answer, and then the end."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        for id in range(requests):
            writer.write(publish(key, id) if express else chunked(key, b"[%b]" % (EVENT % id)))
        writer.write_eof()
        for _ in range(requests):
            assert await answer(reader) == (200, b"")
        assert await reader.read() == b""

    assert talk(conversation) == requests


@pytest.mark.parametrize("missing", [3, 150])
def test_half_a_request_gets_no_answer(missing: int) -> None:
    """The rest of its head or body will never come: the connection ends, after the answers to those before it."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(publish(key, 1))
        assert await answer(reader) == (200, b"")
        writer.write(publish(key, 2)[:-missing])
        writer.write_eof()
        assert await reader.read() == b""

    assert talk(conversation) == 1


def test_nobody_is_connected_elsewhere() -> None:
    """CONNECT is refused, and the connection ends: what follows would be no HTTP."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(b"CONNECT /topics/orders/api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + publish(key, 1))
        assert (await answer(reader))[0] == 405
        assert await reader.read() == b""

    assert talk(conversation) == 0


@pytest.mark.parametrize("whole", [True, False])
def test_trailers_are_no_headers(whole: bool) -> None:
    """A key behind the body opens nothing and spoils nothing, however the request arrives."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        body = b"[%b]" % (EVENT % 1)
        for request, status in (
            (chunked("wrong", body, f"aeg-sas-key: {key}\r\n".encode()), 401),
            (chunked(key, body, b"aeg-sas-key: wrong\r\nContent-Type: text/plain\r\n"), 200),
            (GET + chunked(key, body, b"aeg-sas-key: wrong\r\n"), 200),
        ):
            for piece in (request,) if whole else (request[:-40], request[-40:]):
                writer.write(piece)
                await asyncio.sleep(0.01)
            for _ in range(request.count(b" HTTP/1.1\r\n")):
                assert (await answer(reader))[0] == status

    assert talk(conversation) == 2


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 1000),
        (b"GET /healthz HTTP/1.1\r\nHost: ", b"a" * 1000),
        (b"GET /healthz HTTP/1.1\r\n", b"a: b\r\n" * 100),
        (b"POST /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 100),
        (b"", b"\r\n" * 500),
    ],
)
@pytest.mark.parametrize("pace", [1, 200])
def test_a_head_that_does_not_end_is_refused(start: bytes, more: bytes, pace: int) -> None:
    """A client that sends a head or trailers without end is cut off before they fill the memory, at any pace."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(start)
        sent = 0
        while not reader.at_eof() and sent < 100 * limits.HEAD_BYTES:
            writer.write(more * pace)
            sent += len(more) * pace
            await asyncio.sleep(0)
            if writer.transport.is_closing():
                break
        assert sent < 100 * limits.HEAD_BYTES

    assert talk(conversation) == 0


@pytest.mark.parametrize(("length", "status"), [(limits.HEAD_BYTES - 1000, 200), (limits.HEAD_BYTES, 431)])
@pytest.mark.parametrize("pieces", [1, 3])
def test_the_limit_of_a_head_is_the_same_however_it_arrives(length: int, status: int, pieces: int) -> None:
    """A long head is taken, and one that is longer than the limit is refused with words that say so."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        request = publish(key, 1).replace(b"\r\n", b"\r\nX-Long: %b\r\n" % (b"a" * length), 1)
        size = -(-len(request) // pieces)
        for start in range(0, len(request), size):
            writer.write(request[start : start + size])
            await asyncio.sleep(0.02)
        got, said = await answer(reader)
        assert got == status and (got == 200 or b"longer than 65536 bytes" in said)

    assert talk(conversation) == (status == 200)


def test_what_is_stored_is_not_answered_with_the_fault_of_what_follows() -> None:
    """A publish that is followed by something that is no request is answered; then the connection ends."""

    async def conversation(line: Line, key: str) -> None:
        reader, writer = line
        writer.write(publish(key, 1) + GET + publish(key, 2) + b"nonsense\r\n\r\n")
        for _ in range(3):
            assert (await answer(reader))[0] == 200
        assert await reader.read() == b""

    assert talk(conversation) == 2


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\n", publish("wrong", 1)[:-5]])
def test_a_connection_that_asks_nothing_ends(sent: bytes) -> None:
    """Silence, half a head, or the missing rest of an answered request does not hold a connection forever."""

    async def conversation(line: Line, key: str, _: World) -> None:
        reader, writer = line
        writer.write(sent)
        await reader.read()

    assert talk_in(conversation, keep_alive_s=0.2) == 0


def test_a_head_that_trickles_in_ends_with_the_connection() -> None:
    """Bytes that come in time do not prolong the time that a head may take."""

    async def conversation(line: Line, key: str, _: World) -> None:
        reader, writer = line
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        ended = asyncio.create_task(reader.read())
        while not ended.done():
            writer.write(b"a: b\r\n")
            await asyncio.sleep(0.05)
        assert await ended == b""

    assert talk_in(conversation, keep_alive_s=0.3) == 0


class Deaf(asyncio.Transport):
    """The line to a client that takes no answers; `written` is what it was given all the same."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connect(server: HttpServer) -> tuple[asyncio.Protocol, Deaf]:
    """A connection without sockets."""
    protocol: asyncio.Protocol = server.config.http_protocol_class(  # type: ignore[assignment, call-arg]
        config=server.config, server_state=server.server_state, app_state={}
    )
    line = Deaf()
    protocol.connection_made(line)
    return protocol, line


def test_answers_that_nobody_takes_are_not_piled_up() -> None:
    """While a client takes no answers none are written, be they to requests out of habit or to others."""

    async def run() -> None:
        async with World() as world:
            key = (await world.topic()).key1
            await world.topics.find("orders")
            protocol, line = connect(HttpServer(world.surface))
            protocol.data_received(publish(key, 1))
            await until(lambda: line.written.count(b"200 OK") == 1)
            protocol.pause_writing()
            protocol.data_received(publish(key, 2))
            await until(lambda: world.publisher.stats.publishes == 2)
            for id in range(3, 6):
                protocol.data_received(publish(key, id))
            await asyncio.sleep(0.05)
            assert (line.written.count(b"200 OK"), world.publisher.stats.publishes) == (1, 2)
            protocol.resume_writing()
            await until(lambda: line.written.count(b"200 OK") == 5)

    asyncio.run(run())


async def until(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.001)


def test_a_conversation_is_answered_alike_wherever_it_is_cut() -> None:
    """Requests of all kinds, cut in two at every single byte, get the same answers in the same order."""

    async def run() -> None:
        async with World() as world:
            key = (await world.topic()).key1
            await world.topics.find("orders")
            server = HttpServer(world.surface)
            body = b"[%b]" % (EVENT % 1)
            talked = [
                publish(key, 1),
                GET,
                chunked(key, body, b"a: b\r\n"),
                offering(publish(key, 2)),
                publish("no", 3),
            ]
            whole = b"".join([*talked, offering(chunked(key, body)), publish(key, body=b"[{}]"), publish(key, 4)])
            for cut in range(1, len(whole)):
                protocol, line = connect(server)
                protocol.data_received(whole[:cut])
                await asyncio.sleep(0)
                protocol.data_received(whole[cut:])
                await until(lambda line=line: line.written.count(b"HTTP/1.1 ") == 8)  # type: ignore[misc]
                statuses = [int(part[:3]) for part in line.written.split(b"HTTP/1.1 ")[1:]]
                assert statuses == [200, 200, 200, 200, 401, 200, 400, 200], cut
                protocol.connection_lost(ConnectionResetError())

    asyncio.run(run())
