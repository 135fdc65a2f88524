"""Webhooks that an Entra application protects: what they are shown, and when nothing is sent."""

import asyncio

import pytest

from recapito.domain.access.egress import Egress
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import WebHook
from recapito.senders.webhook import TokenSource, WebhookSender
from tests.senders.receiver import NOON, OK, Receiver, answering, batch, status


async def send(url: str, token_for: TokenSource | None, **protection: str) -> Outcome:
    """Post one batch."""
    sender = WebhookSender(Egress.LOCAL, now=lambda: NOON, token_for=token_for)
    try:
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        sender.send(WebHook(url=url, **protection), batch(), answer.set_result)
        return await asyncio.wait_for(answer, 10)
    finally:
        await sender.close()


@pytest.mark.parametrize("protection", [{}, {"tenant": "t", "application": "api://orders"}])
def test_a_token_is_shown_to_who_asks_for_one(protection: dict[str, str]) -> None:
    """A webhook with an application gets a token for it, any other none."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver:
            assert (await send(receiver.url, lambda application: f"for.{application}", **protection)).status == 200
            [request] = receiver.requests
        wanted = "Bearer for.api://orders" if protection else None
        assert request.headers.get("authorization") == wanted

    asyncio.run(main())


def test_what_is_repeated_of_a_token_is_not_shown() -> None:
    """An endpoint that answers with what it was sent gives nothing away."""

    async def main() -> None:
        async with Receiver(answering(status(500, body=b"got Bearer s3cret-token"))) as receiver:
            outcome = await send(receiver.url, lambda _: "s3cret-token", tenant="t", application="a")
        assert outcome.status == 500
        assert "s3cret-token" not in outcome.detail

    asyncio.run(main())


def test_without_a_token_nothing_is_sent() -> None:
    """A server that signs none does not post without one."""

    async def main() -> None:
        async with Receiver(answering(OK)) as receiver:
            outcome = await send(receiver.url, None, tenant="t", application="a")
            assert receiver.requests == []
        assert (outcome.failure, outcome.status) == (Result.UNAUTHORIZED, None)
        assert "signs no tokens" in outcome.detail

    asyncio.run(main())
