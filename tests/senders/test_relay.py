"""The sender to hybrid connections, with Microsoft's own listener behind a small relay that verifies signatures."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.outcome import Result
from recapito.domain.events.schema import BodyForm
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.resources.destination import HybridConnection
from recapito.senders.relay import RelayAdapter
from tests.kit import launch
from tests.relay.front import RelayFront, claims
from tests.senders.connecting import Sending, keyring, sending
from tests.senders.receiver import Receiver, answering, batch, status
from tests.senders.relay_namespace import NAMESPACE, RULES, connection

ORDERS = HybridConnection(resource_id=f"{NAMESPACE}/hybridConnections/orders")
NOBODY = HybridConnection(resource_id=f"{NAMESPACE}/hybridConnections/nobody")
GONE = HybridConnection(resource_id=f"{NAMESPACE}/hybridConnections/gone")
PROGRAM = Path(__file__).parent.parent / "relay" / "listener.js"
LIBRARY = PROGRAM.parent / "node_modules" / "hyco-https"


def everywhere(one: Connection) -> Callable[[str], Awaitable[Connection | None]]:
    """A keyring with one connection for all."""
    return keyring({to.resource_id.lower(): one for to in (ORDERS, NOBODY, GONE)})


@contextlib.asynccontextmanager
async def listener(front: RelayFront) -> AsyncIterator[asyncio.StreamReader]:
    """Microsoft's listener in a process of node: what it prints."""
    node = launch.node(PROGRAM.parent, LIBRARY)
    process = await asyncio.create_subprocess_exec(
        node, str(PROGRAM), f"127.0.0.1:{front.port}", "orders", "Both", "canary-both", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            assert json.loads(await process.stdout.readline()) == {"listening": True}
            await front.listening.wait()
        yield process.stdout
    finally:
        process.terminate()
        await process.communicate()


def test_a_listener_gets_what_a_webhook_would() -> None:
    """Body, Event Grid's headers and the subscriber's own arrive whole; the signature stays with the relay."""
    body = '[{"id":"1","data":"ü 🚚"}]'

    async def main() -> tuple[list[int | None], list[dict[str, Any]]]:
        async with RelayFront(RULES, {"orders"}) as front, listener(front) as printed:
            async with sending(RelayAdapter(), everywhere(connection(front.port)), time.time_ns) as answer_to:
                one = replace(batch(body.encode()), headers=(Header("x-tenant", "north"),))
                two = replace(batch(b'{"id":"2"}', attempts=3), form=BodyForm.CLOUD_EVENT)
                answers = [(await answer_to(ORDERS, sent)).status for sent in (one, two)]
            return answers, [json.loads(await printed.readline()) for _ in answers]

    answers, (one, two) = asyncio.run(main())
    assert answers == [202, 202]
    assert (one["method"], one["body"], two["body"]) == ("POST", body, '{"id":"2"}')
    wanted = {
        "aeg-event-type": "Notification",
        "aeg-subscription-name": "ORDERS-HOOK",
        "aeg-delivery-count": "0",
        "x-tenant": "north",
        "content-type": "application/json; charset=utf-8",
    }
    headers = {name.lower(): value for name, value in one["headers"].items()}
    assert {name: headers.get(name) for name in wanted} == wanted
    assert "canary" not in json.dumps(one) and "servicebusauthorization" not in headers
    assert {name.lower(): value for name, value in two["headers"].items()}["aeg-delivery-count"] == "3"


@pytest.mark.parametrize(
    ("code", "result"),
    [(400, Result.BAD_REQUEST), (403, Result.FORBIDDEN), (413, Result.PAYLOAD_TOO_LARGE), (503, Result.BUSY)],
)
def test_the_listeners_answer_is_the_outcome(code: int, result: Result) -> None:
    """The answer of the listener passes through the relay."""

    async def main() -> Any:
        async with (
            RelayFront(RULES, {"orders"}) as front,
            listener(front),
            sending(RelayAdapter(), everywhere(connection(front.port)), time.time_ns) as answer_to,
        ):
            return await answer_to(ORDERS, replace(batch(), headers=(Header("x-answer", str(code)),)))

    answer = asyncio.run(main())
    assert (answer.result, answer.status) == (result, code)
    assert answer.detail.startswith("orders of relay namespace shop-relay: ")
    assert answer.detail.endswith("the listener says so")


@pytest.mark.parametrize(
    ("name", "key", "to", "expected", "part"),
    [
        ("Both", "canary-wrong", ORDERS, (Result.UNAUTHORIZED, 401), f"recapito connection set {NAMESPACE}"),
        ("Nobody", "canary-both", ORDERS, (Result.UNAUTHORIZED, 401), f"recapito connection set {NAMESPACE}"),
        ("Listen", "canary-listen", ORDERS, (Result.FORBIDDEN, 403), "may not send"),
        ("Both", "canary-both", NOBODY, (Result.NOT_FOUND, 404), "has no listener"),
        ("Both", "canary-both", GONE, (Result.NOT_FOUND, 404), "does not exist"),
    ],
)
def test_the_relays_refusals(
    name: str, key: str, to: HybridConnection, expected: tuple[Result, int], part: str
) -> None:
    """A wrong key, one that may not send, no listener and no such path: the right outcome, and the remedy, unsigned."""

    async def main() -> tuple[Any, str]:
        async with (
            RelayFront(RULES, {"orders", "nobody"}) as front,
            sending(RelayAdapter(), everywhere(connection(front.port, name, key)), time.time_ns) as answer_to,
        ):
            return await answer_to(to), front.tokens[0]

    answer, token = asyncio.run(main())
    assert (answer.result, answer.status) == expected
    assert part in answer.detail
    assert "canary" not in repr(answer) and claims(token)["sig"] not in repr(answer) and token not in repr(answer)


def test_tokens_are_signed_once_and_renewed() -> None:
    """One token serves until half of its hour has passed; then, or with another key, a new one is signed."""
    now = [time.time_ns()]
    tokens: list[str] = []

    async def main() -> None:
        async with Receiver(answering(status(200))) as relay:
            keys = {ORDERS.resource_id.lower(): connection(relay.port)}
            async with sending(RelayAdapter(), keyring(keys), lambda: now[0]) as answer_to:
                await _show(answer_to, relay, 2)
                now[0] += 29 * MINUTE
                await _show(answer_to, relay, 1)
                now[0] += 2 * MINUTE
                await _show(answer_to, relay, 1)
                keys[ORDERS.resource_id.lower()] = connection(relay.port, key="other")
                now[0] += MINUTE
                await _show(answer_to, relay, 1)

    async def _show(answer_to: Sending, relay: Receiver, times: int) -> None:
        for _ in range(times):
            assert (await answer_to(ORDERS)).status == 200
            tokens.append(relay.requests[-1].headers["servicebusauthorization"])

    asyncio.run(main())
    first, renewed, rekeyed = tokens[0], tokens[3], tokens[4]
    assert tokens[:3] == [first] * 3
    assert len({first, renewed, rekeyed}) == 3
    assert int(claims(renewed)["se"]) - int(claims(first)["se"]) == 31 * MINUTE // SECOND
    assert claims(first)["sr"] == "http://127.0.0.1/orders"
