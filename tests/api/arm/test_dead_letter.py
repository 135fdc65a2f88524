"""Dead letters in blobs over ARM: only where a connection leads, and one that can be written by."""

from typing import Any

import pytest

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.errors import SettingsError
from recapito.intake.resources.connection_required import Find, nowhere
from tests.api.arm.subscription_body import body
from tests.api.client import NESTED, World, run
from tests.kit.arm_errors import refused

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/myaccount"
SECRET = "c2VjcmV0"
BLOBS = {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": "dead"}}
DIRECTORY = {"endpointType": "Directory", "properties": {"name": "box"}}


def signed(end: str, permissions: str) -> Find:
    """A server with a connection to the account, by a signature."""
    token = f"sv=2024-01-01&ss=bq&srt=sco&sp={permissions}&se={end}&sig={SECRET}"
    text = f"BlobEndpoint=https://myaccount.blob.core.windows.net;SharedAccessSignature={token}"

    async def find(resource_id: str) -> Connection | None:
        return from_connection_string(ACCOUNT, text)

    return find


async def closed(resource_id: str) -> Connection | None:
    """A server that has lost the key of its connections."""
    raise SettingsError("connection.key: the key of the connections is missing: put it back, or set them again.")


ENDED, READING = signed("2020-01-01T00:00:00Z", "rw"), signed("2100-01-01T00:00:00Z", "rl")


@pytest.mark.parametrize(
    ("find", "says"),
    [
        (nowhere, f"recapito connection set {ACCOUNT} --connection-string -; or serve with --azurite"),
        (ENDED, f"ended at 2020-01-01T00:00:00.0000000Z: recapito connection set {ACCOUNT}"),
        (closed, f"The connection to {ACCOUNT} cannot be opened: connection.key: the key of the"),
        (READING, "may not write to its blob service (sp needs one of 'cw'): create another one, then recapito"),
    ],
)
def test_blobs_need_a_connection_of_use(find: Find, says: str) -> None:
    """A container that cannot be reached or written to is refused, naming the command; a directory is taken."""

    async def test(world: World) -> None:
        await world.topic()
        target = "properties.deadLetterDestination.properties.resourceId"
        answer = await world.arm("PUT", f"{NESTED}/mine", body(deadLetterDestination=BLOBS))
        said = refused(answer, 400, "InvalidRequest", target)
        assert says in said and SECRET not in said
        await world.subscription(deadLetterDestination=DIRECTORY)
        answer = await world.arm("PATCH", f"{NESTED}/mine", {"deadLetterDestination": BLOBS})
        refused(answer, 400, "InvalidRequest", target.removeprefix("properties."))
        shown: dict[str, Any] = (await world.arm("GET", f"{NESTED}/mine")).json["properties"]
        assert shown["deadLetterDestination"] == DIRECTORY

    run(test, find_connection=find)


def test_a_signature_that_may_write() -> None:
    """To create blobs is enough."""

    async def test(world: World) -> None:
        await world.topic()
        await world.subscription(deadLetterDestination=BLOBS)

    run(test, find_connection=signed("2100-01-01T00:00:00Z", "c"))
