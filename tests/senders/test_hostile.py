"""The webhook sender against endpoints that do not keep to HTTP, or to anything."""

import asyncio
import os
import resource
import socket

import pytest

from recapito.domain.delivery.outcome import Outcome, Result
from tests.senders.receiver import OK, Connection, Handler, Receiver, answering, batch, posting, silent, status

HEAD = b"HTTP/1.1 200 OK\r\n"


def saying(data: bytes, then: str = "wait") -> Handler:
    """Take one request, send these bytes, then wait for the other side, close, or reset."""

    async def handle(connection: Connection) -> None:
        await connection.request()
        await connection.write(data)
        if then == "wait":
            await connection.ended()
        elif then == "reset":
            connection.reset()

    return handle


def endless(first: bytes, again: bytes) -> Handler:
    """Take one request and send forever."""

    async def handle(connection: Connection) -> None:
        await connection.request()
        await connection.write(first)
        while True:
            await connection.write(again)

    return handle


async def reset_at_once(connection: Connection) -> None:
    connection.reset()


async def half_close(connection: Connection) -> None:
    await connection.request()
    connection.half_close()
    await connection.ended()


def outcome_from(handle: Handler) -> Outcome:
    """The outcome of one batch to this endpoint; the endpoint must be rid of the connection afterwards."""

    async def main() -> Outcome:
        async with Receiver(handle) as receiver, posting() as post:
            outcome = await post(receiver.url)
            await receiver.until(lambda it: not it.open)
            return outcome

    return asyncio.run(main())


BROKEN = {
    "reset before the request": (reset_at_once, Result.SOCKET_ERROR),
    "reset after the request": (saying(b"", "reset"), Result.SOCKET_ERROR),
    "reset in the status line": (saying(b"HTTP/1.1 20", "reset"), Result.SOCKET_ERROR),
    "reset in the headers": (saying(HEAD + b"Content-Le", "reset"), Result.SOCKET_ERROR),
    "close without an answer": (saying(b"", "close"), Result.SOCKET_ERROR),
    "half-close without an answer": (half_close, Result.SOCKET_ERROR),
    "close in the headers": (saying(HEAD + b"Server: x\r\n", "close"), Result.SOCKET_ERROR),
    "garbage": (saying(b"SSH-2.0-OpenSSH_9.2\r\n", "close"), Result.GENERIC_ERROR),
    "HTTP/0.9": (saying(b"<html>hello</html>", "close"), Result.GENERIC_ERROR),
    "a status that is none": (saying(b"HTTP/1.1 abc OK\r\n\r\n", "close"), Result.GENERIC_ERROR),
    "only interim answers": (saying(b"HTTP/1.1 100 Continue\r\n\r\n", "close"), Result.SOCKET_ERROR),
    "a switch of protocols": (saying(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "close"), Result.SOCKET_ERROR),
    "interim answers without end": (endless(b"", b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"), Result.GENERIC_ERROR),
    "a header line without end": (endless(b"X-Long: ", b"x" * 10_000), Result.GENERIC_ERROR),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_no_answer(fault: str) -> None:
    """Without a whole answer the outcome has no status, and says why."""
    handle, result = BROKEN[fault]
    outcome = outcome_from(handle)
    assert (outcome.result, outcome.status) == (result, None)
    assert outcome.detail


FINAL = {
    "reset in the body": saying(HEAD + b"Content-Length: 100\r\n\r\nabc", "reset"),
    "close in the body": saying(HEAD + b"Content-Length: 100\r\n\r\nabc", "close"),
    "close in a chunk": saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", "close"),
    "a chunk that is none": saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "close"),
    "a body without end": endless(HEAD + b"\r\n", b"x" * 50_000),
    "a body of ten gigabytes": endless(HEAD + b"Content-Length: 10000000000\r\n\r\n", b"x" * 50_000),
    "chunks without end": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000),
    "headers without end": endless(HEAD, b"X-Header: x\r\n" * 1000),
    "huge headers": endless(HEAD, b"X-Header: " + b"x" * 10_000 + b"\r\n"),
    "trailers without end": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: x\r\n" * 100),
    "interim answers first": saying(b"HTTP/1.1 103 Hints\r\n\r\n" * 5 + OK, "close"),
    "more than was announced": saying(HEAD + b"Content-Length: 3\r\n\r\nabcdefgh" + HEAD, "close"),
    "two lengths in disagreement": saying(
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "close"
    ),
    "bare line feeds": saying(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "close"),
}


@pytest.mark.parametrize("fault", FINAL)
def test_a_final_status_counts(fault: str) -> None:
    """A final status that was seen counts, whatever comes after it; what is over the limits is cut off."""
    assert outcome_from(FINAL[fault]) == Outcome(Result.SUCCESS, 200)


def test_a_failure_keeps_its_status_when_cut_off() -> None:
    """A failure with a body without end is that failure, with the beginning of the body."""
    outcome = outcome_from(endless(b"HTTP/1.1 503 No\r\nRetry-After: 9\r\n\r\n", b"sorry " * 1000))
    assert (outcome.result, outcome.status, outcome.retry_after_ns) == (Result.BUSY, 503, 9_000_000_000)
    assert outcome.detail.startswith("sorry sorry")


@pytest.mark.slow
def test_trickled_bodies_have_answered() -> None:
    """An endpoint that dawdles over the body of its answer has answered, and loses its connection."""

    async def trickle(connection: Connection) -> None:
        await connection.request()
        await connection.write(HEAD + b"Content-Length: 1000\r\n\r\n")
        while True:
            await asyncio.sleep(0.5)
            await connection.write(b"x")

    async def main() -> list[Outcome]:
        nothing = saying(b"HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\n")
        async with Receiver(trickle) as slow, Receiver(nothing) as stuck, posting() as post:
            outcomes = await asyncio.gather(post(slow.url), post(stuck.url))
            await slow.until(lambda it: not it.open)
            await stuck.until(lambda it: not it.open)
            return outcomes

    assert asyncio.run(main()) == [Outcome(Result.SUCCESS, 200), Outcome(Result.NOT_FOUND, 404)]


@pytest.mark.parametrize("handle", [silent, saying(b"HTTP/1.1 200"), saying(HEAD + b"Server: x\r\n"), saying(b"")])
def test_abort_frees_the_socket(handle: Handler) -> None:
    """An exchange without an answer stays open until it is aborted; then its connection goes, and no answer comes."""

    async def main() -> None:
        async with Receiver(handle) as receiver, posting() as post:
            exchange, answer = post.start(receiver.url)
            await receiver.until(lambda it: it.requests)
            await asyncio.sleep(0.05)
            assert not answer.done()
            exchange.abort()
            exchange.abort()
            await receiver.until(lambda it: not it.open)
            assert not answer.done()

    asyncio.run(main())


def test_abort_before_anything_happened() -> None:
    """Exchanges that are aborted at once are never answered, and the next one is not hurt by them."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver, posting() as post:
            sent = [post.start(receiver.url) for _ in range(50)]
            for exchange, _ in sent:
                exchange.abort()
            assert (await post(receiver.url)).status == 200
            assert not any(answer.done() for _, answer in sent)

    asyncio.run(main())


def test_endpoint_that_never_reads() -> None:
    """A large batch to an endpoint that reads nothing stays open until it is aborted."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            async with posting() as post:
                exchange, answer = post.start(f"http://127.0.0.1:{server.getsockname()[1]}/", batch(bytes(8_000_000)))
                await asyncio.sleep(0.2)
                exchange.abort()
                await asyncio.sleep(0.05)
                assert not answer.done()

    asyncio.run(main())


def test_connection_that_died_in_the_pool() -> None:
    """A connection that the endpoint closed while it was idle costs no attempt and no second request."""

    async def main() -> None:
        async with Receiver(saying(OK, "close")) as receiver, posting() as post:
            for served in (1, 2, 3):
                assert (await post(receiver.url)).status == 200
                await receiver.until(lambda it: not it.open)
                assert (receiver.connections, len(receiver.requests)) == (served, served)

    asyncio.run(main())


def test_connection_that_dies_under_a_request() -> None:
    """A pooled connection that is reset under the next request is replaced, and that is one attempt, not two."""

    async def once(connection: Connection) -> None:
        await connection.request()
        await connection.write(OK)
        await connection.request()
        connection.reset()

    async def main() -> None:
        async with Receiver(once) as receiver, posting() as post:
            assert (await post(receiver.url)).status == 200
            answers: list[Outcome] = []
            exchange, answer = post.start(receiver.url)
            answer.add_done_callback(lambda done: answers.append(done.result()))
            await asyncio.wait_for(answer, 10)
            assert [outcome.status for outcome in answers] == [200]
            assert (receiver.connections, len(receiver.requests)) == (2, 3)
            exchange.abort()

    asyncio.run(main())


def test_endpoint_that_breaks_every_connection_of_the_pool() -> None:
    """A request under which one kept connection breaks after the other is sent twice at most, and that is a failure."""
    breaking, all_are_here = False, asyncio.Event()

    async def handle(connection: Connection) -> None:
        while True:
            await connection.request()
            if breaking:
                connection.reset()
                return
            await all_are_here.wait()
            await connection.write(OK)

    async def main() -> None:
        nonlocal breaking
        async with Receiver(handle) as receiver, posting() as post:
            sent = [post.start(receiver.url)[1] for _ in range(8)]
            await receiver.until(lambda it: len(it.requests) == 8)
            all_are_here.set()
            await asyncio.gather(*sent)
            assert (receiver.connections, len(receiver.requests)) == (8, 8)
            breaking = True
            outcome = await post(receiver.url)
            assert (outcome.result, outcome.status) == (Result.SOCKET_ERROR, None)
            assert outcome.detail == "the connection broke without an answer, and so did the next"
            assert len(receiver.requests) == 8 + 2
            breaking = False
            assert (await post(receiver.url)).status == 200

    asyncio.run(main())


def test_refused_connection() -> None:
    """A port where nothing listens is a socket error that names the address."""

    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            async with posting() as post:
                outcome = await post(f"http://127.0.0.1:{port}/?code=s3cret")
        assert outcome.result is Result.SOCKET_ERROR
        assert "127.0.0.1" in outcome.detail
        assert "s3cret" not in outcome.detail

    asyncio.run(main())


def test_no_file_descriptor_left() -> None:
    """When no socket can be opened the attempt fails, and the next one goes well."""

    async def main() -> None:
        async with Receiver(saying(status(200, "Connection: close"), "close")) as receiver, posting() as post:
            await post(receiver.url)
            await receiver.until(lambda it: not it.open)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            lowest_free = os.open(os.devnull, os.O_RDONLY)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            try:
                outcome = await post(receiver.url)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert outcome.result is Result.SOCKET_ERROR
            assert "no socket" in outcome.detail
            assert (await post(receiver.url)).status == 200

    asyncio.run(main())


def test_hanging_endpoints_do_not_delay_a_healthy_one() -> None:
    """While 1,200 exchanges hang a healthy endpoint goes on being answered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4000:
        pytest.skip("needs 4,000 file descriptors")

    async def main() -> None:
        async with Receiver(answering(OK)) as healthy, posting() as post, Receiver(silent) as hanging:
            for _ in range(1200):
                post.start(hanging.url)
            await hanging.until(lambda it: len(it.requests) == 1200)
            async with asyncio.timeout(20):  # a hanging exchange would hold the first of them forever
                for _ in range(300):
                    assert (await post(healthy.url)).status == 200

    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
