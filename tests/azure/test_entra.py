"""Webhooks that an application of Microsoft Entra protects: tokens fetched, kept, renewed, and never shown."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from recapito.azure.entra import EntraTokens
from recapito.domain.access.egress import Egress
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.destination import WebHook
from recapito.senders.entra_webhook import EntraWebhookSender
from recapito.senders.webhook import WebhookSender
from tests.senders.receiver import NOON, OK, Receiver, answering, batch, status

APPLICATION = "api://orders"


class Identity:
    """A credential as azure-identity's are: it has a new token for each caller, or none."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.now = NOON
        self.nobody = False
        self.open = 0

    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        self.asked.append((*scopes, options.get("tenant_id")))
        await asyncio.sleep(0)
        if self.nobody:
            raise ClientAuthenticationError("canary-1: AADSTS500011")
        return AccessToken(f"canary-{len(self.asked)}", (self.now + HOUR) // SECOND)

    async def close(self) -> None:
        """Nothing is open."""

    async def __aenter__(self) -> "Identity":
        self.open += 1
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.open -= 1


def telling(story: Callable[[Identity, EntraTokens], Awaitable[None]]) -> None:
    """Tell a story of an identity and its tokens."""
    identity = Identity()
    tokens = EntraTokens(lambda: identity, lambda: identity.now)  # type: ignore[arg-type, return-value]
    asyncio.run(asyncio.wait_for(story(identity, tokens), 20))
    assert identity.open == 0 and "canary" not in repr(tokens) + repr(vars(tokens))


def test_a_token_is_fetched_once_and_renewed() -> None:
    """Callers that ask at once share one fetch; it is kept for half its time, and fetched anew after a refusal."""

    async def story(identity: Identity, tokens: EntraTokens) -> None:
        both = await asyncio.gather(*(tokens.token("t-1", APPLICATION) for _ in range(2)))
        assert both == ["canary-1", "canary-1"] and identity.asked == [("api://orders/.default", "t-1")]
        identity.now += HOUR // 2 - SECOND
        assert await tokens.token("t-1", APPLICATION) == tokens.known("t-1", APPLICATION) == "canary-1"
        assert await tokens.token("t-2", APPLICATION) == "canary-2"
        identity.now += 2 * SECOND
        assert tokens.known("t-1", APPLICATION) is None
        assert await tokens.token("t-1", APPLICATION) == "canary-3"
        tokens.forget("t-1", APPLICATION)
        assert await tokens.token("t-1", APPLICATION) == "canary-4"

    telling(story)


def test_without_a_token_the_event_waits() -> None:
    """That there is none to be had is no status that ends a delivery; the detail names tenant and application."""

    async def story(identity: Identity, tokens: EntraTokens) -> None:
        identity.nobody = True
        outcome = await tokens.token("t-1", APPLICATION)
        assert isinstance(outcome, Outcome) and (outcome.result, outcome.status) == (Result.UNAUTHORIZED, None)
        assert "tenant t-1 for api://orders" in outcome.detail and "canary" not in outcome.detail
        identity.nobody = False
        assert await tokens.token("t-1", APPLICATION) == "canary-2"

    telling(story)


async def send(sender: EntraWebhookSender, url: str, **protection: str) -> Outcome:
    """Post one batch."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    sender.send(WebHook(url=url, **protection), batch(), told.set_result)
    return await told


@pytest.mark.parametrize("code", [200, 401])
def test_a_webhook_sees_the_token(code: int) -> None:
    """One with an application does, one without does not; one that refuses it sees another the next time."""

    async def story(identity: Identity, tokens: EntraTokens) -> None:
        answer = OK if code == 200 else status(401, body=b"no")
        async with Receiver(answering(answer)) as receiver:
            sender = EntraWebhookSender(WebhookSender(Egress.LOCAL, now=lambda: NOON), tokens)
            await send(sender, receiver.url)
            for _ in range(2):
                outcome = await send(sender, receiver.url, tenant="t-1", application=APPLICATION)
                assert outcome.status == code and "canary" not in repr(outcome)
            await sender.close()
        seen = [request.headers.get("authorization") for request in receiver.requests]
        second = "Bearer canary-1" if code == 200 else "Bearer canary-2"
        assert seen == [None, "Bearer canary-1", second]

    telling(story)


def test_an_aborted_exchange_is_not_answered() -> None:
    """A token that came too late is not passed on, and nothing is posted."""

    async def story(identity: Identity, tokens: EntraTokens) -> None:
        async with Receiver(answering(OK)) as receiver:
            sender = EntraWebhookSender(WebhookSender(Egress.LOCAL, now=lambda: NOON), tokens)
            heard: list[Outcome] = []
            hook = WebHook(url=receiver.url, tenant="t-1", application=APPLICATION)
            sender.send(hook, batch(), heard.append).abort()
            assert (await send(sender, receiver.url)).status == 200
            await sender.close()
            assert heard == [] and len(receiver.requests) == 1

    telling(story)
