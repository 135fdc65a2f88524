"""The sender to webhooks that an application of Microsoft Entra protects: it fetches a token first.

A webhook without an application needs none. A token that was refused is not sent again.
"""

from collections.abc import Callable

from msgspec.structs import replace

from recapito.azure.entra import EntraTokens
from recapito.contracts.sender import Exchange, Sender
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import WebHook
from recapito.senders.azure_http import AzureHttpExchange, WaitingExchanges


class EntraWebhookSender:
    """Carries batches to webhooks, by a webhook sender that it shares."""

    def __init__(self, webhooks: Sender[WebHook], tokens: EntraTokens) -> None:
        self._webhooks = webhooks
        self._tokens = tokens
        self._waiting = WaitingExchanges()
        self.closed = False

    def __repr__(self) -> str:
        return f"<ProtectedSender by {self._tokens}>"

    def send(self, destination: WebHook, batch: Batch, answer: Callable[[Outcome], None]) -> Exchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        tenant, application = destination.tenant, destination.application
        if tenant is None or application is None:
            return self._webhooks.send(destination, batch, answer)
        exchange = AzureHttpExchange(answer)
        known = self._tokens.known(tenant, application)
        if known is not None:
            self._post(destination.url, tenant, application, known, batch, exchange)
            return exchange
        self._waiting.start(exchange, self._fetch_and_post(destination.url, tenant, application, batch, exchange))
        return exchange

    async def close(self) -> None:
        """Abort the exchanges that wait for a token, and close the webhook sender."""
        self.closed = True
        await self._waiting.abort_all()
        await self._webhooks.close()

    async def _fetch_and_post(
        self, url: str, tenant: str, application: str, batch: Batch, exchange: AzureHttpExchange
    ) -> None:
        token = await self._tokens.token(tenant, application)
        if isinstance(token, Outcome):
            exchange.finish(token)
        elif not exchange.over:
            self._post(url, tenant, application, token, batch, exchange)

    def _post(
        self, url: str, tenant: str, application: str, token: str, batch: Batch, exchange: AzureHttpExchange
    ) -> None:
        def answer(outcome: Outcome) -> None:
            if outcome.status in (401, 403):
                self._tokens.forget(tenant, application)
            exchange.finish(outcome)

        authorized = replace(batch, headers=(*batch.headers, Header("Authorization", f"Bearer {token}", secret=True)))
        exchange.inner = self._webhooks.send(WebHook(url=url), authorized, answer)
