"""A canary in every place that takes a secret: it is used, and shown nowhere that people or machines look."""

import json
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from recapito.domain.connections.connection import AzureService
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT
from tests.azurite.place import ACCOUNT, account, new_container
from tests.azurite.server import Azurite
from tests.system.machine import GROUP, VERSION, Server, receiver, server, until

pytestmark = pytest.mark.xdist_group("azurite")
WORD = "canary"
KEY = "Y2FuYXJ5LWluLWEta2V5"  # which is base64, and has the word in it
BUS = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.ServiceBus/namespaces/orders1"
RELAY = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Relay/namespaces/shop-relay"
GRID = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.EventGrid/topics/cloud"
APP = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Web/sites/shop-app"


def connect(service: Server, azurite: Azurite, closed: str) -> list[str]:
    """Every form of a connection, with a canary in it; to what refuses it, or is not there. What was answered."""
    blobs, queues = azurite.url(AzureService.BLOB), azurite.url(AzureService.QUEUE)
    token = f"sv=2021-08-06&ss=q&srt=sco&sp=a&se=2100-01-01T00:00:00Z&sig={WORD}-signature"
    said = []
    for id, body in (
        (ACCOUNT, {"connectionString": f"AccountName={AZURITE_ACCOUNT};AccountKey={KEY};BlobEndpoint={blobs}"}),
        (account("signed"), {"connectionString": f"QueueEndpoint={queues};SharedAccessSignature={token}"}),
        (BUS, {"connectionString": f"Endpoint=sb://{closed};SharedAccessKeyName=a;SharedAccessKey={WORD}"
               ";UseDevelopmentEmulator=true"}),
        (RELAY, {"connectionString": f"Endpoint=http://{closed}/;SharedAccessKeyName=a;SharedAccessKey={WORD}-key"}),
        (APP, {"hostUrl": f"http://{closed}?code={WORD}-code"}),
        (GRID, {"connectionString": f"Endpoint=http://{closed};SharedAccessKey={WORD}-topic"}),
    ):  # fmt: skip
        said.append(service.request("PUT", f"/connections{id}", json.dumps(body).encode()))
        said.append(service.request("PUT", f"/connections{id}", json.dumps({"connectionString": f"{WORD};="}).encode()))
        said.append(service.request("POST", f"/connections{id}/check"))
    assert [status for status, _ in said[::3]] == [201] * 6, said
    assert [status for status, _ in said[1::3]] == [400] * 6
    return [body.decode() for _, body in said]


def subscribe(service: Server, url: str, container: str) -> list[str]:
    """Subscriptions to all of them, and a webhook with a secret query and header; what was answered."""
    header = {"name": "X-Key", "type": "Static", "properties": {"value": f"{WORD}-header", "isSecret": True}}
    hook = {"endpointUrl": f"{url}?code={WORD}-query", "deliveryAttributeMappings": [header]}
    destinations = {
        "hook": {"endpointType": "WebHook", "properties": hook},
        "queue": {"endpointType": "StorageQueue", "properties": {"resourceId": account("signed"), "queueName": "todo"}},
        "bus": {"endpointType": "ServiceBusQueue", "properties": {"resourceId": f"{BUS}/queues/todo"}},
        "relay": {"endpointType": "HybridConnection", "properties": {"resourceId": f"{RELAY}/hybridConnections/todo"}},
        "grid": {"endpointType": "EventGrid", "properties": {"resourceId": GRID}},
        "app": {"endpointType": "AzureFunction", "properties": {"resourceId": f"{APP}/functions/OnOrder"}},
    }
    blobs = {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": container}}
    box = {"endpointType": "Directory", "properties": {"name": "box"}}
    said = []
    for name, destination in destinations.items():
        properties = {
            "destination": destination,
            "deadLetterDestination": blobs if name == "queue" else box,
            "retryPolicy": {"maxDeliveryAttempts": 1, "eventTimeToLiveInMinutes": 1440},
        }
        path = f"{GROUP}/topics/demo/eventSubscriptions/{name}?{VERSION}"
        status, body = service.request("PUT", path, json.dumps({"properties": properties}).encode())
        assert status == 201, body
        said.append(body.decode())
    return said


def test_no_secret_is_shown(azurite: Azurite, tmp_path: Path) -> None:
    """Not in the log, the metrics, any answer, any error, a dead letter, or in clear in what is kept of connections."""
    container = new_container(azurite).rpartition("/")[2]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    with receiver() as hook, server(tmp_path / "data", "--clock", "scaled:600") as service:
        said = connect(service, azurite, closed) + subscribe(service, hook.url, container)
        hook.answer = lambda events: 500
        assert service.publish("e1") == 200
        names = ("hook", "bus", "relay", "app", "grid")
        assert until(lambda: all(service.counts(name).get("dead_lettered", 0) == 1 for name in names))
        for path in (
            "/connections", "/metrics", "/readyz", "/deadletters", "/openapi.json",
            f"{GROUP}/topics/demo/eventSubscriptions?{VERSION}",
            f"/connections{quote(WORD)}-nowhere",
        ):  # fmt: skip
            said.append(service.request("GET", path)[1].decode())
        journal = service.journal
        assert hook.requests[0][0]["x-key"] == f"{WORD}-header"
    letters = [file.read_text() for file in (tmp_path / "data" / "deadletters").rglob("*.json")]
    assert len(letters) == 5
    shown = "\n".join((*said, *journal, *letters)).replace(f"/connections{WORD}-nowhere", "")
    assert WORD not in shown and KEY not in shown
    sealed = [file for file in (tmp_path / "data").iterdir() if file.is_file() and KEY.encode() in file.read_bytes()]
    assert sealed == []
