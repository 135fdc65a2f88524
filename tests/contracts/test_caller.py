"""The promises of every caller, held against each implementation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import pytest

from recapito.clock import ManualClock
from recapito.contracts.caller import Caller, ask_in_time
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.handshake.http_call import FailureKind, HttpReply, HttpRequest, NoReply
from recapito.senders.http.web_caller import WebCaller
from recapito.senders.memory_caller import MemoryCaller, ScriptedAnswer
from tests.senders.receiver import Connection, Receiver, answering, names, silent, status


class World(NamedTuple):
    """A caller, and places that greet, refuse with 401, never answer, and cannot be reached."""

    caller: Caller
    good: str
    strict: str
    mute: str
    gone: str


@asynccontextmanager
async def web_world() -> AsyncIterator[World]:
    hello = status(200, "X-Word: hello", "X-Word: again", body=b'{"a": 1}')
    async with (
        Receiver(answering(hello)) as good,
        Receiver(answering(status(401, body=b"who?"))) as strict,
        Receiver(silent) as mute,
    ):
        caller = WebCaller(Egress.LOCAL, resolver=names())
        yield World(caller, good.url, strict.url, mute.url, "http://gone.test/")
        await caller.close()


@asynccontextmanager
async def memory_world() -> AsyncIterator[World]:
    places = tuple(f"http://{name}.test/" for name in ("a", "b", "c", "d"))
    hello = HttpReply(200, (("X-Word", "hello"), ("X-Word", "again"), ("Content-Length", "8")), b'{"a": 1}')
    script = {
        places[0]: ScriptedAnswer(hello),
        places[1]: ScriptedAnswer(HttpReply(401, (("Content-Length", "4"),), b"who?"), 0.01),
        places[2]: None,
        places[3]: ScriptedAnswer(NoReply(FailureKind.NAME_NOT_FOUND, "no such name")),
    }
    caller = MemoryCaller(lambda request: script[request.url])
    yield World(caller, *places)
    await caller.close()


Law = Callable[[World], Awaitable[None]]


def run(world: Callable[[], AbstractAsyncContextManager[World]], law: Law) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), world() as it:
            await law(it)

    asyncio.run(main())


@pytest.fixture(params=[web_world, memory_world])
def hold(request: pytest.FixtureRequest) -> Callable[[Law], None]:
    """Holds an implementation to a law."""
    return lambda law: run(request.param, law)


def test_every_answer_is_a_reply(hold: Callable[[Law], None]) -> None:
    """Whatever the method and the status, an answer is a reply with its status, headers and body."""

    async def law(world: World) -> None:
        for method in ("POST", "GET", "OPTIONS", "POST"):
            reply = await world.caller.ask(HttpRequest(method, world.good))  # type: ignore[arg-type]
            assert isinstance(reply, HttpReply)
            assert (reply.status, reply.header("x-word"), reply.body) == (200, "hello", b'{"a": 1}')
            assert reply.header("x-none") is None
        refused = await world.caller.ask(HttpRequest("GET", world.strict))
        assert isinstance(refused, HttpReply)
        assert (refused.status, refused.body) == (401, b"who?")

    hold(law)


def test_no_answer_is_a_value(hold: Callable[[Law], None]) -> None:
    """A place that cannot be reached is a value with a reason, not an exception."""

    async def law(world: World) -> None:
        for _ in range(2):  # the second time from what the caller remembers
            answer = await world.caller.ask(HttpRequest("GET", world.gone))
            assert isinstance(answer, NoReply)
            assert answer.trouble is FailureKind.NAME_NOT_FOUND
            assert answer.detail

    hold(law)


def test_the_clock_ends_a_wait(hold: Callable[[Law], None]) -> None:
    """An answer that does not come is given up when the clock says so, and not before."""

    async def law(world: World) -> None:
        clock = ManualClock(0)
        asking = asyncio.ensure_future(ask_in_time(world.caller, HttpRequest("GET", world.mute), clock, 30 * 10**9))
        await asyncio.sleep(0.05)
        clock.move_to(30 * 10**9 - 1)
        await asyncio.sleep(0.05)
        assert not asking.done()
        clock.move_to(30 * 10**9)
        assert await asking == NoReply(FailureKind.TIMED_OUT, "no answer within 30 s")
        assert isinstance(await ask_in_time(world.caller, HttpRequest("GET", world.good), clock, 1), HttpReply)
        assert clock.next_instant() is None

    hold(law)


def test_requests_do_not_delay_each_other(hold: Callable[[Law], None]) -> None:
    """With requests open to a place that never answers, another one answers as ever."""

    async def law(world: World) -> None:
        mute = [asyncio.ensure_future(world.caller.ask(HttpRequest("GET", world.mute))) for _ in range(20)]
        assert isinstance(await asyncio.wait_for(world.caller.ask(HttpRequest("GET", world.good)), 5), HttpReply)
        assert not any(asking.done() for asking in mute)
        for asking in mute:
            asking.cancel()

    hold(law)


def test_close_answers_everybody(hold: Callable[[Law], None]) -> None:
    """`close` leaves no call waiting: open calls, and later ones, are unanswered."""

    async def law(world: World) -> None:
        asking = asyncio.ensure_future(world.caller.ask(HttpRequest("GET", world.mute)))
        await asyncio.sleep(0.05)
        await world.caller.close()
        for answer in (await asking, await world.caller.ask(HttpRequest("GET", world.good))):
            assert isinstance(answer, NoReply)
            assert answer.trouble is FailureKind.CLOSED

    hold(law)


def test_what_goes_over_the_wire() -> None:
    """A request is sent as it was asked: method, headers and body, with nothing of libcurl's own among them."""

    async def law() -> None:
        async with Receiver(answering(status(200))) as receiver:
            caller = WebCaller(Egress.LOCAL)
            json = (("Content-Type", "application/json"), ("aeg-event-type", "X"), ("bad", "a\r\nb: c"))
            await caller.ask(HttpRequest("POST", receiver.url + "?code=s", json, b"[1]"))
            await caller.ask(HttpRequest("OPTIONS", receiver.url, (("WebHook-Request-Origin", "me"),)))
            await caller.ask(HttpRequest("GET", receiver.url))
            await caller.ask(HttpRequest("POST", receiver.url))
            await caller.close()
            post, options, get, empty = receiver.requests
            assert (post.line, post.body) == ("POST /hook?code=s HTTP/1.1", b"[1]")
            assert set(post.headers) == {"host", "user-agent", "content-type", "aeg-event-type", "content-length"}
            assert (options.line, options.headers["webhook-request-origin"]) == ("OPTIONS /hook HTTP/1.1", "me")
            assert (get.line, set(get.headers)) == ("GET /hook HTTP/1.1", {"host", "user-agent"})
            assert (empty.line, empty.body, empty.headers["content-length"]) == ("POST /hook HTTP/1.1", b"", "0")
            assert receiver.connections == 1

    asyncio.run(asyncio.wait_for(law(), 20))


@pytest.mark.parametrize(
    ("url", "trouble"),
    [
        ("http://127.0.0.1/", FailureKind.ADDRESS_REFUSED),
        ("http://inside.test/", FailureKind.ADDRESS_REFUSED),
        ("ftp://example.test/", FailureKind.INVALID_URL),
    ],
)
def test_egress_rules_hold(url: str, trouble: FailureKind) -> None:
    """An address that deliveries may not reach is refused to requests too; no thread is started for it."""

    async def law() -> None:
        caller = WebCaller(Egress.PUBLIC, resolver=names(inside_test="10.0.0.1"))
        answer = await caller.ask(HttpRequest("GET", url))
        assert isinstance(answer, NoReply)
        assert answer.trouble is trouble
        assert "unused" in repr(caller)
        await caller.close()

    asyncio.run(asyncio.wait_for(law(), 20))


async def _cut_short(connection: Connection) -> None:
    await connection.request()
    await connection.write(b"HTTP/1.1 200")


async def _large(connection: Connection) -> None:
    await connection.request()
    await connection.write(status(200, body=b"x" * (2 * limits.RESPONSE_BODY_BYTES)))


@pytest.mark.parametrize("redirect", [301, 302, 307, 308])
def test_nothing_is_followed(redirect: int) -> None:
    """A redirect is the answer, not a way to go."""

    async def law() -> None:
        async with Receiver(answering(status(redirect, "Location: http://127.0.0.1:1/"))) as receiver:
            caller = WebCaller(Egress.LOCAL)
            reply = await caller.ask(HttpRequest("GET", receiver.url))
            assert isinstance(reply, HttpReply)
            assert reply.status == redirect
            await caller.close()

    asyncio.run(asyncio.wait_for(law(), 20))


def test_hostile_answers() -> None:
    """A body without end is cut at the limit; a broken answer and a closed port are reasons."""

    async def law() -> None:
        caller = WebCaller(Egress.LOCAL)
        async with Receiver(_large) as large, Receiver(_cut_short) as cut:
            reply = await caller.ask(HttpRequest("GET", large.url))
            assert isinstance(reply, HttpReply)
            assert reply.body == b"x" * limits.RESPONSE_BODY_BYTES
            broken = await caller.ask(HttpRequest("GET", cut.url))
            assert isinstance(broken, NoReply)
            assert broken.trouble is FailureKind.BROKEN_OFF
        refused = await caller.ask(HttpRequest("GET", cut.url + "?code=topsecret"))
        assert isinstance(refused, NoReply)
        assert refused.trouble is FailureKind.NOT_CONNECTED
        assert "topsecret" not in refused.detail
        await caller.close()

    asyncio.run(asyncio.wait_for(law(), 20))


def test_a_cancelled_request_lets_go() -> None:
    """Who stops asking lets go of the connection."""

    async def law() -> None:
        async with Receiver(silent) as mute:
            caller = WebCaller(Egress.LOCAL)
            asking = asyncio.ensure_future(caller.ask(HttpRequest("GET", mute.url)))
            await mute.until(lambda it: it.requests)
            asking.cancel()
            await mute.until(lambda it: it.open == 0)
            await caller.close()

    asyncio.run(asyncio.wait_for(law(), 20))
