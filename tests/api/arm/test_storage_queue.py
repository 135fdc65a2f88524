"""Storage queues as destinations over ARM: taken and shown, refused by field, and only where a connection leads."""

from typing import Any

import pytest

from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.parse_storage import azurite, from_connection_string
from recapito.domain.resources.destination import StorageQueue, WebHook
from recapito.domain.resources.subscription import Batching
from tests.api.arm.doubles import everywhere, nobody
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, World, run
from tests.kit.arm_errors import refused

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders1"
WITHIN = "properties.destination.properties"


def queue(**changed: Any) -> dict[str, Any]:
    """A storage queue on the wire."""
    return {"endpointType": "StorageQueue", "properties": {"resourceId": ACCOUNT, "queueName": "todo", **changed}}


async def blobs_only(resource_id: str) -> Connection | None:
    """A connection without a queue service."""
    return azurite(resource_id, ports={AzureService.BLOB: 10000})


@pytest.mark.parametrize(
    ("asked", "ttl_s"), [({}, 604_800), ({"queueMessageTimeToLiveInSeconds": -1}, -1), ({"QUEUENAME": "todo"}, 604_800)]
)
def test_a_queue_is_taken_and_shown(asked: dict[str, Any], ttl_s: int) -> None:
    """A queue needs no handshake; its messages last seven days unless asked otherwise; it is shown as it was asked."""

    async def test(world: World) -> None:
        await world.topic()
        sent = queue(**asked)
        if "QUEUENAME" in asked:  # names of properties compare without case
            del sent["properties"]["queueName"]
        made = await world.subscription(destination=sent)
        assert made.destination == StorageQueue(account=ACCOUNT, queue="todo", ttl_s=ttl_s)
        assert (made.batching, made.attributes, made.handshake) == (Batching(), (), None)
        shown = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
        assert shown["destination"] == queue(queueMessageTimeToLiveInSeconds=ttl_s)
        assert shown["provisioningState"] == "Succeeded"
        answer = await world.arm("POST", f"{NESTED}/mine/getFullUrl")
        assert (answer.status, answer.json) == (200, {"endpointUrl": None})
        assert (await world.arm("DELETE", f"{NESTED}/mine")).status in (200, 202)

    run(test, find_connection=everywhere, webhooks=nobody)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"queueMessageTimeToLiveInSeconds": 0}, "must be between 1 and 2147483647, or -1: forever."),
        ({"DeliveryAttributeMappings": []}, "cannot be set: a message of a storage queue has no headers"),
    ],
)
def test_what_a_queue_takes_is_said(changed: dict[str, Any], says: str) -> None:
    """The whole range of a time to live, and why there are no delivery properties."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=queue(**changed)))
        assert says in answer.error["message"]

    run(test, find_connection=everywhere)


WRONG = [
    ({"resourceId": None}, "resourceId"),
    ({"resourceId": "orders1"}, "resourceId"),
    ({"resourceId": f"{ACCOUNT}/queueServices/default/queues/todo"}, "resourceId"),
    ({"resourceId": ACCOUNT.replace("Storage/storageAccounts", "ServiceBus/namespaces")}, "resourceId"),
    ({"queueName": None}, "queueName"),
    *(({"queueName": name}, "queueName") for name in ("", "ab", "Upper", "a--b", "-ab", "ab-", "a/b", "x" * 64)),
    *(({"queueMessageTimeToLiveInSeconds": n}, "queueMessageTimeToLiveInSeconds") for n in (0, -2, 2**31, "1", 1.5)),
    ({"deliveryAttributeMappings": []}, "deliveryAttributeMappings"),
    ({"maxEventsPerBatch": 2}, "maxEventsPerBatch"),
]


@pytest.mark.parametrize(("changed", "field"), WRONG)
def test_what_is_wrong_is_named(changed: dict[str, Any], field: str) -> None:
    """A wrong id, name or time to live, and what a queue does not have, is 400 with its path, and nothing is made."""

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=queue(**changed)))
        assert (answer.status, answer.error["target"]) == (400, f"{WITHIN}.{field}")
        assert (await world.arm("GET", f"{NESTED}/mine")).status == 404

    run(test, find_connection=everywhere)


@pytest.mark.parametrize("options", [{}, {"find_connection": blobs_only}])
def test_a_queue_without_a_connection(options: dict[str, Any]) -> None:
    """A queue without a connection is refused, naming the command; so is one of a blob-only connection."""

    async def test(world: World) -> None:
        await world.topic()
        message = refused(
            await world.arm("PUT", f"{NESTED}/mine", body(destination=queue())),
            400,
            "InvalidRequest",
            f"{WITHIN}.resourceId",
        )
        assert f"recapito connection set {ACCOUNT}" in message

    run(test, **options)


def test_a_queue_with_a_signature_that_may_not_write() -> None:
    """The rights that the signature of a connection states are checked when the subscription is made."""

    async def reading(resource_id: str) -> Connection | None:
        token = "sv=2024-01-01&ss=q&sp=rp&se=2100-01-01T00:00:00Z&sig=c2VjcmV0"
        text = f"QueueEndpoint=https://orders1.queue.core.windows.net;SharedAccessSignature={token}"
        return from_connection_string(ACCOUNT, text)

    async def test(world: World) -> None:
        await world.topic()
        answer = await world.arm("PUT", f"{NESTED}/mine", body(destination=queue()))
        said = refused(answer, 400, "InvalidRequest", f"{WITHIN}.resourceId")
        assert "may not write to its queue service (sp needs one of 'a')" in said and "c2VjcmV0" not in said

    run(test, find_connection=reading)


def test_a_subscription_may_change_its_kind_of_destination() -> None:
    """From a webhook with batches to a queue, which has none, and back."""

    async def test(world: World) -> None:
        await world.topic()
        made = await world.subscription()
        for sent, kind in ((queue(), StorageQueue), (body()["properties"]["destination"], WebHook)):
            answer = await world.arm("PATCH", f"{NESTED}/mine", {"destination": sent})
            assert answer.status == 201, answer.body
            changed = await world.log.subscription_by_id(made.id)
            assert changed is not None and isinstance(changed.destination, kind)

    run(test, find_connection=everywhere)
