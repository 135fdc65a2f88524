"""Azurite, Microsoft's emulator of Azure Storage, as a real process of this machine's node."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from recapito.domain.connections import parse_storage
from recapito.domain.connections.connection import STORAGE_SERVICES, AzureService, Connection
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from tests.azurite.place import ACCOUNT
from tests.kit import launch

PROGRAM = Path(__file__).parent / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"


_QUIETLY = ("--silent", "--skipApiVersionCheck", "--disableTelemetry")
_LISTENING = re.compile(r"Azurite (Blob|Queue|Table) service is successfully listening at \w+://[^:]+:([0-9]+)")


class Azurite:
    """One Azurite: in memory, or in a directory, from which it can be started again on the same ports."""

    def __init__(self, directory: Path | None = None, *flags: str) -> None:
        self._keeping = ["--inMemoryPersistence"] if directory is None else ["--location", str(directory)]
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None
        self.scheme = "https" if "--cert" in flags else "http"
        self.ports = {"Blob": 0, "Queue": 0, "Table": 0}

    def start(self) -> Self:
        """Start it, and return when it listens."""
        node = launch.node(Path(__file__).parent, PROGRAM)
        ports = [part for name, port in self.ports.items() for part in (f"--{name.lower()}Port", str(port))]
        self._process = subprocess.Popen(
            [node, str(PROGRAM), *_QUIETLY, *ports, *self._keeping, *self._flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        heard: list[str] = []
        waiting = set(self.ports)
        while waiting:
            heard.append(self._process.stdout.readline())
            assert heard[-1], f"Azurite did not start: {heard}"
            if listening := _LISTENING.match(heard[-1]):
                self.ports[listening[1]] = int(listening[2])
                waiting.discard(listening[1])
        return self

    def stop(self) -> None:
        """End it, by its own process id."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None

    def url(self, service: AzureService) -> str:
        """Where a service is."""
        return f"{self.scheme}://127.0.0.1:{self.ports[service.capitalize()]}/{AZURITE_ACCOUNT}"

    @property
    def connection(self) -> Connection:
        """The connection that `--azurite` would make, with the ports of this one."""
        return parse_storage.azurite(ACCOUNT, ports={s: self.ports[s.capitalize()] for s in STORAGE_SERVICES})

    def blobs(self, **options: Any) -> BlobServiceClient:
        """Microsoft's client, to look at what is there."""
        return BlobServiceClient(self.url(AzureService.BLOB), _CREDENTIAL, retry_total=0, **options)

    def queues(self, **options: Any) -> QueueServiceClient:
        """Microsoft's client, to look at what is there."""
        return QueueServiceClient(self.url(AzureService.QUEUE), _CREDENTIAL, retry_total=0, **options)

    def read_blob(self, container: str, path: str) -> bytes:
        """The content of a blob."""
        with self.blobs() as client:
            return client.get_blob_client(container, path).download_blob().readall()


_CREDENTIAL = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY}


@contextmanager
def running(directory: Path | None = None, *flags: str) -> Iterator[Azurite]:
    """An Azurite for the length of a block."""
    with launch.running(Azurite(directory, *flags)) as azurite:
        yield azurite
