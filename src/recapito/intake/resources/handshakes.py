"""Handshakes with webhooks: ask an endpoint for its consent, and notify it when its subscription is deleted.

The wait for a reply and the pause between tries follow real time, because a client waits meanwhile and a manual clock
would stand still. The ten minutes for consent follow the service's clock.
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
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, HttpRequest
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Handshake, StaticAttribute, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import Busy, Conflict, InvalidInput
from recapito.observability.journal import Journal, silent


class Ready(NamedTuple):
    """A subscription that may be stored."""

    topic: Topic
    subscription: Subscription


class NeedsConsent(NamedTuple):
    """A subscription that may be stored only after its endpoint was asked; `old` is the stored one that it replaces."""

    topic: Topic
    old: Subscription | None
    wanted: Subscription


class ConsentAnswer:
    """The result of asking an endpoint. `given`: it has consented; otherwise `note` is the reason why not yet."""

    def __init__(self, invitation: Invitation) -> None:
        self.invitation = invitation
        self.given = False
        self.note = ""

    def __repr__(self) -> str:
        return f"<ConsentAnswer {self.invitation.subscription.destination!r}, {'given' if self.given else 'not given'}>"


TokenSource = Callable[[str, str], Awaitable[str | None]]
"""Returns a bearer token of a tenant for an application, None if it gets none."""


class Handshakes:
    """Sends validation requests and deletion notices to endpoints.

    caller: makes the HTTP requests.
    clock: the service's clock, for the ten minutes of consent.
    patience: the clock of real time, for the wait for a reply and the pause between tries.
    random_bytes: returns N random bytes, for codes and ids.
    public_url: the URL by which endpoints reach this server.
    journal: gets one line for each request.
    token_for: returns a token for the application that protects an endpoint; None sends no tokens.
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

    def admit(self, plan: NeedsConsent, answer: ConsentAnswer) -> Ready:
        """The subscription to store after its endpoint was asked.

        With consent it is the wanted one. Without, what was in force stays so while consent is awaited. `plan` is newer
        than `answer`: Conflict if the endpoint is another by now.
        """
        if not have_one_endpoint(answer.invitation.subscription, plan.wanted):
            raise Conflict("Conflict", "The endpoint changed while it was asked for its consent. Try again.")
        if answer.given:
            return Ready(plan.topic, plan.wanted)
        until = self._clock.now() + limits.HANDSHAKE_WINDOW_NS
        handshake = Handshake(answer.invitation.code, until, answer.note)
        return Ready(plan.topic, await_consent(plan.old, plan.wanted, handshake))

    @asynccontextmanager
    async def asking(self, plan: NeedsConsent) -> AsyncIterator[ConsentAnswer]:
        """Ask an endpoint; a refusal is the caller's error. `take_consent` still works until the block ends."""
        code = self._new_id()
        wanted = await self._authorized(plan.wanted)
        answer = ConsentAnswer(invite(self._public_url, plan.topic, wanted, code, self._clock.now()))
        self._open.add(answer)
        try:
            async with self._turns:
                await self._ask(answer)
            yield answer
        finally:
            self._open.discard(answer)

    def take_consent(self, code: str) -> bool:
        """Take consent by a URL while its handshake is still under way; False if no such handshake has this code."""
        answers = [answer for answer in self._open if is_code(answer.invitation.code, code)]
        for answer in answers:
            answer.given = True
        return bool(answers)

    def announce_deletion(self, topic: Topic, subscription: Subscription) -> None:
        """Send an endpoint that had consented one deletion notice, in a task; drop it if too many are under way."""
        if not isinstance(subscription.destination, WebHook) or not is_consented(subscription):
            return
        if len(self._notices) >= limits.DELETION_NOTICES:
            self._journal("handshake.deletion_not_told", subscription=subscription.name, reason="too many at once")
            return
        task = asyncio.create_task(self._send_notice(topic, subscription))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _authorized(self, subscription: Subscription) -> Subscription:
        """The subscription with a bearer token among its attributes, if an application protects its endpoint."""
        hook = subscription.destination
        if not isinstance(hook, WebHook) or hook.application is None or self._token_for is None:
            return subscription
        token = await self._token_for(hook.tenant or "", hook.application)
        if token is None:
            return subscription
        bearer = StaticAttribute("Authorization", f"Bearer {token}", secret=True)
        return replace(subscription, attributes=(*subscription.attributes, bearer))

    async def close(self) -> None:
        """Cancel the deletion notices. Validation requests end when the `Caller` is closed."""
        for task in self._notices:
            task.cancel()
        await asyncio.gather(*self._notices, return_exceptions=True)

    async def _ask(self, answer: ConsentAnswer) -> None:
        invitation = answer.invitation
        for tries in range(1, limits.HANDSHAKE_TRIES + 1):
            result = await self._request(validation_request(invitation, self._new_id(), self._clock.now()))
            verdict = judge(invitation, result)
            self._journal(
                "handshake.asked", **_named(invitation.subscription), verdict=type(verdict).__name__, **_outcome(result)
            )
            match verdict:
                case Granted():
                    answer.given = True
                    return
                case Awaited():
                    answer.note = explain_waiting(invitation, result)
                    return
                case Refused(again=True) if tries < limits.HANDSHAKE_TRIES:
                    await self._patience.sleep_until(self._patience.now() + limits.HANDSHAKE_PAUSE_NS)
                case Refused():
                    raise _refusal(invitation, result, tries)

    async def _send_notice(self, topic: Topic, subscription: Subscription) -> None:
        request = deletion_request(topic, await self._authorized(subscription), self._new_id(), self._clock.now())
        if request is None:
            return
        result = await self._request(request)
        self._journal("handshake.deletion_told", **_named(subscription), **_outcome(result))

    async def _request(self, request: HttpRequest) -> CallResult:
        return await ask_in_time(self._caller, request, self._patience, limits.ANSWER_WAIT_NS)

    def _new_id(self) -> str:
        return str(UUID(bytes=self._random_bytes(16), version=4))


def _refusal(invitation: Invitation, result: CallResult, tries: int) -> Exception:
    if not isinstance(result, HttpReply) and result.trouble is FailureKind.CLOSED:
        return Busy("The server is stopping and did not ask the endpoint. Try again.")
    return InvalidInput("Url validation", explain_refusal(invitation, result, tries), "endpointUrl")


def _named(subscription: Subscription) -> dict[str, object]:
    return {"subscription": subscription.name, "endpoint": webhook_of(subscription).base_url}


def _outcome(result: CallResult) -> dict[str, object]:
    if isinstance(result, HttpReply):
        return {"status": result.status}
    return {"status": None, "reason": result.trouble, "detail": result.detail}
