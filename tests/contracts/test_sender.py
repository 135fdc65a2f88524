"""The promises of every sender to its lanes, held against each implementation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import pytest

from recapito.azure.access import AzureAccess
from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.entra import EntraTokens
from recapito.contracts.sender import Exchange, Sender
from recapito.domain.access.egress import Egress
from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.parse_host import from_function_host
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.resources.destination import (
    AzureFunction,
    Broker,
    Destination,
    EventGrid,
    EventHub,
    ServiceBusQueue,
    StorageQueue,
    WebHook,
)
from recapito.senders.azure_http import AzureHttpSender
from recapito.senders.broker import BrokerSender
from recapito.senders.event_grid import EventGridAdapter
from recapito.senders.function import FunctionAdapter
from recapito.senders.memory import MemorySender, ScriptedOutcome
from recapito.senders.storage_queue import StorageQueueSender
from recapito.senders.webhook import WebhookSender
from tests.amqp.broker import new
from tests.azurite.place import account, known, new_queue, queue_service, reaching
from tests.senders.connecting import keyring
from tests.senders.receiver import OK, Receiver, answering, batch, names, silent, status


class World(NamedTuple):
    """A sender, and destinations that answer well, answer 503, never answer, and cannot be reached."""

    sender: Sender[Any]
    good: Destination
    busy: Destination
    mute: Destination
    gone: Destination

    def send(self, to: Destination) -> tuple[Exchange, list[Outcome], asyncio.Event]:
        """Start an exchange: it, the answers so far, and when there is one."""
        answers: list[Outcome] = []
        told = asyncio.Event()

        def answer(outcome: Outcome) -> None:
            answers.append(outcome)
            told.set()

        return self.sender.send(to, batch(), answer), answers, told


@asynccontextmanager
async def webhook_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with Receiver(answering(OK)) as good, Receiver(answering(status(503))) as busy, Receiver(silent) as mute:
        sender = WebhookSender(Egress.LOCAL, resolver=names(), now=lambda: 0)
        places = (good.url, busy.url, mute.url, "http://gone.test/")
        yield World(sender, *(WebHook(url=url) for url in places))
        await sender.close()


@asynccontextmanager
async def memory_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    places = good, busy, mute, gone = tuple(WebHook(url=f"http://{name}.test/") for name in ("a", "b", "c", "d"))
    script = {
        good: ScriptedOutcome(answered(200)),
        busy: ScriptedOutcome(answered(503), 0.01),
        mute: None,
        gone: ScriptedOutcome(Outcome(Result.RESOLUTION_ERROR, detail="no such name")),
    }

    def answer(destination: Destination, sent: Batch) -> ScriptedOutcome | None:
        return script[destination]

    sender = MemorySender(answer)
    yield World(sender, *places)
    await sender.close()


@asynccontextmanager
async def storage_queue_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A queue of a real Azurite, and services that are only said to be one."""
    azurite = request.getfixturevalue("azurite")
    async with Receiver(answering(status(503))) as busy, Receiver(silent) as mute:
        good = await asyncio.to_thread(new_queue, azurite)
        places = {"busy": busy.at("127.0.0.1"), "mute": mute.at("127.0.0.1"), "gone": "http://gone.test/hook"}
        storage_clients = reaching(
            azurite.connection, *(queue_service(name, url) for name, url in places.items()), names=names()
        )
        sender = StorageQueueSender(storage_clients)
        yield World(sender, good, *(StorageQueue(account=account(name), queue="todo") for name in places))
        await sender.close()
        await storage_clients.close()


@asynccontextmanager
async def function_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Functions whose hosts are alike, each found by its connection."""
    async with Receiver(answering(OK)) as good, Receiver(answering(status(503))) as busy, Receiver(silent) as mute:
        hosts = [f"http://127.0.0.1:{receiver.port}" for receiver in (good, busy, mute)] + ["http://gone.test"]
        ids = [f"/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/a{n}/functions/f" for n in range(4)]
        connections = {id.lower(): from_function_host(id, host) for id, host in zip(ids, hosts, strict=True)}
        webhooks = WebhookSender(Egress.LOCAL, resolver=names(), now=lambda: 0)
        sender = AzureHttpSender(FunctionAdapter(), keyring(connections), webhooks)
        yield World(sender, *(AzureFunction(resource_id=id) for id in ids))
        await sender.close()
        await webhooks.close()


@asynccontextmanager
async def event_grid_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Topics of other servers, each found by its connection."""
    async with Receiver(answering(OK)) as good, Receiver(answering(status(503))) as busy, Receiver(silent) as mute:
        hosts = [f"http://127.0.0.1:{receiver.port}" for receiver in (good, busy, mute)] + ["http://gone.test"]
        ids = [f"/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/t{n}" for n in range(4)]
        texts = [Choice(connection_string=f"Endpoint={host};SharedAccessKey=key") for host in hosts]
        connections = {id.lower(): choose(id, text) for id, text in zip(ids, texts, strict=True)}
        webhooks = WebhookSender(Egress.LOCAL, resolver=names(), now=lambda: 0)
        sender = AzureHttpSender(EventGridAdapter(EntraTokens()), keyring(connections), webhooks)
        yield World(sender, *(EventGrid(resource_id=id) for id in ids))
        await sender.close()
        await webhooks.close()


def broker_world(kind: type[Broker]) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[World]]:
    """Entities of the tests' broker, and a name that leads nowhere."""

    @asynccontextmanager
    async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
        local = request.getfixturevalue("broker")
        gone = kind(resource_id=new(kind).resource_id.replace("orders1", "gone"))
        text = local.connection_string().replace("127.0.0.1", "gone.test")
        top = gone.resource_id.rpartition("/")[0].rpartition("/")[0]
        found = known(*local.connections(), from_connection_string(top, text))
        brokers = AmqpClients(AzureAccess(found, names(), Egress.LOCAL))
        sender = BrokerSender(brokers)
        yield World(sender, *(new(kind, behaviour) for behaviour in ("good", "busy", "mute")), gone)
        await sender.close()
        await brokers.close()

    return world


Law = Callable[[World], Awaitable[None]]
STORAGE_QUEUE = pytest.param(storage_queue_world, marks=pytest.mark.xdist_group("azurite"))


BROKERS = [
    pytest.param(broker_world(kind), marks=pytest.mark.xdist_group("broker"), id=f"{kind.__name__}_world")
    for kind in (ServiceBusQueue, EventHub)
]


@pytest.fixture(params=[webhook_world, memory_world, function_world, event_grid_world, STORAGE_QUEUE, *BROKERS])
def hold(request: pytest.FixtureRequest) -> Callable[[Law], None]:
    """Holds an implementation to a law."""
    world: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[World]] = request.param

    async def main(law: Law) -> None:
        async with asyncio.timeout(20), world(request) as it:
            await law(it)

    return lambda law: asyncio.run(main(law))


def test_answers_once_and_later(hold: Callable[[Law], None]) -> None:
    """`send` returns at once; the answer is the endpoint's, comes once, and never before `send` has returned."""

    async def law(world: World) -> None:
        for to, expected in ((world.good, answered(200)), (world.busy, answered(503))):
            _, answers, told = world.send(to)
            assert answers == []
            await told.wait()
            await asyncio.sleep(0.05)
            assert [(answer.result, answer.status) for answer in answers] == [(expected.result, expected.status)]

    hold(law)


def test_failures_are_outcomes(hold: Callable[[Law], None]) -> None:
    """An endpoint that cannot be reached is an outcome with a reason, not an exception, and comes later too."""

    async def law(world: World) -> None:
        for _ in range(2):  # the second time from what the sender remembers
            _, answers, told = world.send(world.gone)
            assert answers == []
            await told.wait()
            [outcome] = answers
            assert (outcome.result, outcome.status) == (Result.RESOLUTION_ERROR, None)
            assert outcome.detail

    hold(law)


def test_no_answer_after_abort(hold: Callable[[Law], None]) -> None:
    """After `abort` has returned no answer comes, whatever the endpoint does, and aborting again does nothing."""

    async def law(world: World) -> None:
        sent = [world.send(to) for to in (world.good, world.busy, world.mute, world.gone) for _ in range(5)]
        for exchange, _, _ in sent:
            exchange.abort()
            exchange.abort()
        await asyncio.sleep(0.1)
        assert all(answers == [] for _, answers, _ in sent)

    hold(law)


def test_abort_after_the_answer(hold: Callable[[Law], None]) -> None:
    """Aborting what is answered does nothing, and does not hurt the next exchange."""

    async def law(world: World) -> None:
        for _ in range(3):
            exchange, answers, told = world.send(world.good)
            await told.wait()
            exchange.abort()
            assert answers == [answered(200)]

    hold(law)


def test_abort_from_an_answer(hold: Callable[[Law], None]) -> None:
    """An answer may abort other exchanges and start new ones."""

    async def law(world: World) -> None:
        other, other_answers, _ = world.send(world.mute)
        done = asyncio.Event()

        def again(outcome: Outcome) -> None:
            done.set()

        def answer(outcome: Outcome) -> None:
            other.abort()
            world.sender.send(world.good, batch(), again)

        world.sender.send(world.good, batch(), answer)
        await done.wait()
        assert other_answers == []

    hold(law)


def test_endpoints_do_not_delay_each_other(hold: Callable[[Law], None]) -> None:
    """With exchanges open to an endpoint that never answers, another one answers as ever."""

    async def law(world: World) -> None:
        mute = [world.send(world.mute) for _ in range(100)]
        for _ in range(20):
            _, _, told = world.send(world.good)
            await told.wait()
        assert all(answers == [] for _, answers, _ in mute)

    hold(law)


def test_no_answer_after_close(hold: Callable[[Law], None]) -> None:
    """`close` aborts what is open: nothing is answered after it."""

    async def law(world: World) -> None:
        sent = [world.send(to) for to in (world.good, world.busy, world.mute, world.gone)]
        await world.sender.close()
        before = [list(answers) for _, answers, _ in sent]
        await asyncio.sleep(0.05)
        assert [answers for _, answers, _ in sent] == before
        for exchange, _, _ in sent:
            exchange.abort()

    hold(law)
