"""Handshakes with webhooks: asks an endpoint for its consent, and tells it when its subscription is gone.

How long an answer is waited for, and the pause between tries, go by real time: whoever asked for the subscription
waits meanwhile, and a manual clock would stand still. The ten minutes for consent go by the service's clock.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.contracts.caller import Caller, ask_in_time
from recapito.domain import limits
from recapito.domain.handshake.advice import explain_refusal, explain_waiting
from recapito.domain.handshake.consent import (
    await_consent,
    have_one_endpoint,
    is_consented,
    needs_consent,
    webhook_of,
)
from recapito.domain.handshake.handshake import (
    Awaited,
    Granted,
    Invitation,
    Refused,
    deletion_request,
    invite,
    is_code,
    judge,
    validation_request,
)
from recapito.domain.handshake.http_call import CallResult, FailureKind, Reply, Request
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Handshake, StaticAttribute, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, Conflict, InvalidInput
from recapito.observability.journal import Journal, silent


class NeedsConsent(NamedTuple):
    """What can not be stored before its endpoint was asked."""

    topic: Topic
    wanted: Subscription


class ConsentAnswer:
    """An endpoint that was asked. `given`: it has consented; otherwise `note` says why it has not yet."""

    def __init__(self, invitation: Invitation) -> None:
        self.invitation = invitation
        self.given = False
        self.note = ""

    def __repr__(self) -> str:
        return f"<Asked {self.invitation.subscription.destination!r}, {'given' if self.given else 'not given'}>"


TokenSource = Callable[[str, str], Awaitable[str | None]]
"""A bearer token of a tenant for an application, None if there is none to be had."""

Attempt = Callable[[ConsentAnswer | None], Awaitable[Subscription | NeedsConsent]]
"""Tries to store a subscription: first without an answer of its endpoint, then, if it must be asked, with it."""


class Handshakes:
    """Speaks with endpoints. `patience` is the clock of real time; `public_url` is how endpoints reach this server.

    `token_for` has a token for the application that protects an endpoint, or none.
    """

    def __init__(
        self,
        caller: Caller,
        clock: Clock,
        patience: Clock,
        random_bytes: Callable[[int], bytes],
        public_url: str,
        journal: Journal = silent,
        token_for: TokenSource | None = None,
    ) -> None:
        self._caller = caller
        self._clock = clock
        self._patience = patience
        self._random_bytes = random_bytes
        self._public_url = public_url
        self._journal = journal
        self._token_for = token_for
        self._open: set[ConsentAnswer] = set()
        self._turns = asyncio.Semaphore(limits.HANDSHAKES)
        self._notices: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Handshakes {len(self._open)} open, {len(self._notices)} notices>"

    def admit(
        self, topic: Topic, old: Subscription | None, wanted: Subscription, asked: ConsentAnswer | None
    ) -> Subscription | NeedsConsent:
        """What may be stored: what is wanted, or what is in force while consent to it is awaited."""
        if not needs_consent(old, wanted):
            return wanted
        if asked is None:
            return NeedsConsent(topic, wanted)
        if not have_one_endpoint(asked.invitation.subscription, wanted):
            raise Conflict("Conflict", "The endpoint changed while it was asked for its consent. Try again.")
        if asked.given:
            return wanted
        until = self._clock.now() + limits.HANDSHAKE_WINDOW_NS
        return await_consent(old, wanted, Handshake(asked.invitation.code, until, asked.note))

    @asynccontextmanager
    async def asking(self, about: NeedsConsent) -> AsyncIterator[ConsentAnswer]:
        """Ask an endpoint; a refusal is the caller's error. Until the end of the block `hear` takes its consent."""
        code = self._new_id()
        wanted = await self._authorized(about.wanted)
        asked = ConsentAnswer(invite(self._public_url, about.topic, wanted, code, self._clock.now()))
        self._open.add(asked)
        try:
            async with self._turns:
                await self._ask(asked)
            yield asked
        finally:
            self._open.discard(asked)

    def hear(self, code: str) -> bool:
        """Take consent by a URL while its handshake is still under way; False if the code is of none of these."""
        found = [asked for asked in self._open if is_code(asked.invitation.code, code)]
        for asked in found:
            asked.given = True
        return bool(found)

    def tell_deletion(self, topic: Topic, subscription: Subscription) -> None:
        """Tell an endpoint that had consented that its subscription is gone: once, later, and if there is room."""
        if not isinstance(subscription.destination, WebHook) or not is_consented(subscription):
            return
        if len(self._notices) >= limits.DELETION_NOTICES:
            self._journal("handshake.deletion_not_told", subscription=subscription.name, reason="too many at once")
            return
        task = asyncio.create_task(self._tell(topic, subscription))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _authorized(self, subscription: Subscription) -> Subscription:
        """The subscription as its endpoint is spoken to: one that an application protects sees a token."""
        hook = subscription.destination
        if not isinstance(hook, WebHook) or hook.application is None or self._token_for is None:
            return subscription
        token = await self._token_for(hook.tenant or "", hook.application)
        if token is None:
            return subscription
        shown = StaticAttribute("Authorization", f"Bearer {token}", secret=True)
        return replace(subscription, attributes=(*subscription.attributes, shown))

    async def close(self) -> None:
        """Tell nobody any more. Whoever is being asked is let go when the caller is closed."""
        for task in self._notices:
            task.cancel()
        await asyncio.gather(*self._notices, return_exceptions=True)

    async def _ask(self, asked: ConsentAnswer) -> None:
        invitation = asked.invitation
        for tries in range(1, limits.HANDSHAKE_TRIES + 1):
            answer = await self._request(validation_request(invitation, self._new_id(), self._clock.now()))
            verdict = judge(invitation, answer)
            self._journal(
                "handshake.asked", **_named(invitation.subscription), verdict=type(verdict).__name__, **_outcome(answer)
            )
            match verdict:
                case Granted():
                    asked.given = True
                    return
                case Awaited():
                    asked.note = explain_waiting(invitation, answer)
                    return
                case Refused(again=True) if tries < limits.HANDSHAKE_TRIES:
                    await self._patience.sleep_until(self._patience.now() + limits.HANDSHAKE_PAUSE_NS)
                case Refused():
                    raise _refusal(invitation, answer, tries)

    async def _tell(self, topic: Topic, subscription: Subscription) -> None:
        request = deletion_request(topic, await self._authorized(subscription), self._new_id(), self._clock.now())
        if request is None:
            return
        answer = await self._request(request)
        self._journal("handshake.deletion_told", **_named(subscription), **_outcome(answer))

    async def _request(self, request: Request) -> CallResult:
        return await ask_in_time(self._caller, request, self._patience, limits.ANSWER_WAIT_NS)

    def _new_id(self) -> str:
        return str(UUID(bytes=self._random_bytes(16), version=4))


def _refusal(invitation: Invitation, answer: CallResult, tries: int) -> Exception:
    if not isinstance(answer, Reply) and answer.trouble is FailureKind.CLOSED:
        return Busy("The server is stopping; the endpoint could not be asked.")
    return InvalidInput("Url validation", explain_refusal(invitation, answer, tries), "endpointUrl")


def _named(subscription: Subscription) -> dict[str, object]:
    return {"subscription": subscription.name, "endpoint": webhook_of(subscription).base_url}


def _outcome(answer: CallResult) -> dict[str, object]:
    if isinstance(answer, Reply):
        return {"status": answer.status}
    return {"status": None, "reason": answer.trouble, "detail": answer.detail}
