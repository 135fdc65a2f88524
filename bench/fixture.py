"""The services that destinations and vaults are measured on: what the tests start, in processes of our own.

Azurite is Microsoft's emulator of Azure Storage; the broker is the tests' double of Service Bus and Event Hubs.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.process import Child, await_port
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from tests.kit.ports import free_port

HOW_TO_INSTALL = "node and its modules are missing: install node, and run npm ci in tests/azurite and in tests/amqp"
ACCOUNT = "/subscriptions/s/resourceGroups/bench/providers/Microsoft.Storage/storageAccounts/bench1"
_TESTS = Path(__file__).parents[1] / "tests"
_AZURITE = _TESTS / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"
_BROKER = _TESTS / "amqp" / "broker.js"
_POLICY, _POLICY_KEY = "sender", "bm90IGEgcmVhbCBrZXk="


def find() -> str | None:
    """The node that runs them, if everything is installed."""
    return shutil.which("node") if _AZURITE.is_file() and (_BROKER.parent / "node_modules" / "rhea").is_dir() else None


@contextmanager
def azurite(node: str, directory: Path, on_disk: bool = False) -> Iterator[str]:
    """An Azurite that keeps everything in memory, or in the directory: its connection string."""
    ports = {service: free_port() for service in ("blob", "queue", "table")}
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    options += ["--location", str(directory)] if on_disk else ["--inMemoryPersistence"]
    options += [part for service, port in ports.items() for part in (f"--{service}Port", str(port))]
    with Child([node, str(_AZURITE), *options], directory / "azurite.log"):
        for port in ports.values():
            await_port(port)
        urls = {service: f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}" for service, port in ports.items()}
        account = f"DefaultEndpointsProtocol=http;AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY}"
        yield f"{account};BlobEndpoint={urls['blob']};QueueEndpoint={urls['queue']}"


@contextmanager
def broker(node: str, directory: Path) -> Iterator[str]:
    """A broker that takes everything and says nothing of it: its connection string."""
    port = free_port()
    order = json.dumps({"policy": _POLICY, "key": _POLICY_KEY, "port": port, "quiet": True})
    with Child([node, str(_BROKER), order], directory / "broker.log"):
        await_port(port)
        shared = f"SharedAccessKeyName={_POLICY};SharedAccessKey={_POLICY_KEY}"
        yield f"Endpoint=sb://127.0.0.1:{port};{shared};UseDevelopmentEmulator=true"
