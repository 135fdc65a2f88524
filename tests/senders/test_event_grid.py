"""The sender to another Event Grid: what it sends where, and what refusals mean; and its probe."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.azure.entra import EntraTokens
from recapito.domain.access.egress import Egress
from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.events.schema import BodyForm
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.destination import EventGrid
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.senders.event_grid import EventGridAdapter
from recapito.senders.http.web_caller import WebCaller
from recapito.senders.probes import EventGridProbe
from tests.senders.connecting import keyring, sending
from tests.senders.receiver import NOON, Receiver, answering, batch, status

PROVIDER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid"
TOPIC = EventGrid(resource_id=f"{PROVIDER}/topics/orders")
IN_NAMESPACE = EventGrid(resource_id=f"{PROVIDER}/namespaces/ns/topics/orders")
MARK = "0123456789abcdef"
TOKEN = "r=a&e=2030-01-01T00%3a00%3a00Z&s=canary"


class Token:
    """An identity at Azure that has a token."""

    def __init__(self, served: list[str]) -> None:
        self._served = served

    async def __aenter__(self) -> "Token":
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def get_token(self, scope: str, tenant_id: str | None = None) -> Any:
        """A new token each time."""
        self._served.append(scope)
        token = type("AccessToken", (), {})()
        token.token, token.expires_on = f"canary-{len(self._served)}", (NOON + HOUR) // SECOND
        return token


def connection(destination: EventGrid, port: int, credential: str = "SharedAccessKey=canary") -> Connection:
    """The connection to a receiver."""
    text = f"Endpoint=http://127.0.0.1:{port};{credential}"
    return choose(destination.resource_id, Choice(connection_string=text))


def sent_to(
    destination: EventGrid, answer: bytes = status(200), credential: str = "SharedAccessKey=canary"
) -> tuple[Outcome, Any]:
    """The outcome of one forwarded batch, and the request that arrived."""
    forwarded = replace(batch(b'[{"id":"1"}]'), passed=MARK, output_id=None, form=BodyForm.EVENTS)

    async def main() -> tuple[Outcome, Any]:
        async with Receiver(answering(answer)) as cloud:
            found = keyring({destination.resource_id.lower(): connection(destination, cloud.port, credential)})
            async with sending(EventGridAdapter(EntraTokens()), found) as answer_to:
                return await answer_to(destination, forwarded), cloud.requests[0]

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("destination", "credential", "path", "header"),
    [
        (TOPIC, "SharedAccessKey=canary", "/api/events?api-version=2018-01-01", ("aeg-sas-key", "canary")),
        (TOPIC, f"SharedAccessSignature={TOKEN}", "/api/events?api-version=2018-01-01", ("aeg-sas-token", TOKEN)),
        (
            IN_NAMESPACE,
            "SharedAccessKey=canary",
            "/topics/orders:publish?api-version=2024-06-01",
            ("authorization", "SharedAccessKey canary"),
        ),
    ],
)
def test_it_publishes(destination: EventGrid, credential: str, path: str, header: tuple[str, str]) -> None:
    """The request is a publisher's: credential, body, the waymarks of passed topics, and no header of a delivery."""
    outcome, request = sent_to(destination, credential=credential)
    assert outcome.status == 200
    assert request.line == f"POST {path} HTTP/1.1"
    assert request.body == b'[{"id":"1"}]'
    assert request.headers[header[0]] == header[1]
    assert request.headers["recapito-passed"] == MARK
    aeg = [name for name in request.headers if name.startswith("aeg-") and name != header[0]]
    assert not aeg and "origin" not in request.headers


@pytest.mark.parametrize(
    ("code", "result", "part"),
    [
        (400, Result.BAD_REQUEST, "schema"),
        (401, Result.UNAUTHORIZED, f"recapito connection set {TOPIC.resource_id}"),
        (403, Result.FORBIDDEN, "EventGrid Data Sender"),
        (404, Result.NOT_FOUND, "does not exist"),
        (413, Result.PAYLOAD_TOO_LARGE, "larger"),
        (508, Result.LOOP_DETECTED, "came from there"),
        (500, Result.GENERIC_ERROR, "says canary? ***"),
    ],
)
def test_refusals_have_a_remedy(code: int, result: Result, part: str) -> None:
    """Each answer has its word, what to do, and no secret."""
    outcome, _ = sent_to(TOPIC, status(code, body=b"says canary? canary"))
    assert (outcome.result, outcome.status) == (result, code)
    assert part.replace("canary? ***", "") in outcome.detail
    assert outcome.detail.startswith("orders of Event Grid: ")
    assert "canary" not in outcome.detail


def test_a_retry_after_is_kept() -> None:
    """The lane waits as long as the cloud asks."""
    outcome, _ = sent_to(TOPIC, status(429, "Retry-After: 7"))
    assert outcome.retry_after_ns == 7 * SECOND


def test_a_bearer_token_is_kept_until_it_is_refused() -> None:
    """One token serves many requests; after a 401 another one is fetched."""
    served: list[str] = []
    tokens = EntraTokens(lambda: Token(served), now=lambda: NOON)  # type: ignore[arg-type, return-value]
    adapter = EventGridAdapter(tokens)
    entra = choose(
        TOPIC.resource_id, Choice(connection_string="Endpoint=https://a.example;Authentication=ManagedIdentity")
    )

    async def main() -> list[str]:
        shown = []
        for refused in (False, True, False):
            target = await adapter.target(TOPIC, entra, NOON)
            assert not isinstance(target, Outcome)
            shown.append(target.headers[0].value)
            if refused:
                adapter.explain(TOPIC, Outcome(Result.UNAUTHORIZED, 401))
        return shown

    assert asyncio.run(main()) == ["Bearer canary-1", "Bearer canary-1", "Bearer canary-2"]
    assert served == ["https://eventgrid.azure.net/.default"] * 2


def test_without_an_identity_the_delivery_fails() -> None:
    """A server that Entra does not know sends nothing, and says so."""

    def none() -> Any:
        raise RuntimeError("no identity")

    entra = choose(
        TOPIC.resource_id, Choice(connection_string="Endpoint=https://a.example;Authentication=ManagedIdentity")
    )

    async def main() -> Outcome:
        async with sending(
            EventGridAdapter(EntraTokens(none)), keyring({TOPIC.resource_id.lower(): entra})
        ) as answer_to:
            return await answer_to(TOPIC)

    outcome = asyncio.run(main())
    assert outcome.result is Result.UNAUTHORIZED and "identity" in outcome.detail


@pytest.mark.parametrize(
    ("code", "result"),
    [(200, Result.SUCCESS), (400, Result.SUCCESS), (401, Result.UNAUTHORIZED), (404, Result.NOT_FOUND)],
)
def test_a_probe_publishes_no_event(code: int, result: Result) -> None:
    """An empty array proves the credential and the place."""

    async def main() -> tuple[Outcome, Any]:
        async with Receiver(answering(status(code))) as cloud:
            caller = WebCaller(Egress.LOCAL)
            probe = EventGridProbe(EventGridAdapter(EntraTokens()), caller, lambda: NOON)
            outcome = await probe.topic(parse_resource_id(TOPIC.resource_id), connection(TOPIC, cloud.port))
            await caller.close()
            return outcome, cloud.requests[0]

    outcome, request = asyncio.run(main())
    assert outcome.result is result
    assert request.body == b"[]"
    assert request.headers["aeg-sas-key"] == "canary" and "canary" not in outcome.detail
