"""Connections, tried: on a real Azurite, Microsoft's clients over AMQP, a Functions host and a relay of the tests."""

import asyncio
import datetime
import socket
from email.utils import format_datetime
from typing import Any

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from msgspec.structs import replace

from recapito.azure.access import AzureAccess
from recapito.azure.amqp_clients import AmqpClients
from recapito.clock import SystemClock
from recapito.composition.outbound import make_probes
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.parse_host import from_function_host
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    from_connection_string,
    from_sas_url,
)
from recapito.domain.resources.destination import (
    AzureFunction,
    EventHub,
    HybridConnection,
    ServiceBusQueue,
    StorageQueue,
    WebHook,
)
from recapito.domain.resources.resource_id import container_id
from recapito.domain.resources.subscription import DeadLetterBlobs
from recapito.errors import NotFound
from recapito.intake.resources.connection_check import NOTE, OK, WRONG, CheckFinding, ConnectionChecker
from recapito.senders.http.resolver import Resolver
from recapito.senders.http.web_caller import WebCaller
from recapito.stores.memory import MemoryLog
from tests.amqp.broker import EVENT_HUBS, KEY, SERVICE_BUS, LocalBroker, new
from tests.azurite.place import ACCOUNT, account, blob_service, known, new_container, new_queue, reaching
from tests.azurite.server import Azurite
from tests.azurite.shared_access import HOUR, account_sas, with_sas
from tests.relay.front import RelayFront
from tests.senders import relay_namespace
from tests.senders.functions_host import APP, ORDERS, FunctionsHost
from tests.senders.receiver import Receiver, answering, names, status
from tests.senders.relay_namespace import NAMESPACE, RULES
from tests.stores.values import new_subscription, new_topic

CANARY = "Y2FuYXJ5Y2FuYXJ5"
azurites = pytest.mark.xdist_group("azurite")
brokers = pytest.mark.xdist_group("broker")


class Stage:
    """Subscriptions, connections, and who tries them."""

    def __init__(self, *connections: Connection, resolver: Resolver | None = None) -> None:
        self.log = MemoryLog()
        resolver = resolver or Resolver()
        self.storage_clients = reaching(*connections, names=resolver)
        self.brokers = AmqpClients(AzureAccess(known(*connections), resolver, Egress.LOCAL))
        self.caller = WebCaller(Egress.LOCAL)
        probes = make_probes(self.storage_clients, self.brokers, self.caller)
        self.examiner = ConnectionChecker(self.log, known(*connections), probes, SystemClock())

    async def subscribe(self, *destinations: Any, **fields: Any) -> None:
        """Subscriptions to these."""
        topic = await self.log.topic("orders") or await self.log.put_topic(new_topic())
        for n, destination in enumerate(destinations):
            made = new_subscription(topic.id, f"sub-{n}", **fields)
            await self.log.put_subscription(replace(made, destination=destination))

    async def close(self) -> None:
        await self.storage_clients.close()
        await self.brokers.close()
        await self.caller.close()


def examine(
    id: str, *connections: Connection, destinations: tuple[Any, ...] = (), resolver: Resolver | None = None, **more: Any
) -> list[CheckFinding]:
    """The findings about a connection; none has a secret in it."""

    async def main() -> list[CheckFinding]:
        stage = Stage(*connections, resolver=resolver)
        try:
            await stage.subscribe(*destinations, **more)
            return await stage.examiner.examine(id)
        finally:
            await stage.close()

    found = asyncio.run(asyncio.wait_for(main(), 60))
    for secret in (CANARY, AZURITE_KEY, KEY, "canary"):
        assert secret not in repr(found)
    return found


def states(found: list[CheckFinding]) -> list[str]:
    return [finding.state for finding in found]


BUS = f"Endpoint=sb://{{}};SharedAccessKeyName=a;SharedAccessKey={CANARY};UseDevelopmentEmulator=true"
HOOK = WebHook(url="http://127.0.0.1/hook")


@azurites
def test_storage_that_is_well(azurite: Azurite) -> None:
    """A container can be written to, and nothing is left in it; a queue is there; else the account knows us."""
    container, queue = new_container(azurite), new_queue(azurite)
    letters = DeadLetterBlobs(ACCOUNT, container.rpartition("/")[2])
    found = examine(ACCOUNT, azurite.connection, destinations=(queue, HOOK), dead_letter=letters)
    assert states(found) == [OK, OK]
    assert {finding.resource for finding in found} == {container, queue.resource_id}
    with azurite.blobs() as client:
        assert list(client.get_container_client(letters.container_name).list_blobs()) == []
    unused = examine(ACCOUNT, azurite.connection)
    assert [(one.state, one.resource, one.found) for one in unused] == [
        (OK, ACCOUNT, "its blob service answers, and knows us"),
        (OK, ACCOUNT, "its queue service answers, and knows us"),
    ]


@azurites
def test_storage_that_is_not(azurite: Azurite) -> None:
    """A missing container or queue, a wrong key, a signature that ended or may not write: each with its remedy."""
    missing = StorageQueue(account=ACCOUNT, queue="nowhere")
    letters = DeadLetterBlobs(ACCOUNT, "nowhere")
    found = examine(ACCOUNT, azurite.connection, destinations=(missing,), dead_letter=letters)
    assert {(one.state, one.found) for one in found} == {(WRONG, "NotFound (404)")}
    assert all("it does not exist: create it" in one.remedy for one in found)
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={CANARY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
    letters = DeadLetterBlobs(ACCOUNT, new_container(azurite).rpartition("/")[2])
    for connection, says in (
        (from_connection_string(ACCOUNT, text), "its key is wrong"),
        (with_sas(azurite, account_sas(-HOUR, write=True)), "ended at"),
        (with_sas(azurite, account_sas(HOUR, read=True)), "may not write"),
    ):
        (one,) = examine(ACCOUNT, connection, destinations=(HOOK,), dead_letter=letters)
        assert one.state == WRONG and says in one.remedy and f"recapito connection set {ACCOUNT}" in one.remedy
    (one,) = examine(
        ACCOUNT, with_sas(azurite, account_sas(HOUR, write=True)), destinations=(HOOK,), dead_letter=letters
    )
    assert one.state == OK


@azurites
def test_a_signature_of_one_container(azurite: Azurite) -> None:
    """It is tried on its container, whether a subscription uses it or not."""
    container = new_container(azurite)
    url = f"{azurite.url(AzureService.BLOB)}/{container.rpartition('/')[2]}?{account_sas(HOUR, create=True)}"
    assert states(examine(container, from_sas_url(container, url))) == [OK]


@azurites
def test_a_signature_that_has_not_begun(azurite: Azurite) -> None:
    """When it begins is said, and the remedy names the container's own connection, not the account's."""
    container, now = new_container(azurite), datetime.datetime.now(datetime.UTC)
    name = container.rpartition("/")[2]
    may = ContainerSasPermissions(create=True)
    token = generate_container_sas(
        AZURITE_ACCOUNT, name, AZURITE_KEY, permission=may, start=now + HOUR, expiry=now + 2 * HOUR
    )
    (one,) = examine(container, from_sas_url(container, f"{azurite.url(AzureService.BLOB)}/{name}?{token}"))
    assert (one.state, one.found) == (WRONG, "Unauthorized (401)")
    assert f"the signature of the connection to {container} begins at 20" in one.remedy
    wrong = f"sv=2024-11-04&sr=c&sp=c&se=2100-01-01T00:00:00Z&sig={CANARY}"
    (one,) = examine(container, from_sas_url(container, f"{azurite.url(AzureService.BLOB)}/{name}?{wrong}"))
    assert f"recapito connection set {container}" in one.remedy


def test_a_host_that_can_not_be_reached() -> None:
    """An unknown name and a closed port are said as such."""
    lost = blob_service("lost", "http://lost.test:10000/lost")
    (one,) = examine(account("lost"), lost, resolver=names())
    assert (one.state, one.found) == (WRONG, "ResolutionError")
    assert one.remedy == (
        "storage account lost: lost.test: Name or service not known. Is the name right, and known where the server"
        f" runs? If not: recapito connection set {account('lost')}"
    )
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = f"127.0.0.1:{closed.getsockname()[1]}"
    (one,) = examine(account("shut"), blob_service("shut", f"http://{place}/shut"))
    assert (one.state, one.found) == (WRONG, "SocketError")
    assert one.remedy.startswith(f"storage account shut: {place}: Connection refused. Is it up")
    (one,) = examine(SERVICE_BUS, from_connection_string(SERVICE_BUS, BUS.format(place)))
    assert one.remedy.startswith("namespace orders1: Connection refused (ConnectionRefusedError). Is it up")
    metadata = blob_service("inner", "http://169.254.169.254")
    (one,) = examine(account("inner"), metadata)
    assert one.remedy.endswith("The setting delivery.egress decides which addresses are dialled.")


@pytest.mark.parametrize(("hours", "says"), [(1, "60 minutes behind"), (-2, "120 minutes ahead of")])
def test_a_clock_that_is_wrong(hours: int, says: str) -> None:
    """Where the service believes no signature and its clock is far from ours, that is what is said."""

    async def main() -> list[CheckFinding]:
        date = format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours), True)
        answer = status(403, f"Date: {date}", "x-ms-error-code: AuthenticationFailed")
        async with Receiver(answering(answer)) as service:
            stage = Stage(blob_service("late", service.at("127.0.0.1").removesuffix("/hook") + "/late"))
            found = await stage.examiner.examine(account("late"))
            await stage.close()
            return found

    (one,) = asyncio.run(main())
    assert (one.state, one.found) == (WRONG, "Unauthorized (401)")
    assert f"this machine's clock is {says} the service's" in one.remedy


def emulated(broker: LocalBroker, namespace: str, key: str = KEY) -> Connection:
    return from_connection_string(namespace, broker.connection_string(key))


@brokers
def test_brokers(broker: LocalBroker) -> None:
    """A good entity takes what is sent; one that is gone, disabled or denied, and a wrong key, are said so."""
    connections = emulated(broker, SERVICE_BUS), emulated(broker, EVENT_HUBS)
    wanted = {
        new(ServiceBusQueue): (OK, ""),
        new(ServiceBusQueue, "gone"): (WRONG, "it does not exist"),
        new(ServiceBusQueue, "disabled"): (WRONG, "it is disabled for sending: enable it"),
        new(ServiceBusQueue, "denied"): (WRONG, "may not send there: grant it"),
        new(ServiceBusQueue, "ended"): (WRONG, "has ended"),
    }
    found = examine(SERVICE_BUS, *connections, destinations=tuple(wanted))
    by_resource = {one.resource: one for one in found}
    for to, (state, says) in wanted.items():
        one = by_resource[to.resource_id]
        assert one.state == state and says in one.remedy, one
    assert states(examine(EVENT_HUBS, *connections, destinations=(new(EventHub),))) == [OK]
    (one,) = examine(SERVICE_BUS, emulated(broker, SERVICE_BUS, CANARY), destinations=(new(ServiceBusQueue),))
    assert (one.state, one.found) == (WRONG, "Unauthorized (401)")


@pytest.mark.parametrize(
    ("host", "code", "used", "state", "says"),
    [
        (FunctionsHost("canary-1"), "canary-1", True, OK, ""),
        (FunctionsHost(), "", False, OK, ""),
        (FunctionsHost("canary-1"), "canary-2", True, WRONG, "the host refuses the key of its connection"),
        (FunctionsHost(function="OnOther"), "", True, WRONG, "no function of that name with an Event Grid trigger"),
    ],
)
def test_functions(host: FunctionsHost, code: str, used: bool, state: str, says: str) -> None:
    """Key and trigger are looked at by the host, and no function is called."""

    async def main() -> list[CheckFinding]:
        async with Receiver(host) as receiver:
            url = f"http://127.0.0.1:{receiver.port}"
            stage = Stage(from_function_host(APP, f"{url}?code={code}" if code else url))
            await stage.subscribe(*((ORDERS,) if used else ()))
            found = await stage.examiner.examine(APP)
            await stage.close()
            return found

    (one,) = asyncio.run(main())
    assert one.state == state and says in one.remedy and "canary" not in repr(one)
    assert host.events == []


def test_somebody_else_at_the_address() -> None:
    """A web server that says 404 to everything is no storage account and no Functions host."""

    async def main() -> list[CheckFinding]:
        async with Receiver(answering(status(404))) as other:
            url = f"http://127.0.0.1:{other.port}"
            stage = Stage(blob_service("other", f"{url}/other"), from_function_host(APP, url))
            found = [*await stage.examiner.examine(account("other")), *await stage.examiner.examine(APP)]
            await stage.close()
            return found

    storage, function = asyncio.run(main())
    assert (storage.state, storage.found) == (WRONG, "GenericError (404)")
    assert storage.remedy.startswith("storage account other: what answers does not speak as Azure Storage does")
    assert (function.state, function.found) == (WRONG, "NotFound (404)")
    assert "is it a Functions host" in function.remedy


def test_a_relay_is_not_asked_for_what_somebody_listens_to() -> None:
    """Only a name that is not there is asked for; a key of one hybrid connection is not tried at all."""

    async def main() -> list[CheckFinding]:
        async with RelayFront(RULES, {"orders"}) as front:
            stage = Stage(relay_namespace.connection(front.port))
            await stage.subscribe(HybridConnection(resource_id=f"{NAMESPACE}/hybridConnections/orders"))
            found = await stage.examiner.examine(NAMESPACE)
            await stage.close()
            assert len(front.tokens) == 1
            return found

    (one,) = asyncio.run(main())
    assert (one.state, one.found) == (NOTE, "It answers; whether it takes the key, only a delivery shows.")


def test_what_is_not_connected() -> None:
    """Resources that subscriptions name and nothing leads to are listed; a connection that is none is not found."""

    async def main() -> None:
        log = MemoryLog()
        keyring = Keyring(log, SecretBox.in_memory(), azurite=True)
        examiner = ConnectionChecker(log, keyring.find, {}, SystemClock())
        topic = await log.put_topic(new_topic())
        letters = DeadLetterBlobs(ACCOUNT, "dead")
        function = AzureFunction(resource_id=f"{APP}/functions/OnOrder")
        await log.put_subscription(replace(new_subscription(topic.id, dead_letter=letters), destination=function))
        uses = await examiner.uses()
        assert uses.unconnected == [function.resource_id]
        assert [target.place.text for target in uses.by_connection[ACCOUNT.lower()]] == [container_id(ACCOUNT, "dead")]
        with pytest.raises(NotFound, match=f"Set one: recapito connection set {APP}"):
            await examiner.examine(APP)

    asyncio.run(main())


def test_what_can_not_be_opened() -> None:
    """A connection whose key is lost is said to be so, and what goes by it is not said to lack one."""

    async def main() -> None:
        log = MemoryLog()
        await Keyring(log, SecretBox.in_memory()).set(from_function_host(APP, "http://localhost:7071"), 0)
        examiner = ConnectionChecker(log, Keyring(log, SecretBox.in_memory()).find, {}, SystemClock())
        topic = await log.put_topic(new_topic())
        await log.put_subscription(replace(new_subscription(topic.id), destination=ORDERS))
        assert (await examiner.uses()).unconnected == []
        (one,) = await examiner.examine(APP)
        assert (one.state, one.found) == (WRONG, "it cannot be opened")
        assert "put the old key back, or set the connection again" in one.remedy

    asyncio.run(main())
