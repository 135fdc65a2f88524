"""Senders to Azure resources that take HTTP: how one is reached is looked up, and then it is a webhook.

The way to a resource is kept as long as its connection stays the same and the token on it is fresh.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from recapito.azure.find_connection import blame
from recapito.contracts.sender import Exchange, Sender
from recapito.domain import limits
from recapito.domain.connections.connection import Connection, Service
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


class Target(NamedTuple):
    """How a resource is reached: a URL, headers that open it, and the instant of real time at which they are old."""

    url: str
    headers: tuple[Header, ...] = ()
    until: int | None = None


class ResourceAdapter(Protocol[C]):
    """What is special about one kind of resource."""

    service: Service

    def way(self, destination: C, connection: Connection, now: int) -> Target:
        """The way to a destination, by its connection."""

    def explain(self, destination: C, outcome: Outcome) -> Outcome:
        """What a failure means here, in Event Grid's words, with the remedy."""


class _Known(NamedTuple):
    connection: Connection
    way: Target
    looked_up_at: int

    def holds(self, now: int) -> bool:
        """Whether it need not be looked up again; nor is a clock believed that was set back."""
        return 0 <= now - self.looked_up_at < limits.CONNECTION_KNOWN_NS


class AzureHttpExchange:
    """One batch on its way, or waiting for the way to be known. `over`: answered or aborted."""

    __slots__ = ("_answer", "inner", "over", "task")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.over = False
        self.inner: Exchange | None = None
        self.task: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Stop listening and let go of the connection. No answer comes after this returns."""
        self.over = True
        if self.task is not None:
            self.task.cancel()
        if self.inner is not None:
            self.inner.abort()

    def finish(self, outcome: Outcome) -> None:
        """The end, unless it is over already."""
        if not self.over:
            self.over = True
            self._answer(outcome)


class Waiting:
    """The exchanges that wait for something to be known before they are sent."""

    def __init__(self) -> None:
        self._exchanges: dict[asyncio.Task[None], AzureHttpExchange] = {}

    def start(self, exchange: AzureHttpExchange, work: Coroutine[Any, Any, None]) -> None:
        """Find it out, and send."""
        exchange.task = asyncio.get_running_loop().create_task(work)
        self._exchanges[exchange.task] = exchange
        exchange.task.add_done_callback(self._exchanges.pop)

    async def abort_all(self) -> None:
        """Nobody waits any more when this returns."""
        tasks = list(self._exchanges)
        for exchange in list(self._exchanges.values()):
            exchange.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


class AzureHttpSender(Generic[D]):
    """Carries batches to one kind of resource, by a sender to webhooks that others may use too."""

    def __init__(
        self, leading: ResourceAdapter[D], find: Find, webhooks: Sender[WebHook], now: Callable[[], int] = time.time_ns
    ) -> None:
        self._leading = leading
        self._find = find
        self._webhooks = webhooks
        self._now = now
        self._known: OrderedDict[D, _Known] = OrderedDict()
        self._waiting = Waiting()
        self.closed = False

    def __repr__(self) -> str:
        return f"<ConnectedSender to {len(self._known)} {self._leading.service} resources>"

    def send(self, destination: D, batch: Batch, answer: Answer) -> AzureHttpExchange:
        """Start one exchange."""
        if self.closed:
            raise RuntimeError("The sender is closed.")
        exchange = AzureHttpExchange(answer)
        known = self._known.get(destination)
        if known is not None and known.holds(self._now()):
            self._post(destination, known.way, batch, exchange)
        else:
            self._waiting.start(exchange, self._look_up_and_post(destination, batch, exchange))
        return exchange

    async def close(self) -> None:
        """Abort what waits. The sender to webhooks is its owner's to close."""
        self.closed = True
        await self._waiting.abort_all()

    def _post(self, destination: D, way: Target, batch: Batch, exchange: AzureHttpExchange) -> None:
        def answer(outcome: Outcome) -> None:
            if outcome.result is not Result.SUCCESS:
                known = self._known.pop(destination, None)  # the connection may have been set anew
                outcome = self._leading.explain(destination, outcome)
                outcome = outcome if known is None else blame(outcome, known.connection, self._now())
            exchange.finish(outcome)

        opened = replace(batch, headers=batch.headers + way.headers)
        exchange.inner = self._webhooks.send(WebHook(url=way.url), opened, answer)

    async def _look_up_and_post(self, destination: D, batch: Batch, exchange: AzureHttpExchange) -> None:
        way = await self._look_up(destination)
        if isinstance(way, Outcome):
            exchange.finish(way)
        elif not exchange.over:
            self._post(destination, way, batch, exchange)

    async def _look_up(self, destination: D) -> Target | Outcome:
        try:
            connection = await self._find(destination.resource_id)
        except SettingsError as error:
            return Outcome(Result.UNAUTHORIZED, 401, detail=str(error))
        except StoreFailed as error:
            detail = f"The connection to {destination.resource_id} can not be read: {error}"
            return Outcome(Result.GENERIC_ERROR, detail=detail)
        if connection is None or self._leading.service not in connection.endpoints:
            top = parse_resource_id(destination.resource_id).top.text
            detail = f"There is no connection to {destination.resource_id}: recapito connection set {top}"
            return Outcome(Result.UNAUTHORIZED, 401, detail=detail)
        now, known = self._now(), self._known.get(destination)
        fresh = known is not None and (known.way.until is None or now < known.way.until)
        if known is not None and fresh and known.connection == connection:
            way = known.way
        else:
            way = self._leading.way(destination, connection, now)
        self._known[destination] = _Known(connection, way, now)
        self._known.move_to_end(destination)
        if len(self._known) > limits.ROUTES:
            self._known.popitem(last=False)
        return way
