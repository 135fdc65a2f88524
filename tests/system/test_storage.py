"""The service put together: events to a queue of a real Azurite, dead letters to its blobs and back, functions."""

import asyncio
import json
from base64 import b64decode
from pathlib import Path

import pytest
from msgspec.structs import replace

from recapito.domain.connections.connection import AccountKey
from recapito.domain.connections.parse_host import from_function_host
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.domain.resources.destination import StorageQueue
from recapito.domain.resources.subscription import Batching, DeadLetterBlobs, DeadLetterDirectory, RetryPolicy
from tests.azurite.place import ACCOUNT, new_container, new_queue
from tests.azurite.server import Azurite
from tests.senders.functions_host import APP, ORDERS, FunctionsHost
from tests.senders.receiver import Receiver as FunctionReceiver
from tests.system.storage_service import EVENTS, NOON, Service, serve

pytestmark = pytest.mark.xdist_group("azurite")
CANARY = "Y2FuYXJ5Y2FuYXJ5"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_events_to_a_queue(azurite: Azurite, tmp_path: Path, store: str) -> None:
    """Published events arrive in the queue: one message for each, in the Event Grid schema, whole."""
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
        assert first["deadLettered"] == 0
        assert first["pending"] == 3
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
        await service.keyring.set(azurite.connection, NOON)
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
        assert lane.counts.matched == 6
        assert lane.counts.delivered == 3
        assert lane.counts.dead_lettered == 3

    serve(story, tmp_path, azurite.connection, store=store)
    with azurite.queues() as client:
        found = [json.loads(b64decode(one.content)) for one in client.get_queue_client(queue).peek_messages(9)]
    assert sorted(event["id"] for event in found) == ["0", "1", "2"]
    assert not [name for event in found for name in event if name.startswith("deadLetter")]
    with azurite.blobs() as client:
        assert list(client.get_container_client(name).list_blobs())


@pytest.mark.parametrize("batches", [1, 10])
def test_events_to_a_function(tmp_path: Path, batches: int) -> None:
    """Published events arrive at a Functions host like that of `func start`, in batches if wanted."""
    host = FunctionsHost()

    async def story(service: Service) -> None:
        async with FunctionReceiver(host) as receiver:
            await service.keyring.set(from_function_host(APP, f"http://127.0.0.1:{receiver.port}"), NOON)
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
            await service.keyring.set(from_function_host(APP, f"http://127.0.0.1:{receiver.port}"), NOON)
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
