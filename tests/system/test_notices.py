"""Dead-letter notification of a real server: a subscriber of a storage account hears of its letters."""

import json
from pathlib import Path

import pytest

from recapito.domain.connections.connection import AzureService
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from tests.azurite.place import ACCOUNT, new_container
from tests.azurite.server import Azurite
from tests.system.machine import VERSION, Server, receiver, server, until

pytestmark = pytest.mark.xdist_group("azurite")


def prepare(service: Server, azurite: Azurite) -> None:
    """Say how the account is reached, and that it is there."""
    text = f"AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};BlobEndpoint={azurite.url(AzureService.BLOB)}"
    service.call("PUT", f"/connections{ACCOUNT}", {"connectionString": text})
    service.call("PUT", f"{ACCOUNT}?api-version=2023-01-01", {"location": "local"})


def blobs(name: str) -> dict[str, object]:
    """Where dead letters go."""
    return {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": name}}


def watch(service: Server, url: str, container: str) -> None:
    """Subscribe to the account; what dies of that goes to the same account."""
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    properties = {
        "destination": destination,
        "filter": {"includedEventTypes": ["Microsoft.Storage.BlobCreated"]},
        "deadLetterDestination": blobs(container),
    }
    path = f"{ACCOUNT}/providers/Microsoft.EventGrid/eventSubscriptions/watch?{VERSION}"
    service.call("PUT", path, {"properties": properties})


@pytest.mark.parametrize("flags", [("--clock", "scaled:600"), ("--clock", "manual"), ("--clock", "manual", "--memory")])
def test_a_dead_letter_is_told_of(azurite: Azurite, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """In two processes or one, on any clock: the blob's event arrives; letters of such events cause no event."""
    name = new_container(azurite).rpartition("/")[2]

    def pass_time() -> None:
        if "manual" in flags:
            service.call("POST", "/clock/advance", {"until": "idle"})

    with receiver() as hook, receiver() as told, server(tmp_path / "data", *flags) as service:
        prepare(service, azurite)
        watch(service, told.url, name)
        service.subscribe("mine", hook.url, deadLetterDestination=blobs(name))
        hook.answer = told.answer = lambda events: 400
        assert service.publish("e1") == 200
        pass_time()
        told.wait_for_requests(1)
        assert until(lambda: service.counts("watch").get("dead_lettered", 0) == 1)
        told.answer = lambda events: 200
        assert service.publish("e2") == 200
        pass_time()
        told.wait_for_requests(2)
        pass_time()
    events = [events[0] for _, events in told.requests]
    with azurite.blobs() as client:
        found = {blob.name: blob for blob in client.get_container_client(name).list_blobs()}
    own = [path for path in found if path.startswith("MINE/")]
    assert len(found) == 3 and len(own) == 2 and len(events) == 2
    for event in events:
        path = event["subject"].removeprefix(f"/blobServices/default/containers/{name}/blobs/")
        assert path in own
        data = event["data"]
        assert data["eTag"] == found[path].etag.strip('"')
        assert data["contentLength"] == found[path].size
        assert data["url"] == f"{azurite.url(AzureService.BLOB)}/{name}/{path}"
        assert data["contentType"] == found[path].content_settings.content_type
        assert event["topic"] == ACCOUNT
    assert AZURITE_KEY not in json.dumps(events)
