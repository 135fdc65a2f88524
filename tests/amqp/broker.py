"""The tests' broker as a real process of this machine's node, and what arrived at it."""

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import from_connection_string
from recapito.domain.resources.destination import Broker, EventHub, ServiceBusQueue, ServiceBusTopic
from tests.kit import launch

HERE = Path(__file__).parent
POLICY, KEY = "sender", "bm90IGEgcmVhbCBrZXk="
GROUP = "/subscriptions/s-1/resourceGroups/shop/providers"
SERVICE_BUS = f"{GROUP}/Microsoft.ServiceBus/namespaces/orders1"
EVENT_HUBS = f"{GROUP}/Microsoft.EventHub/namespaces/orders1"


class Arrived(NamedTuple):
    """A message as the broker got it."""

    batch: bool
    fields: dict[str, Any]
    properties: dict[str, Any]
    annotations: dict[str, Any]
    body: str


class LocalBroker:
    """One broker, which can be started again on the same port."""

    def __init__(self, certificate: tuple[str, str] | None = None, largest: int = 1_048_576) -> None:
        self._certificate = certificate
        self._largest = largest
        self._process: subprocess.Popen[str] | None = None
        self._reading: threading.Thread | None = None
        self._told: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self.port = 0

    def start(self) -> Self:
        """Start it, and return when it listens."""
        node = launch.node(HERE, HERE / "node_modules" / "rhea")
        wanted: dict[str, Any] = {"policy": POLICY, "key": KEY, "port": self.port, "largest": self._largest}
        if self._certificate is not None:
            wanted |= {"cert": self._certificate[0], "certKey": self._certificate[1]}
        command = [node, str(HERE / "broker.js"), json.dumps(wanted)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.port = json.loads(self._process.stdout.readline())["port"]
        self._reading = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reading.start()
        return self

    def stop(self) -> None:
        """End it, by its own process id."""
        if self._process is not None and self._reading is not None:
            self._process.kill()
            self._reading.join()
            self._process.communicate()
            self._process = None

    def connection_string(self, key: str = KEY, emulator: bool = True) -> str:
        """How an ordinary client reaches it."""
        more = ";UseDevelopmentEmulator=true" if emulator else ""
        return f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName={POLICY};SharedAccessKey={key}{more}"

    def connections(self, key: str = KEY, emulator: bool = True) -> list[Connection]:
        """Connections to its namespaces."""
        text = self.connection_string(key, emulator)
        return [from_connection_string(top, text) for top in (SERVICE_BUS, EVENT_HUBS)]

    def arrived(self, destination: Broker, number: int) -> list[Arrived]:
        """The messages that came to an entity, once that many have come."""
        name = destination.resource_id.rpartition("/")[2]

        def messages() -> list[Arrived]:
            found = [told for told in self._told if told.get("entity") == name]
            return [
                Arrived(m["batch"], m["fields"], m.get("properties", {}), m.get("annotations", {}), m["body"])
                for m in found
            ]

        with self._news:
            assert self._news.wait_for(lambda: len(messages()) >= number, 10), messages()
            return messages()

    def seen(self, destination: Broker) -> int:
        """How many transfers came to an entity, taken or not."""
        return sum(told.get("seen") == destination.resource_id.rpartition("/")[2] for told in self._told)

    def tokens(self) -> list[dict[str, Any]]:
        """The claims that were made."""
        return [told["token"] for told in self._told if "token" in told]

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._news:
                self._told.append(json.loads(line))
                self._news.notify_all()


def new(kind: type[Broker], behaviour: str = "good") -> Any:
    """A destination of its own that behaves so."""
    top, part = {
        ServiceBusQueue: (SERVICE_BUS, "queues"),
        ServiceBusTopic: (SERVICE_BUS, "topics"),
        EventHub: (EVENT_HUBS, "eventhubs"),
    }[kind]
    return kind(resource_id=f"{top}/{part}/{behaviour}-{uuid.uuid4()}")


@contextmanager
def running(certificate: tuple[str, str] | None = None, largest: int = 1_048_576) -> Iterator[LocalBroker]:
    """A broker for the length of a block."""
    with launch.running(LocalBroker(certificate, largest)) as broker:
        yield broker
