"""The service put together: events to a queue of a real Azurite, dead letters to its blobs and back, functions."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from recapito.clock import Origin
from recapito.composition import service as app
from recapito.composition import stores as storage
from recapito.dispatch.clock_mover import ClockMover
from recapito.domain.connections.connection import AccountKey, Connection
from recapito.domain.connections.parse_host import from_function_host
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.domain.resources.destination import StorageQueue
from recapito.domain.resources.subscription import Batching, DeadLetterBlobs, DeadLetterDirectory, RetryPolicy
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.observability.journal import silent
from recapito.settings import settings
from tests.azurite.place import ACCOUNT, new_container, new_queue
from tests.azurite.server import Azurite
from tests.senders.receiver import Receiver as FunctionReceiver
from tests.senders.test_function import APP, ORDERS, FunctionsHost

pytestmark = pytest.mark.xdist_group("azurite")
NOON = 1_900_000_000 * 1_000_000_000
EVENTS = [{"id": str(n), "subject": "a", "eventType": "b", "eventTime": "2030-01-01T00:00:00Z"} for n in range(3)]
CANARY = "Y2FuYXJ5Y2FuYXJ5"


class Service:
    """The parts of a server in this process, on a clock that stands until it is moved."""

    def __init__(self, intake: app.Intake, stores: storage.Stores, clock: ClockMover) -> None:
        self.stores = stores
        self.advance = clock.advance
        self._intake = intake

    async def subscribe(self, **draft: Any) -> None:
        """A topic, and one subscription of it."""
        draft = {"name": "orders-sub", **draft}
        provisioner = self._intake.provisioner
        topic = await provisioner.put_topic(TopicDraft(name="orders", azure_subscription="s", resource_group="g"))
        await provisioner.put_subscription(topic, SubscriptionDraft(**draft))

    async def redrive(self) -> Any:
        """Redrive all dead letters, as the command line does."""
        answer = await self._post("/deadletters/redrive", b"{}", (b"content-type", b"application/json"))
        return json.loads(answer)

    async def publish(self, events: list[dict[str, str]]) -> None:
        """Publish, as a client with the topic's key does."""
        topic = await self.stores.registry.topic("orders")
        assert topic is not None
        await self._post(
            "/topics/orders/api/events", json.dumps(events).encode(), (b"aeg-sas-key", topic.key1.encode())
        )

    async def _post(self, path: str, body: bytes, header: tuple[bytes, bytes]) -> bytes:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), header]
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        more = {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "server": ("127.0.0.1", 80)}
        await self._intake.surface.app({**scope, **more}, receive, send)
        assert sent[0]["status"] == 200, sent
        return b"".join(part.get("body", b"") for part in sent[1:])


def serve(
    story: Callable[[Service], Awaitable[None]], data: Path, *connections: Connection, store: str = "memory"
) -> None:
    """Tell a story with a service that has these connections."""

    async def main() -> None:
        chosen = settings.load(
            environment={},
            flags={
                "server.store": store,
                "server.data": str(data),
                "clock.mode": "manual",
                "clock.patience_s": 20.0,
                "delivery.handshake": "off",
            },
        )
        clock = app.make_clock(chosen, Origin(NOON, 0))
        await storage.prepare_store(chosen, silent)
        async with storage.open_both(chosen, clock, silent) as stores:
            for connection in connections:
                await stores.keyring.set(connection, NOON)
            dispatch = app.make_dispatch(chosen, stores, clock, silent)
            intake = app.make_intake(chosen, stores, clock, silent, dispatch.dispatcher.notify, lambda: None)
            mover = app.make_clock_control(chosen, clock, dispatch, stores)
            assert isinstance(mover, ClockMover)
            running = [asyncio.create_task(dispatch.dispatcher.run(dispatch.writer))]
            running.append(asyncio.create_task(intake.publisher.run()))
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(60):
                    await story(Service(intake, stores, mover))
            finally:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)
                await dispatch.sender.close()
                await dispatch.reach.close()
                await dispatch.brokers.close()
                await intake.caller.close()
                await intake.reach.close()

    asyncio.run(main())


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_events_to_a_queue(azurite: Azurite, tmp_path: Path, store: str) -> None:
    """What is published arrives in the queue: one message an event, in the Event Grid schema, whole."""
    queue = new_queue(azurite)

    async def story(service: Service) -> None:
        await service.subscribe(destination=queue)
        await service.publish(EVENTS)
        assert (await service.advance(0))["delivered"] == 3

    serve(story, tmp_path, azurite.connection, store=store)
    with azurite.queues() as client:
        found = [json.loads(b64decode(one.content)) for one in client.get_queue_client(queue.queue).peek_messages(9)]
    assert sorted(event["id"] for event in found) == ["0", "1", "2"]
    assert {event["topic"].rpartition("/")[2] for event in found} == {"orders"}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if AZURITE_KEY.encode() in file.read_bytes()]


def test_dead_letters_to_blobs(azurite: Azurite, tmp_path: Path) -> None:
    """Events for a queue that does not exist are tried again after five minutes, die, and become one blob."""
    container = new_container(azurite)
    name = container.rpartition("/")[2]

    async def story(service: Service) -> None:
        await service.subscribe(
            destination=StorageQueue(account=ACCOUNT, queue="nowhere"),
            dead_letter=DeadLetterBlobs(ACCOUNT, name),
            retry_policy=RetryPolicy(max_attempts=2),
        )
        await service.publish(EVENTS)
        first = await service.advance(299)
        assert (first["deadLettered"], first["pending"]) == (0, 3)
        assert (await service.advance(3600))["deadLettered"] == 3

    serve(story, tmp_path, azurite.connection)
    with azurite.blobs() as client:
        paths = [blob.name for blob in client.get_container_client(name).list_blobs()]
    assert len(paths) < 3 and all(path.startswith("ORDERS-SUB/2030/3/17/") for path in paths), paths
    records = [record for path in paths for record in json.loads(azurite.read_blob(name, path))]
    assert sorted(record["id"] for record in records) == ["0", "1", "2"]
    outcomes = {(record["lastDeliveryOutcome"], record["deliveryAttempts"]) for record in records}
    assert outcomes == {("NotFound", 2)}


def test_a_connection_that_is_set_later(azurite: Azurite, tmp_path: Path) -> None:
    """A wrong key parks the events as a webhook's would be; once it is set right, they arrive without a restart."""
    queue = new_queue(azurite)
    wrong = replace(azurite.connection, credential=AccountKey(AZURITE_ACCOUNT, CANARY))

    async def story(service: Service) -> None:
        await service.subscribe(destination=queue)
        await service.publish(EVENTS[:1])
        assert (await service.advance(1))["pending"] == 1
        await service.stores.keyring.set(azurite.connection, NOON)
        assert (await service.advance(3600))["delivered"] == 1

    serve(story, tmp_path, wrong)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_dead_letters_are_redriven_from_blobs(azurite: Azurite, tmp_path: Path, store: str) -> None:
    """Events that died for want of their queue are read from their blobs and arrive once it is there."""
    container = new_container(azurite)
    name, queue = container.rpartition("/")[2], f"later-{container.rpartition('-')[2]}-{store}"

    async def story(service: Service) -> None:
        await service.subscribe(
            destination=StorageQueue(account=ACCOUNT, queue=queue),
            dead_letter=DeadLetterBlobs(ACCOUNT, name),
            retry_policy=RetryPolicy(max_attempts=1),
        )
        await service.publish(EVENTS)
        assert (await service.advance(3600))["deadLettered"] == 3
        with azurite.queues() as client:
            await asyncio.to_thread(client.create_queue, queue)
        assert (await service.redrive())["done"] == 3
        assert (await service.redrive())["selected"] == 0
        await service.advance(3600)
        (lane,) = await service.stores.ledger.lanes()
        assert (lane.counts.matched, lane.counts.delivered, lane.counts.dead_lettered) == (6, 3, 3)

    serve(story, tmp_path, azurite.connection, store=store)
    with azurite.queues() as client:
        found = [json.loads(b64decode(one.content)) for one in client.get_queue_client(queue).peek_messages(9)]
    assert sorted(event["id"] for event in found) == ["0", "1", "2"]
    assert not [name for event in found for name in event if name.startswith("deadLetter")]
    with azurite.blobs() as client:
        assert list(client.get_container_client(name).list_blobs())


@pytest.mark.parametrize("batches", [1, 10])
def test_events_to_a_function(tmp_path: Path, batches: int) -> None:
    """What is published arrives at a Functions host as `func start` has one, in batches if asked for."""
    host = FunctionsHost()

    async def story(service: Service) -> None:
        async with FunctionReceiver(host) as receiver:
            await service.stores.keyring.set(from_function_host(APP, f"http://127.0.0.1:{receiver.port}"), NOON)
            await service.subscribe(destination=ORDERS, batching=Batching(batches))
            await service.publish(EVENTS)
            assert (await service.advance(0))["delivered"] == 3
            assert len(receiver.requests) == (3 if batches == 1 else 1)

    serve(story, tmp_path)
    assert sorted(event["id"] for event in host.events) == ["0", "1", "2"]


def test_a_function_without_a_trigger_dies_with_its_reason(tmp_path: Path) -> None:
    """It falls under the rules for Azure resources: a 404 is tried again after five minutes, then it is buried."""
    host = FunctionsHost(function="OnOther")

    async def story(service: Service) -> None:
        async with FunctionReceiver(host) as receiver:
            await service.stores.keyring.set(from_function_host(APP, f"http://127.0.0.1:{receiver.port}"), NOON)
            await service.subscribe(
                destination=ORDERS, dead_letter=DeadLetterDirectory("box"), retry_policy=RetryPolicy(max_attempts=2)
            )
            await service.publish(EVENTS[:1])
            assert (await service.advance(299))["pending"] == 1
            assert len(receiver.requests) == 1
            assert (await service.advance(3600))["deadLettered"] == 1
            assert len(receiver.requests) == 2

    serve(story, tmp_path)
    (file,) = (tmp_path / "deadletters" / "box").rglob("*.json")
    assert json.loads(file.read_bytes())[0]["lastDeliveryOutcome"] == "InvalidAzureFunctionDestination"
