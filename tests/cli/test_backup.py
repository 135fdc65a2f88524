"""`recapito backup` and `restore` by a blob container: the signature stays unseen, and a half upload is no backup."""

import asyncio
import datetime
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from recapito.domain.connections.connection import AzureService
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.stores.sqlite import SqliteLedger, SqliteLog
from tests.cli.terminal import recapito
from tests.stores.values import new_topic

if TYPE_CHECKING:
    from tests.azurite.server import Azurite

pytestmark = pytest.mark.xdist_group("azurite")


@pytest.fixture
def container(azurite: "Azurite") -> str:
    """The URL of a new container."""
    name = f"backup-{uuid.uuid4()}"
    with azurite.blobs() as client:
        client.create_container(name)
    return f"{azurite.url(AzureService.BLOB)}/{name}"


async def fill(data: Path) -> None:
    """A store with a topic."""
    log, ledger = SqliteLog.open(data), SqliteLedger.open(data)
    await log.put_topic(new_topic())
    await log.close()
    await ledger.close()


def test_a_store_goes_to_a_container_and_back(container: str, tmp_path: Path) -> None:
    """By a signature that standard input brings: neither output nor errors have it; the other way has the key."""
    (tmp_path / "data").mkdir()
    asyncio.run(fill(tmp_path / "data"))
    token = generate_container_sas(
        AZURITE_ACCOUNT,
        container.rpartition("/")[2],
        AZURITE_KEY,
        permission=ContainerSasPermissions(write=True, create=True, list=True),
        expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1),
    )
    backup = ("backup", "-", "--data", str(tmp_path / "data"))
    signed = f"{container}/today?{token}\n".encode()
    said, again = recapito(*backup, stdin=signed), recapito(*backup, stdin=signed)
    assert said.code == 0, said.err
    assert f"Backed up {tmp_path / 'data'} to {container}/today." in said.out
    assert again.code == 78 and "today is not empty" in again.err
    assert "sig=" not in said.out + said.err + again.out + again.err
    restored = recapito("restore", f"{container}/today", "--data", str(tmp_path / "back"))
    assert restored.code == 0, restored.err
    assert {path.name for path in (tmp_path / "back").glob("*.db")} == {"log.db", "dispatch.db"}
    missing = recapito("restore", f"{container}/tomorrow", "--data", str(tmp_path / "other"))
    assert f"{container}/tomorrow is no complete backup: dispatch.db is missing" in missing.err


def test_a_changed_file_is_refused_by_its_url(container: str, azurite: "Azurite", tmp_path: Path) -> None:
    """The refusal names the container, not the temporary directory that the files were fetched into."""
    (tmp_path / "data").mkdir()
    asyncio.run(fill(tmp_path / "data"))
    assert recapito("backup", container, "--data", str(tmp_path / "data")).code == 0
    with azurite.blobs() as client:
        client.get_blob_client(container.rpartition("/")[2], "log.db").upload_blob(b"no database", overwrite=True)
    said = recapito("restore", container, "--data", str(tmp_path / "back"))
    assert said.code == 78 and f"{container}/log.db" in said.err


def test_a_url_that_is_none() -> None:
    """Other schemes are refused, and are not taken for a directory."""
    said = recapito("backup", "s3://bucket/folder")
    assert said.code == 1 and "must start with http:// or https://" in said.err
