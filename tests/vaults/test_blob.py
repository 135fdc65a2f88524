"""The blob vault on a real Azurite: what it writes, and what becomes of every way in which it can fail."""

import asyncio
import datetime
from pathlib import Path

import pytest
from azure.storage.blob import (
    ContainerSasPermissions,
    generate_container_sas,
)

from recapito.azure.access import AzureAccess
from recapito.azure.storage_clients import StorageClients
from recapito.contracts.vault import VaultUnavailable
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    from_connection_string,
    from_sas_url,
)
from recapito.domain.instant import SECOND
from recapito.domain.resources.resource_id import ResourceId, container_id
from recapito.vaults.blob import BlobVault
from recapito.vaults.directory import DirectoryVault
from recapito.vaults.routing import RoutingVault
from tests.azurite.place import ACCOUNT, account, blob_service, known, new_container, reaching
from tests.azurite.server import Azurite, running
from tests.azurite.shared_access import HOUR, account_sas, with_sas
from tests.senders.receiver import Receiver, answering, names, silent, status

pytestmark = pytest.mark.xdist_group("azurite")
PATH = "ORDERS-HOOK/2030/1/2/3/7d0c.json"
PREFIX = "ORDERS-HOOK/"
CANARY = "Y2FuYXJ5Y2FuYXJ5"


def writing(
    storage_clients: StorageClients, container: str, wait_ns: int = 20 * SECOND, content: bytes = b"[]"
) -> None:
    """Write one blob by a way of one's own."""

    async def main() -> None:
        try:
            await BlobVault(storage_clients, wait_ns).write(container, PATH, content)
        finally:
            await storage_clients.close()

    asyncio.run(main())


def refused(storage_clients: StorageClients, container: str, wait_ns: int = 20 * SECOND) -> VaultUnavailable:
    """The refusal of a write. It names the account, and has no secret in it."""
    with pytest.raises(VaultUnavailable) as caught:
        writing(storage_clients, container, wait_ns)
    assert CANARY not in str(caught.value) and AZURITE_KEY not in str(caught.value)
    return caught.value


def test_a_write_is_one_blob_however_often(azurite: Azurite) -> None:
    """A block blob under exactly the path, byte for byte; writing it again leaves one."""
    container = new_container(azurite)
    name = container.rpartition("/")[2]
    content = b'[{"id":"1","data":"\xc3\xbc"}]'
    for _ in range(3):
        writing(reaching(azurite.connection), container, content=content)
    with azurite.blobs() as client:
        (found,) = client.get_container_client(name).list_blobs()
    assert (found.name, found.blob_type, azurite.read_blob(name, PATH)) == (PATH, "BlockBlob", content)


def test_a_missing_container(azurite: Azurite) -> None:
    """A container that does not exist is told apart, and the refusal says what to do."""
    error = refused(reaching(azurite.connection), container_id(ACCOUNT, "nowhere"))
    assert error.missing
    assert str(error) == (
        "nowhere of storage account orders1: it does not exist: create it, or correct the subscription"
        " (404 ContainerNotFound)"
    )


def test_a_wrong_key(azurite: Azurite) -> None:
    """A wrong key is a vault out of reach; the refusal names the command that sets a right one."""
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={CANARY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
    error = refused(reaching(from_connection_string(ACCOUNT, text)), new_container(azurite))
    assert not error.missing
    assert "orders1" in str(error) and f"recapito connection set {ACCOUNT} (403" in str(error)


def test_a_signature(azurite: Azurite) -> None:
    """With a signature that may write, a blob is written."""
    container = new_container(azurite)
    writing(reaching(with_sas(azurite, account_sas(HOUR, write=True, create=True))), container)
    assert azurite.read_blob(container.rpartition("/")[2], PATH) == b"[]"


def test_a_signature_that_ended(azurite: Azurite) -> None:
    """A signature that ended meanwhile is a vault out of reach, and the refusal says since when."""
    error = refused(reaching(with_sas(azurite, account_sas(-HOUR, write=True, create=True))), new_container(azurite))
    assert not error.missing
    assert f"the signature of the connection to {ACCOUNT} ended at 20" in str(error)


def test_a_signature_that_may_not_write(azurite: Azurite) -> None:
    """A signature that may only read is refused, and the refusal says that it is a matter of rights."""
    error = refused(reaching(with_sas(azurite, account_sas(HOUR, read=True))), new_container(azurite))
    assert "may not write there" in str(error)


def test_a_signature_of_one_container(azurite: Azurite) -> None:
    """A container's own SAS URL opens it, and no other container."""
    container, other = new_container(azurite), new_container(azurite)
    name = container.rpartition("/")[2]
    may = ContainerSasPermissions(write=True, create=True)
    until = datetime.datetime.now(datetime.UTC) + HOUR
    token = generate_container_sas(AZURITE_ACCOUNT, name, AZURITE_KEY, permission=may, expiry=until)
    connection = from_sas_url(container, f"{azurite.url(AzureService.BLOB)}/{name}?{token}")
    writing(reaching(connection), container)
    assert azurite.read_blob(name, PATH) == b"[]"

    async def always(resource_id: str) -> Connection:
        return connection

    assert not refused(StorageClients(AzureAccess(always, names(), Egress.LOCAL)), other).missing


def test_an_outage(tmp_path: Path) -> None:
    """While the service is down, writes are refused; when it is back, the same vault writes."""
    with running(tmp_path) as azurite:
        container = new_container(azurite)

        async def main() -> None:
            storage_clients = reaching(azurite.connection)
            vault = BlobVault(storage_clients)
            await vault.write(container, "before.json", b"1")
            await asyncio.to_thread(azurite.stop)
            for _ in range(2):
                with pytest.raises(VaultUnavailable, match=r"orders1: (127\.0\.0\.1:|the connection broke)") as caught:
                    await vault.write(container, "after.json", b"2")
                assert not caught.value.missing
            await asyncio.to_thread(azurite.start)
            await vault.write(container, "after.json", b"2")
            await storage_clients.close()

        asyncio.run(main())
        name = container.rpartition("/")[2]
        assert [azurite.read_blob(name, f"{which}.json") for which in ("before", "after")] == [b"1", b"2"]


def test_a_connection_that_was_mended(azurite: Azurite) -> None:
    """After a failure the connection is looked up anew: one that was set meanwhile is used at once."""
    container = new_container(azurite)
    wrong = f"AccountName={AZURITE_ACCOUNT};AccountKey={CANARY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
    found = [from_connection_string(ACCOUNT, wrong), azurite.connection]

    async def find(resource_id: str) -> Connection:
        return found.pop(0)

    async def main() -> None:
        storage_clients = StorageClients(AzureAccess(find, names(), Egress.LOCAL))
        vault = BlobVault(storage_clients)
        with pytest.raises(VaultUnavailable):
            await vault.write(container, PATH, b"[]")
        await vault.write(container, PATH, b"[]")
        await vault.write(container, PATH, b"[]")  # from what is known: a third look-up would find nothing
        await storage_clients.close()

    asyncio.run(main())


def test_no_connection() -> None:
    """Without a connection nothing is dialled, and the refusal names the command."""
    error = refused(reaching(), container_id(ACCOUNT, "dead"))
    assert str(error) == (f"There is no connection to the blob service of {ACCOUNT}: recapito connection set {ACCOUNT}")


def test_a_container_that_is_none() -> None:
    """A name that is no resource id is refused, and nothing is looked up."""
    with pytest.raises(VaultUnavailable, match="not the id of an Azure resource"):
        writing(reaching(), "orders")


@pytest.mark.parametrize("code", [500, 503])
def test_a_service_that_fails(code: int) -> None:
    """A server error is a vault out of reach after a single request: the pauses between tries are the writer's."""

    async def main() -> None:
        async with Receiver(answering(status(code))) as service:
            storage_clients = reaching(blob_service("broken", service.at("127.0.0.1")))
            with pytest.raises(VaultUnavailable, match=f"broken: the service failed \\({code}\\)") as caught:
                await BlobVault(storage_clients).write(container_id(account("broken"), "dead"), PATH, b"[]")
            await storage_clients.close()
            assert (caught.value.missing, len(service.requests)) == (False, 1)

    asyncio.run(main())


@pytest.mark.parametrize("code", [200, 201, 404])
def test_somebody_else_is_there(code: int) -> None:
    """A stranger's yes confirms no write and lists no letters, and its 404 does not mean that the container is gone."""

    async def main() -> None:
        async with Receiver(answering(status(code, body=b"<html>welcome</html>"))) as other:
            storage_clients = reaching(blob_service("other", other.at("127.0.0.1")))
            vault, container = BlobVault(storage_clients), container_id(account("other"), "dead")
            for verb in (vault.write(container, PATH, b"[]"), vault.paths(container, "A", "", 9)):
                with pytest.raises(VaultUnavailable, match="does not speak as Azure Storage does") as caught:
                    await verb
                assert not caught.value.missing
            await storage_clients.close()

    asyncio.run(main())


def test_a_write_without_a_tag_is_not_confirmed() -> None:
    """Azure Storage tags every blob; who says 201 without a tag has kept nothing that could be found again."""

    async def main() -> None:
        async with Receiver(answering(status(201))) as other:
            storage_clients = reaching(blob_service("other", other.at("127.0.0.1")))
            with pytest.raises(VaultUnavailable, match="does not confirm writes as Azure Storage does"):
                await BlobVault(storage_clients).write(container_id(account("other"), "dead"), PATH, b"[]")
            await storage_clients.close()

    asyncio.run(main())


def test_a_redirect_is_not_followed() -> None:
    """A service that answers with another place is refused: the signature goes nowhere else."""

    async def main() -> None:
        async with Receiver(answering(status(200))) as trap:
            there = status(307, f"Location: {trap.at('127.0.0.1')}")
            async with Receiver(answering(there)) as service:
                storage_clients = reaching(blob_service("moved", service.at("127.0.0.1")))
                with pytest.raises(VaultUnavailable):
                    await BlobVault(storage_clients).write(container_id(account("moved"), "dead"), PATH, b"[]")
                await storage_clients.close()
                assert trap.requests == []

    asyncio.run(main())


def test_a_service_that_hangs() -> None:
    """A service that never answers is given up in bounded time."""

    async def main() -> None:
        async with Receiver(silent) as service:
            storage_clients = reaching(blob_service("mute", service.at("127.0.0.1")))
            with pytest.raises(VaultUnavailable, match=r"dead of storage account mute: no answer within 0\.2 s"):
                await BlobVault(storage_clients, SECOND // 5).write(container_id(account("mute"), "dead"), PATH, b"[]")
            await service.until(lambda it: it.connections and not it.open)
            await storage_clients.close()

    asyncio.run(main())


def test_a_name_that_leads_nowhere() -> None:
    """A host that has no address is a vault out of reach: an account that was deleted looks like this."""
    storage_clients = reaching(blob_service("gone", "http://gone.test"), names=names())
    error = refused(storage_clients, container_id(account("gone"), "dead"))
    assert "gone.test: Name or service not known" in str(error) and not error.missing


@pytest.mark.parametrize(
    ("url", "egress", "why"),
    [
        ("http://127.0.0.1:10009", Egress.PUBLIC, "egress refused 127.0.0.1: a loopback address"),
        ("http://sneaky.test", Egress.PUBLIC, "egress refused 10.0.0.1: a private address"),
        ("http://metadata.test", Egress.LOCAL, "egress refused 169.254.169.254: a cloud metadata address"),
        ("http://169.254.169.254", Egress.LOCAL, "egress refused 169.254.169.254: a cloud metadata address"),
        ("http://[::ffff:169.254.169.254]", Egress.LOCAL, "egress refused ::ffff:a9fe:a9fe: a cloud metadata address"),
    ],
)
def test_egress_is_judged_when_dialling(url: str, egress: Egress, why: str) -> None:
    """An address that deliveries may not go to is not dialled for blobs either, by whatever name it is reached."""
    found = names(sneaky_test="10.0.0.1", metadata_test="169.254.169.254")
    error = refused(
        reaching(blob_service("inner", url), names=found, egress=egress), container_id(account("inner"), "x")
    )
    assert why in str(error)


def test_each_container_goes_to_its_vault(azurite: Azurite, tmp_path: Path) -> None:
    """A directory's dead letters go there, a blob container's to the service, or to one if unconnected."""
    container = new_container(azurite)

    async def main() -> None:
        storage_clients = StorageClients(AzureAccess(known(azurite.connection), names(), Egress.LOCAL))
        vault = RoutingVault(DirectoryVault(tmp_path), BlobVault(storage_clients), storage_clients.leads_to)
        await vault.write("orders", PATH, b"1")
        await vault.write(container.lower(), PATH, b"2")
        unknown = container_id(account("unknown"), "dead").lower()
        await vault.write(unknown, PATH, b"3")
        for place, content in (("orders", b"1"), (container.lower(), b"2"), (unknown, b"3")):
            assert await vault.paths(place, PREFIX, "", 9) == [PATH]
            assert await vault.read(place, PATH) == content
        await storage_clients.close()

    asyncio.run(main())
    assert (tmp_path / "orders" / PATH).read_bytes() == b"1"
    assert (tmp_path / "unknown" / "dead" / PATH).read_bytes() == b"3"
    assert azurite.read_blob(container.rpartition("/")[2], PATH) == b"2"


def test_what_was_kept_before_a_container_was_connected(azurite: Azurite, tmp_path: Path) -> None:
    """Dead letters of a container are found wherever they are: in the directory of before, and in the service."""
    container, other = new_container(azurite).lower(), PATH.replace(".json", "-2.json")

    async def main() -> None:
        storage_clients = StorageClients(AzureAccess(known(azurite.connection), names(), Egress.LOCAL))
        blobs, directories = BlobVault(storage_clients), DirectoryVault(tmp_path)
        before = RoutingVault(directories, blobs, _unconnected)
        await before.write(container, PATH, b"before")
        vault = RoutingVault(directories, blobs, storage_clients.leads_to)
        await vault.write(container, other, b"after")
        found = await vault.paths(container, PREFIX, "", 9)
        assert found == sorted([PATH, other])
        assert [await vault.read(container, path) for path in (PATH, other)] == [b"before", b"after"]
        for path in (PATH, other):
            await vault.delete(container, path)
        assert await vault.paths(container, PREFIX, "", 9) == []
        await storage_clients.close()

    asyncio.run(main())


async def _unconnected(place: ResourceId) -> bool:
    return False
