"""Whole files in a folder of a real Azurite, and every way in which they can fail to get there or back."""

import asyncio
import datetime
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from recapito.azure.access import AzureAccess
from recapito.azure.container_files import ContainerFiles
from recapito.azure.storage import StorageOpener
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.container_folder import connection_to, parse_container_folder
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY, from_connection_string
from recapito.errors import SettingsError
from tests.azurite.place import ACCOUNT, known
from tests.azurite.server import Azurite
from tests.azurite.shared_access import HOUR
from tests.senders.receiver import Receiver, answering, names, status

pytestmark = pytest.mark.xdist_group("azurite")
CANARY = "Y2FuYXJ5Y2FuYXJ5"
CONTENT = bytes(range(256)) * (limits.BLOB_BLOCK_BYTES // 256) * 2 + b"end"  # three blocks


def new_folder(azurite: Azurite) -> str:
    """The URL of a folder in a new container."""
    name = f"backup-{uuid.uuid4()}"
    with azurite.blobs() as client:
        client.create_container(name)
    return f"{azurite.url(AzureService.BLOB)}/{name}/to/day"


def using(
    url: str,
    use: Callable[[ContainerFiles], Awaitable[None]],
    *connections: Connection,
    egress: Egress = Egress.LOCAL,
) -> None:
    """Use a folder, and close everything."""

    async def main() -> None:
        folder = parse_container_folder(url)
        opener = StorageOpener(AzureAccess(known(*connections), names(), egress))
        try:
            await use(ContainerFiles(opener, folder, connection_to(folder, connections), pauses_s=(0, 0)))
        finally:
            await opener.close()

    asyncio.run(main())


def refused(
    url: str, use: Callable[[ContainerFiles], Awaitable[None]], *connections: Connection, egress: Egress = Egress.LOCAL
) -> str:
    """The refusal of a use. It names the URL, and has no secret in it."""
    with pytest.raises(SettingsError) as caught:
        using(url, use, *connections, egress=egress)
    assert str(caught.value).startswith(url.partition("?")[0])
    assert CANARY not in str(caught.value) and "sig=" not in str(caught.value)
    return str(caught.value)


def test_a_file_goes_there_and_back(azurite: Azurite, tmp_path: Path) -> None:
    """In three blocks, byte for byte, under its name in the folder, which is not empty then."""
    url, said = new_folder(azurite), []

    async def both(files: ContainerFiles) -> None:
        await files.check_empty()
        (tmp_path / "sent").write_bytes(CONTENT)
        (tmp_path / "none").touch()
        await files.put(tmp_path / "sent", "part/log.db", said.append)
        await files.put(tmp_path / "none", "empty", said.append)
        await files.get("part/log.db", tmp_path / "fetched", said.append)
        await files.get("empty", tmp_path / "fetched-none", said.append)

    using(url, both)
    assert (tmp_path / "fetched").read_bytes() == CONTENT and (tmp_path / "fetched-none").read_bytes() == b""
    assert said[0] == f"sending part/log.db: {len(CONTENT)} bytes"
    assert azurite.read_blob(url.split("/")[-3], "to/day/part/log.db") == CONTENT
    assert "is not empty (to/day/empty): choose another folder" in refused(url, ContainerFiles.check_empty)
    using(url.replace("/day", "/da"), ContainerFiles.check_empty)
    assert "is not empty" in refused(url.removesuffix("/to/day"), ContainerFiles.check_empty)


def test_a_file_is_not_replaced(azurite: Azurite, tmp_path: Path) -> None:
    """Of two backups that go to one folder, the second fails and leaves the first as it is."""
    url = new_folder(azurite)

    async def put(files: ContainerFiles) -> None:
        await files.put(tmp_path / "file", "file", print)

    (tmp_path / "file").write_bytes(b"first")
    using(url, put)
    (tmp_path / "file").write_bytes(b"second")
    assert "a file is there meanwhile" in refused(url, put)
    assert azurite.read_blob(url.split("/")[-3], "to/day/file") == b"first"


def test_a_file_that_is_missing(azurite: Azurite, tmp_path: Path) -> None:
    """A folder without a file of that name is no complete backup, also if there is a longer name."""
    url = new_folder(azurite)

    async def get(files: ContainerFiles) -> None:
        (tmp_path / "other").touch()
        await files.put(tmp_path / "other", "log.db.old", print)
        await files.get("log.db", tmp_path / "log.db", print)

    assert "no complete backup: log.db is missing" in refused(url, get)
    assert not (tmp_path / "log.db").exists()


def test_a_missing_container(azurite: Azurite) -> None:
    """The refusal says what to do."""
    said = refused(f"{azurite.url(AzureService.BLOB)}/nowhere/today", ContainerFiles.check_empty)
    assert said.endswith("the container does not exist: create it (404 ContainerNotFound).")


def test_a_wrong_key(azurite: Azurite) -> None:
    """A wrong key is named as the cause, and not shown."""
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={CANARY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
    wrong = from_connection_string(ACCOUNT, text)
    assert "identity is wrong or may not do this" in refused(new_folder(azurite), ContainerFiles.check_empty, wrong)


def test_a_signature(azurite: Azurite, tmp_path: Path) -> None:
    """A signature that may create and list suffices for a backup; one without the right to list is refused at once."""
    url, until = new_folder(azurite), datetime.datetime.now(datetime.UTC) + HOUR

    def signed(**may: bool) -> str:
        permission = ContainerSasPermissions(**may)
        token = generate_container_sas(
            AZURITE_ACCOUNT, url.split("/")[-3], AZURITE_KEY, permission=permission, expiry=until
        )
        return f"{url}?{token}"

    async def put(files: ContainerFiles) -> None:
        await files.check_empty()
        (tmp_path / "file").write_bytes(b"content")
        await files.put(tmp_path / "file", "file", print)

    using(signed(create=True, write=True, list=True), put)
    assert "a backup needs the permissions create, write and list" in refused(signed(write=True), put)


def test_the_egress_guard_judges_the_address(azurite: Azurite) -> None:
    """With public targets only, an Azurite on this machine is not dialled."""
    said = refused(new_folder(azurite), ContainerFiles.check_empty, egress=Egress.PUBLIC)
    assert "egress refused 127.0.0.1: a loopback address" in said


def test_a_block_is_tried_again(tmp_path: Path) -> None:
    """A failure that may pass costs a pause; one that lasts ends the backup, which names the service's answer."""

    async def put(files: ContainerFiles) -> None:
        (tmp_path / "file").write_bytes(b"content")
        await files.put(tmp_path / "file", "file", print)

    async def counted(*codes: int) -> tuple[str, int]:
        async with Receiver(answering(*(status(code) for code in codes))) as service:
            folder = parse_container_folder(
                f"{service.at('127.0.0.1').removesuffix('/hook')}/{AZURITE_ACCOUNT}/backups"
            )
            opener, connection = StorageOpener(AzureAccess(known(), names(), Egress.LOCAL)), connection_to(folder, ())
            try:
                await put(ContainerFiles(opener, folder, connection, pauses_s=(0, 0)))
                return "done", len(service.requests)
            except SettingsError as error:
                return str(error).partition(": ")[2], len(service.requests)
            finally:
                await opener.close()

    assert asyncio.run(counted(503, 500, 201)) == ("done", 4)
    assert asyncio.run(counted(503)) == ("the service failed (503).", 3)
    assert asyncio.run(counted(403))[1] == 1
