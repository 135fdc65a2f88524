"""Senders to Azure resources that take HTTP: the target is looked up, and the batch is then sent as to a webhook.

A target is kept as long as its connection stays the same and its token is fresh.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from recapito.azure.access import blame
from recapito.contracts.sender import Exchange, Sender
from recapito.domain import limits
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.destination import AzureResource, WebHook
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import SettingsError, StoreFailed

D = TypeVar("D", bound=AzureResource)
C = TypeVar("C", bound=AzureResource, contravariant=True)
Answer = Callable[[Outcome], None]
Find = Callable[[str], Awaitable[Connection | None]]


class ResourceTarget(NamedTuple):
    """The URL of a resource, the headers that authenticate, and the instant of real time at which those are old."""

    url: str
    headers: tuple[Header, ...] = ()
    until: int | None = None


class ResourceAdapter(Protocol[C]):
    """The rules of one kind of resource."""

    service: AzureService

    async def target(self, destination: C, connection: Connection, now: int) -> ResourceTarget | Outcome:
        """The target of a destination, by its connection; or the failure of a delivery that has no credential now."""

    def explain(self, destination: C, outcome: Outcome) -> Outcome:
        """A failure in Event Grid's terms, with the remedy."""


class _KnownTarget(NamedTuple):
    connection: Connection
    target: ResourceTarget
    looked_up_at: int

    def holds(self, now: int) -> bool:
        """Whether it need not be looked up again. A clock that was set back makes it old."""
        return 0 <= now - self.looked_up_at < limits.CONNECTION_KNOWN_NS


class AzureHttpExchange:
    """One batch on its target, or waiting for its target. `over`: answered or aborted."""

    __slots__ = ("_answer", "inner", "over", "task")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.over = False
        self.inner: Exchange | None = None
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        self.over = True
        if self.task is not None:
            self.task.cancel()
        if self.inner is not None:
            self.inner.abort()

    def finish(self, outcome: Outcome) -> None:
        """Answer, unless the exchange is over already."""
        if not self.over:
            self.over = True
            self._answer(outcome)


class WaitingExchanges:
    """The exchanges that wait for a lookup before they are sent."""

    def __init__(self) -> None:
        self._exchanges: dict[asyncio.Task[None], AzureHttpExchange] = {}

    def start(self, exchange: AzureHttpExchange, work: Coroutine[Any, Any, None]) -> None:
        """Run the work that looks up and sends."""
        exchange.task = asyncio.get_running_loop().create_task(work)
        self._exchanges[exchange.task] = exchange
        exchange.task.add_done_callback(self._exchanges.pop)

    async def abort_all(self) -> None:
        """Abort all; when this returns, none waits any more."""
        tasks = list(self._exchanges)
        for exchange in list(self._exchanges.values()):
            exchange.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


class AzureHttpSender(Generic[D]):
    """Carries batches to one kind of resource, by a webhook sender that it shares."""

    def __init__(
        self, adapter: ResourceAdapter[D], find: Find, webhooks: Sender[WebHook], now: Callable[[], int] = time.time_ns
    ) -> None:
        self._adapter = adapter
        self._find = find
        self._webhooks = webhooks
        self._now = now
        self._known: OrderedDict[D, _KnownTarget] = OrderedDict()
        self._waiting = WaitingExchanges()
        self.closed = False

    def __repr__(self) -> str:
        return f"<ConnectedSender to {len(self._known)} {self._adapter.service} resources>"

    def send(self, destination: D, batch: Batch, answer: Answer) -> AzureHttpExchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        exchange = AzureHttpExchange(answer)
        known = self._known.get(destination)
        if known is not None and known.holds(self._now()):
            self._post(destination, known.target, batch, exchange)
        else:
            self._waiting.start(exchange, self._look_up_and_post(destination, batch, exchange))
        return exchange

    async def close(self) -> None:
        """Abort the exchanges that wait. The owner of the webhook sender closes it."""
        self.closed = True
        await self._waiting.abort_all()

    def _post(self, destination: D, target: ResourceTarget, batch: Batch, exchange: AzureHttpExchange) -> None:
        def answer(outcome: Outcome) -> None:
            if outcome.result is not Result.SUCCESS:
                known = self._known.pop(destination, None)  # the connection may have been set anew
                outcome = self._adapter.explain(destination, outcome)
                outcome = outcome if known is None else blame(outcome, known.connection, self._now())
            exchange.finish(outcome)

        opened = replace(batch, headers=batch.headers + target.headers)
        exchange.inner = self._webhooks.send(WebHook(url=target.url), opened, answer)

    async def _look_up_and_post(self, destination: D, batch: Batch, exchange: AzureHttpExchange) -> None:
        target = await self._look_up(destination)
        if isinstance(target, Outcome):
            exchange.finish(target)
        elif not exchange.over:
            self._post(destination, target, batch, exchange)

    async def _look_up(self, destination: D) -> ResourceTarget | Outcome:
        try:
            connection = await self._find(destination.resource_id)
        except SettingsError as error:
            return Outcome(Result.UNAUTHORIZED, 401, detail=str(error))
        except StoreFailed as error:
            detail = f"The connection to {destination.resource_id} cannot be read: {error}"
            return Outcome(Result.GENERIC_ERROR, detail=detail)
        if connection is None or self._adapter.service not in connection.endpoints:
            top = parse_resource_id(destination.resource_id).top.text
            detail = f"There is no connection to {destination.resource_id}: recapito connection set {top}"
            return Outcome(Result.UNAUTHORIZED, 401, detail=detail)
        now, known = self._now(), self._known.get(destination)
        fresh = known is not None and (known.target.until is None or now < known.target.until)
        if known is not None and fresh and known.connection == connection:
            target = known.target
        else:
            found = await self._adapter.target(destination, connection, now)
            if isinstance(found, Outcome):
                return found
            target = found
        self._known[destination] = _KnownTarget(connection, target, now)
        self._known.move_to_end(destination)
        if len(self._known) > limits.ROUTES:
            self._known.popitem(last=False)
        return target
