"""Canaries: a secret in every place that takes one, in a real server, while everything fails and succeeds.

None of them may be seen in what the server says: its journal, its metrics, its answers and errors, its dead letters;
nor those of connections in any file but the key's.
"""

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.system.machine import GROUP, VERSION, Server, server, until
from tests.system.parrot import Parrot, parrot

CLIENT_SECRET = "canary-client-secret-0123456789"
WRONG_SECRET = "canary-wrong-secret"
URL_CODE = "canary-url-code"
HEADER = "canary-static-header"
WRONG_KEY = b64encode(b"canary-wrong-topic-key").decode()
WRONG_SIGNATURE = "canarysignature"
WRONG_BEARER = "canary.wrong.bearer"
QUEUE_KEY = b64encode(b"canary-queue-account-key").decode()
BLOB_SIGNATURE = "canaryblobsignature"
BUS_KEY = b64encode(b"canary-service-bus-key").decode()
RELAY_KEY = b64encode(b"canary-relay-key").decode()
FUNCTION_KEY = "canary-function-key"
SEALED = (QUEUE_KEY, BLOB_SIGNATURE, BUS_KEY, RELAY_KEY, FUNCTION_KEY)
GIVEN = (*SEALED, CLIENT_SECRET, WRONG_SECRET, URL_CODE, HEADER, WRONG_KEY, WRONG_SIGNATURE, WRONG_BEARER)

AZURE = "/subscriptions/s-1/resourceGroups/shop/providers"
ACCOUNT = f"{AZURE}/Microsoft.Storage/storageAccounts/canary1"
CONTAINER = f"{ACCOUNT}/blobServices/default/containers/dead"
NAMESPACE = f"{AZURE}/Microsoft.ServiceBus/namespaces/canary1"
RELAY = f"{AZURE}/Microsoft.Relay/namespaces/canary1"
SITE = f"{AZURE}/Microsoft.Web/sites/canary1"
TOPIC = f"{GROUP}/topics/demo"
SECRET_HEADER = [{"name": "x-key", "type": "Static", "properties": {"value": HEADER, "isSecret": True}}]
BOX = {"endpointType": "Directory", "properties": {"name": "box"}}
BLOBS = {"endpointType": "StorageBlob", "properties": {"resourceId": ACCOUNT, "blobContainerName": "dead"}}
ONCE = {"maxDeliveryAttempts": 1}
FORM = "application/x-www-form-urlencoded"
# What stands for the parameters of paths; a path with other parameters is asked with a name that exists nowhere.
PLACES = {"subscription": "00000000-0000-0000-0000-000000000000", "group": "local", "topic": "demo", "name": "demo"}


class Ear:
    """Hears all that a server says, and what of it is secret."""

    def __init__(self, recapito: Server) -> None:
        self._recapito = recapito
        self.secrets = set(GIVEN)
        self.heard: dict[str, bytes] = {}

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        """One request; whatever is answered is heard."""
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        status, answer = self._recapito.request(method, path, sent, **headers)
        self.heard[f"{method} {path} {len(self.heard)}"] = answer
        return status, answer

    def learn(self, path: str, *names: str) -> dict[str, Any]:
        """Ask for what exists to be shown, which is not heard: the secrets in it are what is listened for."""
        shown: dict[str, Any] = self._recapito.call("POST", f"{path}?{VERSION}")
        self.secrets |= {shown[name] for name in names}
        return shown

    def log_in(self, path: str, form: str) -> str:
        """Get a bearer token, which is a secret from now on."""
        status, answer = self._recapito.request("POST", path, form.encode(), content_type=FORM)
        assert status == 200, answer
        token: str = json.loads(answer)["access_token"]
        self.secrets.add(token)
        return token

    def told(self) -> list[str]:
        """Where a secret was heard."""
        return [
            f"{secret} in {where}"
            for where, what in self.heard.items()
            for secret in self.secrets
            if secret.encode() in what or secret in what.decode("utf-8", "replace")
        ]


def test_no_canary_is_ever_seen(tmp_path: Path) -> None:
    """Whatever fails or succeeds, no secret is in the journal, metrics, answers, errors, dead letters or backups."""
    settings = tmp_path / "recapito.toml"
    principal = f'client_id = "canary-client"\nsecret = "{CLIENT_SECRET}"\nroles = ["Reader", "EventGrid Data Sender"]'
    settings.write_text(f"[[identity.principals]]\n{principal}\n", "utf-8")
    flags = ("--handshake", "on", "--clock", "scaled:60", "--settings", str(settings))
    with parrot() as bird, server(tmp_path / "data", *flags) as recapito:
        ear = Ear(recapito)
        _connect(ear, bird)
        _subscribe(ear, bird)
        keys = ear.learn(f"{TOPIC}/listKeys", "key1", "key2")
        echo = f"{TOPIC}/eventSubscriptions/echo"  # the secrets are there, and shown to who asks for them
        assert URL_CODE in ear.learn(f"{echo}/getFullUrl")["endpointUrl"]
        assert HEADER in json.dumps(ear.learn(f"{echo}/getDeliveryAttributes"))
        _publish(ear, keys["key1"])
        assert until(lambda: _buried(recapito) == {"echo", "queue", "bus"}), _buried(recapito)
        assert until(lambda: any(path.startswith("/canary1/dead/") for path in bird.paths)), bird.paths
        ear.ask("POST", "/deadletters/redrive", {"subscription": "echo"})
        _look_at_everything(ear)
        backup = tmp_path / "backup"
        said = _run("backup", str(backup), "--data", str(recapito.data))
        for command in (("doctor", "--data", str(recapito.data)), ("connection", "list"), ("deadletter", "list")):
            said += _run(*command, "--server", recapito.url)
        ear.secrets |= bird.secrets
    ear.heard["the journal"] = "".join(recapito.journal).encode()
    ear.heard["the command line"] = said
    for letter in (recapito.data / "deadletters").rglob("*.json"):
        ear.heard[str(letter)] = letter.read_bytes()
    assert b"/parrot" in ear.heard["the journal"]  # what the parrot repeats is told, without what is secret in it
    assert any(name.endswith(".json") and "deadletters" in name for name in ear.heard)
    assert ear.told() == []
    files = [file for place in (recapito.data, backup) for file in place.rglob("*") if file.is_file()]
    assert [f"{one} in {file}" for file in files for one in SEALED if one.encode() in file.read_bytes()] == []
    assert not list(backup.rglob("*.key"))


def _connect(ear: Ear, bird: Parrot) -> None:
    """Connections of every kind, all to the parrot; and some that are refused."""
    place = f"127.0.0.1:{bird.port}"
    bus = f"Endpoint=sb://{place};SharedAccessKeyName=send;SharedAccessKey={BUS_KEY};UseDevelopmentEmulator=true"
    relay = f"Endpoint=http://{place};SharedAccessKeyName=send;SharedAccessKey={RELAY_KEY}"
    forms = {
        ACCOUNT: {
            "connectionString": f"AccountName=canary1;AccountKey={QUEUE_KEY};QueueEndpoint={bird.url}/canary1;"
            f"BlobEndpoint={bird.url}/canary1"
        },
        CONTAINER: {"sasUrl": f"{bird.url}/canary1/dead?sv=2024-01-01&sp=rwl&sr=c&se=2099-01-01&sig={BLOB_SIGNATURE}"},
        NAMESPACE: {"connectionString": bus},
        RELAY: {"connectionString": relay},
        SITE: {"hostUrl": f"{bird.url}?code={FUNCTION_KEY}"},
    }
    for resource, form in forms.items():
        status, answer = ear.ask("PUT", f"/connections{resource}", form)
        assert status == 201, answer
        assert ear.ask("POST", f"/connections{resource}/check")[0] == 200
    for resource, form in (
        (ACCOUNT, {"connectionString": f"AccountKey={QUEUE_KEY};{BUS_KEY}"}),
        (CONTAINER, {"sasUrl": f"ftp://x/?sig={BLOB_SIGNATURE}"}),
        (SITE, {"hostUrl": f"{bird.url}/elsewhere?code={FUNCTION_KEY}"}),
        (RELAY, {"connectionString": f"SharedAccessKey={RELAY_KEY}"}),
    ):
        assert ear.ask("PUT", f"/connections{resource}", form)[0] == 400


def _subscribe(ear: Ear, bird: Parrot) -> None:
    """Subscriptions to every kind of destination; and some that are refused."""
    hook = {"endpointUrl": f"{bird.url}/parrot?code={URL_CODE}", "deliveryAttributeMappings": SECRET_HEADER}
    queue = {"resourceId": ACCOUNT, "queueName": "orders"}
    bus = {"resourceId": f"{NAMESPACE}/queues/orders", "deliveryAttributeMappings": SECRET_HEADER}
    wanted: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "echo": ("WebHook", hook, {"deadLetterDestination": BOX, "retryPolicy": ONCE}),
        "blob": ("WebHook", hook, {"deadLetterDestination": BLOBS, "retryPolicy": ONCE}),
        "tries": ("WebHook", hook, {}),
        "fine": ("WebHook", {**hook, "endpointUrl": f"{bird.url}/fine?code={URL_CODE}"}, {}),
        "queue": ("StorageQueue", queue, {"deadLetterDestination": BOX, "retryPolicy": ONCE}),
        "bus": ("ServiceBusQueue", bus, {"deadLetterDestination": BOX, "retryPolicy": ONCE}),
        "relay": ("HybridConnection", {"resourceId": f"{RELAY}/hybridConnections/orders"}, {}),
        "function": ("AzureFunction", {"resourceId": f"{SITE}/functions/orders"}, {}),
    }
    for name, (kind, properties, others) in wanted.items():
        status, answer = _put(ear, name, kind, properties, **others)
        assert status == 201, answer
    refused = f"{bird.url}/refuse?code={URL_CODE}"
    assert _put(ear, "refused", "WebHook", {**hook, "endpointUrl": refused})[0] == 400
    assert _put(ear, "wrong", "WebHook", {**hook, "maxEventsPerBatch": 0})[0] == 400
    assert _put(ear, "wrong", "WebHook", {**hook, "endpointUrl": f"ftp://x/?code={URL_CODE}"})[0] == 400
    long = [{"name": "x", "type": "Static", "properties": {"value": HEADER * 1000, "isSecret": True}}]
    assert _put(ear, "wrong", "WebHook", {**hook, "deliveryAttributeMappings": long})[0] == 400


def _put(ear: Ear, name: str, kind: str, properties: dict[str, Any], **others: Any) -> tuple[int, bytes]:
    body = {"properties": {"destination": {"endpointType": kind, "properties": properties}, **others}}
    return ear.ask("PUT", f"{TOPIC}/eventSubscriptions/{name}?{VERSION}", body)


def _publish(ear: Ear, key: str) -> None:
    """Publish in every way that shows a secret, right and wrong; manage with tokens, right and wrong."""
    publish = "/topics/demo/api/events"
    event = {"id": "e1", "subject": "s", "eventType": "t", "eventTime": "2026-01-01T00:00:00Z", "dataVersion": "1"}
    assert ear.ask("POST", publish, [event], aeg_sas_key=key)[0] == 200
    signature = f"r=http%3a%2f%2fx&e=1%2f1%2f2099&s={WRONG_SIGNATURE}"
    for header, value in (
        ("aeg_sas_key", WRONG_KEY),
        ("aeg_sas_token", signature),
        ("authorization", f"SharedAccessSignature {signature}"),
        ("authorization", f"Bearer {WRONG_BEARER}"),
    ):
        assert ear.ask("POST", publish, [event], **{header: value})[0] == 401
    ear.ask("POST", f"{publish}?aeg-sas-key={WRONG_KEY}", [event])
    form = "grant_type=client_credentials&client_id=canary-client&scope=https%3A%2F%2Fmanagement.azure.com%2F.default"
    login = "/common/oauth2/v2.0/token"
    assert ear.ask("POST", login, f"{form}&client_secret={WRONG_SECRET}".encode(), content_type=FORM)[0] == 401
    token = ear.log_in(login, f"{form}&client_secret={CLIENT_SECRET}")
    assert ear.ask("GET", f"{TOPIC}?{VERSION}", authorization=f"Bearer {token}")[0] == 200
    assert ear.ask("DELETE", f"{TOPIC}?{VERSION}", authorization=f"Bearer {token}")[0] == 403
    assert ear.ask("GET", f"{TOPIC}?{VERSION}", authorization=f"Bearer {WRONG_BEARER}")[0] == 401


def _look_at_everything(ear: Ear) -> None:
    """Every path that can be read, as the description lists them, with what there is and with what there is not."""
    _, described = ear.ask("GET", "/openapi.json")
    paths: dict[str, Any] = json.loads(described)["paths"]
    readable = [path for path, methods in paths.items() if "get" in methods]
    assert len(readable) > 20
    for path in [*readable, "/connections"]:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        for subscription in ("echo", "queue", "refused"):
            places = {**PLACES, "event_subscription": subscription}
            filled = path.format_map({name: places.get(name, subscription) for name in names})
            ear.ask("GET", f"{filled}?{VERSION}")
        ear.ask("GET", path.format_map({name: PLACES.get(name, "demo") for name in names}) + "?event=e1")
    for subscription in ("echo", "blob", "tries", "fine", "queue", "bus", "relay", "function"):
        ear.ask("GET", f"{TOPIC}/eventSubscriptions/{subscription}?{VERSION}")
    for name in ("echo", "queue", "bus"):
        _, letters = ear.ask("GET", f"/deadletters?topic=demo&subscription={name}")
        for letter in json.loads(letters)["value"]:
            ear.ask("GET", f"/deadletters/{letter['name']}")


def _buried(recapito: Server) -> set[str]:
    """Which subscriptions have dead letters in the directory."""
    found = recapito.call("GET", "/deadletters?topic=demo&subscription=echo")["value"]
    for name in ("queue", "bus"):
        found += recapito.call("GET", f"/deadletters?topic=demo&subscription={name}")["value"]
    return {one["subscription"] for one in found}


def _run(*arguments: str) -> bytes:
    done = subprocess.run([sys.executable, "-m", "recapito", *arguments], capture_output=True, timeout=60)
    return done.stdout + done.stderr
