"""The front of a real Azurite: signatures hold, and each change of a blob is an event before the client is answered."""

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jwt
import pytest
from azure.core.credentials import AccessToken, AzureSasCredential
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.storage.blob import (
    BlobServiceClient,
    ContainerClient,
    ContainerSasPermissions,
    generate_container_sas,
)

from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.identity.certificate import prepare
from tests.azurite.server import Azurite, running
from tests.clients.javascript import Node
from tests.kit.ports import free_port
from tests.system.machine import GROUP, VERSION, Receiver, Server, receiver, server, until

pytestmark = pytest.mark.xdist_group("azurite")
SOURCE = f"{GROUP.partition('/providers/')[0]}/providers/Microsoft.Storage/storageAccounts/{AZURITE_ACCOUNT}"
TOPIC = f"{GROUP}/systemTopics/blobs"
KB, MB = 1024, 1024 * 1024


class Front:
    """A server with a front for an Azurite, a system topic of its account, and a webhook that gets its events."""

    def __init__(self, it: Server, port: int, hook: Receiver, scheme: str = "http") -> None:
        self.server = it
        self.port = port
        self.hook = hook
        self.url = f"{scheme}://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
        kind = {"source": SOURCE, "topicType": "Microsoft.Storage.StorageAccounts"}
        it.call("PUT", f"{TOPIC}?{VERSION}", {"location": "local", "properties": kind})
        self.subscribe("all", hook)

    def subscribe(self, name: str, hook: Receiver, **properties: Any) -> None:
        """Subscribe a webhook to the events of the account."""
        to = {"endpointType": "WebHook", "properties": {"endpointUrl": hook.url}}
        body = {"properties": {"destination": to, **properties}}
        self.server.call("PUT", f"{TOPIC}/eventSubscriptions/{name}?{VERSION}", body)

    def container(self, **options: Any) -> ContainerClient:
        """A new container, by Microsoft's client with the account's key."""
        credential = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}
        client = BlobServiceClient(self.url, credential, retry_total=0, **options)
        return client.create_container(f"c{os.urandom(6).hex()}")

    def stored(self) -> int:
        """The number of events that the log has for the subscription."""
        return int(self.server.counts("all").get("matched", 0))

    def events(self, container: str) -> list[dict[str, Any]]:
        """The events of a container that arrived, in the order of their sequencers."""
        with self.hook.arrived:
            found = {event["id"]: event for _, events in self.hook.requests for event in events}
        own = [event for event in found.values() if f"/containers/{container}/" in event["subject"]]
        return sorted(own, key=lambda event: event["data"]["sequencer"])

    def wait_for(self, container: str, count: int) -> list[dict[str, Any]]:
        """The events of a container, when there are `count` of them."""
        assert until(lambda: len(self.events(container)) >= count), self.events(container)
        return self.events(container)


@contextmanager
def fronted(azurite: Azurite, data: Path, *flags: str, behind_port: int = 0) -> Iterator[Front]:
    port = free_port()
    behind = {"RECAPITO_AZURE_AZURITE_URL": f"http://127.0.0.1:{behind_port or azurite.ports['Blob']}"}
    with receiver() as hook, server(data, "--azurite-front", str(port), *flags, environment=behind) as it:
        yield Front(it, port, hook)


def test_each_operation_and_each_signature(azurite: Azurite, tmp_path: Path) -> None:
    """Put Blob, a block list, append and page blobs, a copy and a deletion, by key and by SAS; nothing else."""
    with receiver() as picked, fronted(azurite, tmp_path, "--memory") as front:
        box = front.container(max_single_put_size=64 * KB, max_block_size=64 * KB)
        name = box.container_name
        front.subscribe("committed", picked, filter=committed_texts(name))
        box.upload_blob("small one.txt", b"hello")
        box.upload_blob("large.bin", os.urandom(300 * KB), max_concurrency=2)
        box.get_blob_client("log").create_append_blob()
        box.get_blob_client("disk").create_page_blob(512)
        box.get_blob_client("copy").start_copy_from_url(box.get_blob_client("small one.txt").url)
        box.get_blob_client("small one.txt").set_blob_metadata({"a": "b"})
        lease = box.get_blob_client("large.bin").acquire_lease()
        lease.release()
        box.delete_blob("large.bin")
        sas = generate_container_sas(
            AZURITE_ACCOUNT,
            name,
            account_key=AZURITE_KEY,
            permission=ContainerSasPermissions(write=True, create=True),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        ContainerClient.from_container_url(f"{front.url}/{name}?{sas}").upload_blob("by-sas", b"signed")
        with pytest.raises(HttpResponseError):
            ContainerClient.from_container_url(f"{front.url}/{name}?{sas}xx").upload_blob("forged", b"")
        assert box.download_blob("small one.txt").readall() == b"hello"
        box.delete_blob("small one.txt")
        box.get_blob_client("copy.txt").start_copy_from_url(box.get_blob_client("copy").url)
        events = front.wait_for(name, 9)
        picked.wait_for({events[0]["id"], events[8]["id"]})
    assert picked.ids == [events[0]["id"], events[8]["id"]]
    told = [(event["data"]["api"], event["subject"].rpartition("/")[2]) for event in events]
    assert told == [
        ("PutBlob", "small one.txt"),
        ("PutBlockList", "large.bin"),
        ("PutBlob", "log"),
        ("PutBlob", "disk"),
        ("CopyBlob", "copy"),
        ("DeleteBlob", "large.bin"),
        ("PutBlob", "by-sas"),
        ("DeleteBlob", "small one.txt"),
        ("CopyBlob", "copy.txt"),
    ]
    data = [event["data"] for event in events]
    assert [one.get("contentLength") for one in data] == [5, 300 * KB, 0, 512, 5, None, 6, None, 5]
    assert [one["blobType"] for one in data[1:4]] == ["BlockBlob", "AppendBlob", "PageBlob"]
    assert events[0]["topic"] == SOURCE and data[0]["url"].endswith("/small%20one.txt") and data[0]["eTag"]
    assert all(one["requestId"] for one in data)


def committed_texts(container: str) -> dict[str, Any]:
    """The filter of Microsoft's documents for blobs that are whole, of one container and with one ending."""
    whole = ["CopyBlob", "PutBlob", "PutBlockList", "FlushWithClose"]
    return {
        "includedEventTypes": ["Microsoft.Storage.BlobCreated"],
        "subjectBeginsWith": f"/blobServices/default/containers/{container}/",
        "subjectEndsWith": ".txt",
        "advancedFilters": [{"operatorType": "StringIn", "key": "data.api", "values": whole}],
    }


def test_the_event_is_stored_before_the_answer(azurite: Azurite, tmp_path: Path) -> None:
    """A test that uploads, or deletes in a batch, needs no pause: when the client returns, the event is in the log."""
    with fronted(azurite, tmp_path / "data") as front:
        box = front.container()
        for n in range(5):
            box.upload_blob(f"b{n}", os.urandom(1 * MB))
            assert until(lambda n=n: front.stored() >= n + 1, 5)  # type: ignore[misc]
        parallel = [threading.Thread(target=box.upload_blob, args=(f"p{n}", b"x")) for n in range(8)]
        for thread in parallel:
            thread.start()
        for thread in parallel:
            thread.join()
        answers = list(box.delete_blobs("b0", "missing", "p1", raise_on_any_failure=False))
        assert [answer.status_code for answer in answers] == [202, 404, 202]
        events = front.wait_for(box.container_name, 15)
    assert len({event["data"]["sequencer"] for event in events}) == len(events) == 15
    deleted = [event["subject"][-2:] for event in events if event["eventType"].endswith("BlobDeleted")]
    assert sorted(deleted) == ["b0", "p1"]


def test_a_large_blob_takes_no_memory(tmp_path: Path) -> None:
    """A blob of 1 GB, in blocks side by side, is one event; 64 MB of it come back; all passes in pieces."""
    content, size = os.urandom(8 * MB), 1024 * MB
    with TemporaryDirectory() as disk, running(Path(disk)) as azurite, fronted(azurite, tmp_path / "data") as front:
        intake = front.server.roles()["intake"]
        before = _memory_kb(intake, "VmRSS")
        box = front.container(max_block_size=8 * MB, max_single_put_size=8 * MB, max_chunk_get_size=8 * MB)
        box.upload_blob("large", (content for _ in range(size // len(content))), max_concurrency=4)
        assert box.download_blob("large", offset=5, length=64 * MB).readall() == (content * 9)[5 : 64 * MB + 5]
        grown = _memory_kb(intake, "VmHWM") - before
        [event] = front.wait_for(box.container_name, 1)
    assert (event["data"]["api"], event["data"]["contentLength"]) == ("PutBlockList", size)
    assert grown < 24 * KB, f"{grown} KB"


def _memory_kb(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Between(socketserver.ThreadingTCPServer):
    """Passes bytes to an Azurite and back. When the answer to a request with the armed start has come, it runs
    `on_answer` and hangs up: only Azurite knows of the change.
    """

    daemon_threads = True

    def __init__(self, azurite: Azurite) -> None:
        super().__init__(("127.0.0.1", 0), _Passage)
        self.azurite = ("127.0.0.1", azurite.ports["Blob"])
        self.armed = b""
        self.on_answer: Callable[[], None] = lambda: None
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Passage(socketserver.BaseRequestHandler):
    server: Between

    def handle(self) -> None:
        hit = threading.Event()
        with socket.create_connection(self.server.azurite) as service, suppress(OSError):
            threading.Thread(target=self._upwards, args=(service, hit), daemon=True).start()
            while answer := service.recv(65536):
                if hit.is_set():
                    self.server.on_answer()
                    return
                self.request.sendall(answer)

    def _upwards(self, service: socket.socket, hit: threading.Event) -> None:
        with suppress(OSError):
            while piece := self.request.recv(65536):
                if self.server.armed and piece.startswith(self.server.armed):
                    self.server.armed = b""
                    hit.set()
                service.sendall(piece)
            service.shutdown(socket.SHUT_WR)


def test_a_kill_between_the_answer_of_azurite_and_the_event(azurite: Azurite, tmp_path: Path) -> None:
    """Intake is killed when only Azurite knows that a blob was changed: each operation has exactly one event."""
    with Between(azurite) as between, fronted(azurite, tmp_path, behind_port=between.server_address[1]) as front:
        box = front.container(max_single_put_size=64 * KB, max_block_size=64 * KB)
        box.upload_blob("source", b"x")
        between.on_answer = lambda: front.server.kill("intake")
        blob = box.get_blob_client
        steps: list[tuple[str, str, Callable[[], object]]] = [
            ("PUT", "put", lambda: box.upload_blob("put", b"x")),
            ("PUT", "listed?comp=blocklist", lambda: box.upload_blob("listed", os.urandom(100 * KB))),
            ("PUT", "log", lambda: blob("log").create_append_blob()),
            ("PUT", "disk", lambda: blob("disk").create_page_blob(512)),
            ("PUT", "copy", lambda: blob("copy").start_copy_from_url(blob("source").url)),
            ("DELETE", "source", lambda: box.delete_blob("source")),
        ]
        for count, (method, target, step) in enumerate(steps, 2):
            between.armed = f"{method} /{AZURITE_ACCOUNT}/{box.container_name}/{target}".encode()
            with pytest.raises((ServiceRequestError, ServiceResponseError)):
                step()
            assert not between.armed
            front.wait_for(box.container_name, count)
        box.upload_blob("last", b"x")
        events = front.wait_for(box.container_name, 8)
    told = [(event["data"]["api"], event["subject"].rpartition("/")[2]) for event in events]
    whole = [("PutBlob", "put"), ("PutBlockList", "listed"), ("PutBlob", "log"), ("PutBlob", "disk")]
    assert told == [("PutBlob", "source"), *whole, ("CopyBlob", "copy"), ("DeleteBlob", "source"), ("PutBlob", "last")]


def test_a_killed_front_leaves_out_no_blob(azurite: Azurite, tmp_path: Path) -> None:
    """Intake is killed again and again while blobs are uploaded: each blob that Azurite has is reported."""
    with fronted(azurite, tmp_path / "data") as front:
        box = front.container()
        over = threading.Event()

        def upload() -> None:
            n = 0
            while not over.is_set():
                try:
                    box.upload_blob(f"b{n}", os.urandom(20 * KB))
                except (HttpResponseError, ServiceRequestError, ServiceResponseError):
                    over.wait(0.1)
                n += 1

        uploading = threading.Thread(target=upload)
        uploading.start()
        for kills in range(1, 4):
            assert until(lambda kills=kills: len(front.events(box.container_name)) >= kills * 5)  # type: ignore[misc]
            front.server.kill("intake")
        over.set()
        uploading.join()
        with azurite.blobs() as direct:
            there = {blob.name for blob in direct.get_container_client(box.container_name).list_blobs()}
        assert until(lambda: there <= _names(front, box)), there - _names(front, box)


def _names(front: Front, box: ContainerClient) -> set[str]:
    return {event["subject"].rpartition("/")[2] for event in front.events(box.container_name)}


def test_the_client_for_node(azurite: Azurite, tmp_path: Path) -> None:
    """@azure/storage-blob uploads one by one, side by side and in blocks, and deletes: one event for each blob."""
    with fronted(azurite, tmp_path, "--memory") as front:
        given = {"url": front.url, "account": AZURITE_ACCOUNT, "key": AZURITE_KEY, "container": "from-node"}
        assert Node(given, {})("blobs") == {"whole": True}
        events = front.wait_for("from-node", 16)
    told = [(event["data"]["api"], event["subject"].rpartition("/")[2]) for event in events]
    assert told[0] == ("PutBlob", "small.txt") and events[0]["data"]["contentType"] == "text/plain"
    assert sorted(told[1:13]) == sorted(("PutBlob", f"parallel-{n}") for n in range(12))
    assert told[13:] == [("PutBlockList", "staged"), ("PutBlockList", "large"), ("DeleteBlob", "small.txt")]
    assert [event["data"]["contentLength"] for event in events[13:15]] == [140_000, 5 * MB]


class Bearer:
    """A credential whose token an Azurite with `--oauth basic` accepts: it checks everything but the signature."""

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        now = int(datetime.now(UTC).timestamp())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/t/",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 600,
        }
        return AccessToken(jwt.encode(claims, "k" * 32), now + 600)


def test_bearer_tokens_over_tls(tmp_path: Path) -> None:
    """Both sides speak TLS; a token passes, and a wrong one is refused by Azurite."""
    files = prepare(tmp_path / "tls", ["127.0.0.1", "localhost"], datetime.now(UTC))
    port, flags = free_port(), ("--oauth", "basic", "--cert", str(files.certificate), "--key", str(files.key))
    with running(None, *flags) as azurite, receiver() as hook:
        behind = {
            "RECAPITO_AZURE_AZURITE_URL": f"https://127.0.0.1:{azurite.ports['Blob']}",
            "RECAPITO_DELIVERY_CA_FILE": str(files.authority),
        }
        tls = ("--memory", "--tls-cert", str(files.certificate), "--tls-key", str(files.key))
        with server(tmp_path, "--azurite-front", str(port), *tls, environment=behind) as it:
            front = Front(it, port, hook, "https")
            trust = {"connection_verify": str(files.authority), "retry_total": 0}
            client = BlobServiceClient(front.url, Bearer(), **trust)
            box = client.create_container("by-token")
            box.upload_blob("a", b"x")
            [event] = front.wait_for("by-token", 1)
            with pytest.raises(HttpResponseError):
                BlobServiceClient(front.url, AzureSasCredential("sv=2021&sig=wrong"), **trust).create_container("no")
    assert event["data"]["url"] == f"{front.url}/by-token/a"


def test_wrong_requests_and_a_missing_azurite(tmp_path: Path) -> None:
    """The server names both addresses; without an Azurite it answers 502 with the reason, and 400 to no request."""
    port = free_port()
    url = f"http://127.0.0.1:{free_port()}"
    nowhere = {"RECAPITO_AZURE_AZURITE_URL": url}
    with server(tmp_path / "data", "--memory", "--azurite-front", str(port), environment=nowhere) as it:
        assert it.line() == f"The front of the Azurite at {url} is at http://127.0.0.1:{port}"
        for sent, code in (
            (b"GET /devstoreaccount1?comp=list HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 502"),
            (b"nonsense\r\n\r\n", b"HTTP/1.1 400"),
            (b"\x16\x03\x01" + b"\r\n\r\n", b"HTTP/1.1 400"),
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(sent)
                answer = b""
                while piece := client.recv(65536):
                    answer += piece
            assert answer.startswith(code), answer
            assert b"<Code>" in answer


def test_settings_of_the_front() -> None:
    """A port that is none, and a URL that is none, are refused with the key."""
    from recapito.errors import SettingsError
    from recapito.settings import settings

    for variable, value in (("AZURITE_FRONT", "70000"), ("AZURITE_URL", "127.0.0.1")):
        with pytest.raises(SettingsError, match=f"azure.{variable.lower()}"):
            settings.load(environment={f"RECAPITO_AZURE_{variable}": value})
