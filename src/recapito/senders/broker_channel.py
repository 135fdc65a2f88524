"""The channel to one queue, topic or hub: one batch after the other, each of the messages that wait by then.

Microsoft's clients do one thing at a time, so messages that came meanwhile go together next. The client is opened
with the first message, let go after a failure, and closed when there was nothing to do for a while.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from recapito.azure.amqp_clients import AmqpClient, AmqpClients
from recapito.azure.storage_clients import DONE
from recapito.domain import limits
from recapito.domain.connections.connection import Connection
from recapito.domain.delivery.broker_message import Message
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId

# These are about one message, and in a batch it is unknown which: so each message is sent by itself then.
_ABOUT_ONE = (400, 413)


class BrokerExchange:
    """One message on its way. `over`: answered or aborted."""

    __slots__ = ("_answer", "channel", "message", "over")

    def __init__(self, message: Message, answer: Callable[[Outcome], None]) -> None:
        self._answer = answer
        self.message = message
        self.over = False
        self.channel: BrokerChannel | None = None

    def abort(self) -> None:
        if not self.over:
            self.over = True
            if self.channel is not None:
                self.channel.give_up()

    def finish(self, outcome: Outcome) -> None:
        """Answer, unless the exchange is over already."""
        if not self.over:
            self.over = True
            self._answer(outcome)


class _Result(NamedTuple):
    """The outcome of this number of the first messages of a batch."""

    number: int
    outcome: Outcome


class BrokerChannel:
    """Carries messages to one resource. `ended` is called when no message is left."""

    def __init__(self, amqp_clients: AmqpClients, resource: ResourceId, ended: Callable[[], object]) -> None:
        self._amqp_clients = amqp_clients
        self._ended = ended
        self._waiting: deque[BrokerExchange] = deque()
        self._carried: Sequence[BrokerExchange] = ()
        self._attempt: asyncio.Task[_Result] | None = None
        self._more = asyncio.Event()
        self._client: AmqpClient | None = None
        self._connection: Connection | None = None
        self._known_until = 0.0
        self._resource = resource
        self.task = asyncio.get_running_loop().create_task(self._run())

    def __repr__(self) -> str:
        return f"<BrokerChannel to {self._resource.name}, {len(self._waiting)} waiting, {len(self._carried)} under way>"

    def add(self, exchange: BrokerExchange) -> None:
        """Carry a message."""
        exchange.channel = self
        self._waiting.append(exchange)
        self._more.set()

    def give_up(self) -> None:
        """Stop carrying if every exchange was aborted."""
        if self._attempt is not None and all(exchange.over for exchange in self._carried):
            self._attempt.cancel()

    async def close(self) -> None:
        """Abort all exchanges."""
        for exchange in (*self._waiting, *self._carried):
            exchange.over = True
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _run(self) -> None:
        try:
            while await self._has_more():
                await self._carry(self._take())
        finally:
            self._ended()
            if self._attempt is not None:
                self._attempt.cancel()
                await asyncio.wait([self._attempt])
            self._dispose()

    async def _has_more(self) -> bool:
        """Whether there is a message to carry; it may wait for one."""
        while True:
            while self._waiting and self._waiting[0].over:
                self._waiting.popleft()
            if self._waiting:
                return True
            self._more.clear()
            try:
                async with asyncio.timeout(limits.CONNECTION_IDLE_NS / SECOND):
                    await self._more.wait()
            except TimeoutError:
                return bool(self._waiting)

    def _take(self) -> list[BrokerExchange]:
        """The exchanges that can go together with the first; the others keep their order."""
        first = self._waiting.popleft()
        taken, left, size = [first], deque[BrokerExchange](), len(first.message.body)
        group = first.message.group
        while self._waiting and len(taken) < limits.BROKER_BATCH_EVENTS:
            exchange = self._waiting.popleft()
            size += len(exchange.message.body)
            if size > limits.BROKER_BATCH_BYTES:
                left.append(exchange)
                break
            if not exchange.over:
                (taken if exchange.message.group == group else left).append(exchange)
        left.extend(self._waiting)
        self._waiting = left
        return taken

    async def _carry(self, exchanges: list[BrokerExchange]) -> None:
        self._carried = exchanges
        messages = [exchange.message for exchange in exchanges]
        self._attempt = asyncio.get_running_loop().create_task(self._send(messages))
        await asyncio.wait([self._attempt])
        attempt, self._attempt, self._carried = self._attempt, None, ()
        if attempt.cancelled():
            self._dispose()  # a part of the batch may have been sent
            return
        number, outcome = attempt.result()
        if outcome.status in _ABOUT_ONE and number > 1:
            for exchange in exchanges:
                if not exchange.over:
                    await self._carry([exchange])
            return
        self._waiting.extendleft(reversed(exchanges[number:]))
        for exchange in exchanges[:number]:
            exchange.finish(outcome)

    async def _send(self, messages: Sequence[Message]) -> _Result:
        connection = await self._look_up()
        if isinstance(connection, Outcome):
            return _Result(len(messages), connection)
        try:
            if self._client is None:
                opened = await self._amqp_clients.open(self._resource, connection)
                if isinstance(opened, Outcome):
                    return _Result(len(messages), opened)
                self._client = opened
            return _Result(await self._client.send(messages), DONE)
        except Exception as error:  # Microsoft's libraries promise no closed set; a failed delivery is an Outcome
            self._dispose()
            return _Result(len(messages), self._amqp_clients.outcome_of(error, self._resource, connection))

    async def _look_up(self) -> Connection | Outcome:
        """The connection, as it is now or was a moment ago; the client of another one is closed."""
        now = asyncio.get_running_loop().time()
        if self._connection is not None and self._client is not None and now < self._known_until:
            return self._connection
        connection = await self._amqp_clients.find(self._resource)
        if connection != self._connection:
            self._dispose()
        self._connection = None if isinstance(connection, Outcome) else connection
        self._known_until = now + limits.CONNECTION_KNOWN_NS / SECOND
        return connection

    def _dispose(self) -> None:
        if self._client is not None:
            self._amqp_clients.dispose(self._client)
            self._client = None
