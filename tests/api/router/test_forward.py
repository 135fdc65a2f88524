"""Forwarding: the owner sees the request as the client sent it, and the client learns whether it may have happened."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable

from recapito.api.auth.access import Access
from recapito.api.router.app import make_standby
from recapito.api.router.forward import Forwarder
from recapito.api.router.histories import HistoryDesk
from recapito.api.server.protocol import HttpProtocol
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView, StreamCopy
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.process.app_server import AppServer
from tests.api.router.asking import Answer, ask_at
from tests.kit.http_server import ArrivedRequest, CannedReply, LoopbackServer

SECRET = ClusterSecret.new()
NO_HISTORIES = HistoryDesk({}.get, 1)
PUBLISH = (
    "POST /topics/orders/api/events?a=%2F HTTP/1.1\r\nHost: orders.example\r\nContent-Length: 2\r\nX-A: 1\r\n\r\n[]"
)


Ask = Callable[[str], Awaitable[Answer]]


def at_standby(view: ClusterView, talk: Callable[[Ask, Forwarder], Awaitable[None]], publish_s: float = 10) -> None:
    """Serve a standby on a free port, and talk to it."""

    async def run() -> None:
        forwarder = Forwarder(lambda: view.owner_url, SECRET, publish_s=publish_s)
        server = AppServer(
            make_standby(forwarder, lambda: view, Access(scrape_token="s" * 20), NO_HISTORIES), HttpProtocol
        )
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                await asyncio.wait_for(talk(lambda request: ask_at(port, request), forwarder), 15)
            finally:
                server.stop()
                await serving
                await forwarder.close()

    asyncio.run(run())


def view_of(owner_url: str, owner: str = "a") -> ClusterView:
    return ClusterView("b", NodeState.STANDBY, owner if owner_url else "", owner_url)


def test_the_owner_sees_what_the_client_sent() -> None:
    """Method, path, query, host, headers and body arrive; the client's address arrives signed; the answer returns."""
    seen: list[ArrivedRequest] = []

    def answer(request: ArrivedRequest) -> CannedReply:
        seen.append(request)
        return CannedReply(201, b'{"ok":1}', {"Content-Type": "application/json", "X-B": "2"})

    owner = LoopbackServer(answer)

    async def talk(ask: Ask, forwarder: Forwarder) -> None:
        got = await ask(PUBLISH)
        assert (got.status, got.body, got.headers["x-b"]) == (201, b'{"ok":1}', "2")
        assert forwarder.counts.forwarded == 1

    try:
        at_standby(view_of(owner.url), talk)
    finally:
        owner.close()
    (request,) = seen
    assert (request.method, request.path, request.body) == ("POST", "/topics/orders/api/events?a=%2F", b"[]")
    assert request.headers["host"] == "orders.example"
    assert request.headers["x-a"] == "1"
    assert SECRET.verify(request.headers[FORWARDED.decode()].encode(), int(time.time())) == "127.0.0.1"


def test_without_an_owner_nothing_is_done() -> None:
    """503 with Retry-After says that nothing is stored: no owner, or one that cannot be reached at all."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    async def talk(ask: Ask, forwarder: Forwarder) -> None:
        got = await ask(PUBLISH)
        assert got.status == 503
        assert got.headers["retry-after"] == "1"
        assert "NotStored" in got.codes

    at_standby(view_of(""), talk)
    at_standby(view_of(f"http://127.0.0.1:{port}"), talk)


def test_an_owner_that_hangs_leaves_the_outcome_unknown() -> None:
    """A request that was sent and not answered in time is unknown, and is not sent again."""
    seen: list[ArrivedRequest] = []
    owner = LoopbackServer(lambda request: seen.append(request))

    async def talk(ask: Ask, forwarder: Forwarder) -> None:
        got = await ask(PUBLISH)
        assert got.status == 503
        assert "OutcomeUnknown" in got.codes
        assert forwarder.counts.unknown == 1

    try:
        at_standby(view_of(owner.url), talk, publish_s=0.2)
    finally:
        owner.close()
    assert len(seen) == 1


def test_a_change_of_owner_ends_what_hangs() -> None:
    """When another node owns, a request that still waits for the former owner is answered: unknown."""
    arrived, owner_url = asyncio.Event(), ""

    async def run() -> None:
        nonlocal owner_url
        loop = asyncio.get_running_loop()
        owner = LoopbackServer(lambda request: loop.call_soon_threadsafe(arrived.set) and None)
        owner_url = owner.url
        forwarder = Forwarder(lambda: owner_url, SECRET)
        server = AppServer(forwarder, HttpProtocol)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            asking = asyncio.create_task(ask_at(listener.getsockname()[1], PUBLISH))
            await asyncio.wait_for(arrived.wait(), 10)
            owner_url = "http://127.0.0.1:1"
            forwarder.owner_changed()
            assert "OutcomeUnknown" in (await asyncio.wait_for(asking, 10)).codes
            server.stop()
            await serving
        await forwarder.close()
        owner.close()

    asyncio.run(run())


def test_a_forwarded_request_is_not_forwarded_again() -> None:
    """A node that does not own refuses what another node forwarded, and says that nothing was done."""
    seen: list[ArrivedRequest] = []
    owner = LoopbackServer(lambda request: seen.append(request) or CannedReply())
    signed = SECRET.sign("10.0.0.9", int(time.time())).decode()

    async def talk(ask: Ask, forwarder: Forwarder) -> None:
        got = await ask(PUBLISH.replace("X-A: 1", f"x-recapito-forwarded: {signed}"))
        assert got.status == 503
        assert got.headers["x-recapito-not-owner"] == "1"

    try:
        at_standby(view_of(owner.url), talk)
    finally:
        owner.close()
    assert not seen


def test_link_local_addresses_are_never_dialled() -> None:
    """The one guard of outbound connections holds for nodes too."""

    async def talk(ask: Ask, forwarder: Forwarder) -> None:
        assert (await ask(PUBLISH)).status == 503
        assert forwarder.counts.unsent == 1

    at_standby(view_of("http://169.254.169.254"), talk)


def test_a_standby_answers_for_itself() -> None:
    """Health is local; readiness names the owner, or says that there is none; metrics are this node's."""
    copies = [StreamCopy("LOG", 90, 100, 1, 10, False)]

    async def with_owner(ask: Ask, forwarder: Forwarder) -> None:
        assert json.loads((await ask("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")).body) == {"status": "ok"}
        ready = await ask("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert ready.status == 200
        assert json.loads(ready.body)["checks"]["owner"] == "ok: node 'a' owns"
        shown = (await ask("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")).body.decode()
        assert 'recapito_cluster_copy_behind{stream="LOG"} 10' in shown
        elsewhere = "GET /metrics HTTP/1.1\r\nHost: example.org\r\n{}\r\n"
        assert (await ask(elsewhere.format(""))).status == 401
        assert (await ask(elsewhere.format(f"Authorization: Bearer {'s' * 20}\r\n"))).status == 200

    async def without(ask: Ask, forwarder: Forwarder) -> None:
        ready = await ask("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert ready.status == 503
        assert "no owner" in json.loads(ready.body)["checks"]["owner"]

    at_standby(ClusterView("b", NodeState.STANDBY, "a", "http://127.0.0.1:1", copies=copies), with_owner)
    at_standby(ClusterView("b", NodeState.STANDBY), without)
