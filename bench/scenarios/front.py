"""Uploads through the front of an Azurite, each with an event that is durable before the answer, against without it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import msgspec
from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas

from bench import fixture
from bench.lab import TURN_S, WARM_UP_S, Lab, Receiver
from bench.process import Child, Machine, cpu_s, module
from bench.report import Goal, Sample
from bench.scenarios import Round
from bench.server import GROUP, VERSION, Recapito, call
from bench.uploader import Uploaded, Uploads
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from tests.kit.ports import free_port

NAME = "front"
ROUNDS = 3
GOALS = (Goal("front", "uploads of 100 KB through the front of an Azurite, against straight to it", 0.8),)
SIZE = 100_000
CONNECTIONS = 16
LEFT_OVER_S = 30.0
_CONTAINER, _TOPIC = "uploads", "blobs"
_DELIVERED = "eventgrid_delivery_success_count"
_SOURCE = f"{GROUP.partition('/providers/')[0]}/providers/Microsoft.Storage/storageAccounts/{AZURITE_ACCOUNT}"


def measure(round: Round) -> list[Sample]:
    """The same Azurite with the front and without it, in turns."""
    lab, node = round.lab, fixture.find()
    if node is None:
        return [Sample("front", 0.0, "", fixture.HOW_TO_INSTALL)]
    with ExitStack() as stack:
        path = stack.enter_context(lab.directory("azurite"))
        connection = stack.enter_context(fixture.azurite(node, path, on_disk=True))
        behind = int(connection.partition("BlobEndpoint=http://127.0.0.1:")[2].partition("/")[0])
        with ContainerClient.from_connection_string(connection, _CONTAINER) as container:
            container.create_container()
        receiver, front = stack.enter_context(lab.receiver()), free_port()
        settings = {"RECAPITO_AZURE_AZURITE_URL": f"http://127.0.0.1:{behind}"}
        server = stack.enter_context(lab.recapito(settings, ("--azurite-front", str(front))))
        _subscribe(server, receiver)
        return [_compare(lab, server, front, behind)]


def _subscribe(server: Recapito, receiver: Receiver) -> None:
    topic = f"{GROUP}/systemTopics/{_TOPIC}"
    kind = {"source": _SOURCE, "topicType": "Microsoft.Storage.StorageAccounts"}
    call(server.port, "PUT", f"{topic}{VERSION}", {"location": "local", "properties": kind})
    to = {"endpointType": "WebHook", "properties": {"endpointUrl": receiver.url()}}
    call(server.port, "PUT", f"{topic}/eventSubscriptions/only{VERSION}", {"properties": {"destination": to}})


def _compare(lab: Lab, server: Recapito, front: int, behind: int) -> Sample:
    """Turns of uploads; before the next one begins, the events of the last one are delivered."""
    ports = {"through the front": front, "straight": behind}
    uploads: dict[str, list[Uploaded]] = {name: [] for name in ports}
    for name, port in ports.items():
        _upload(lab, port, f"warm-{len(name)}", WARM_UP_S)
    before = {name: cpu_s(pid) for name, pid in server.pids().items()}
    machine, through = Machine(), _delivered(server)
    for turn in range(3 if lab.quick else 6):
        for name in list(ports)[:: -1 if turn % 2 else 1]:
            done = _upload(lab, ports[name], f"{len(name)}-{turn}", TURN_S)
            uploads[name].append(done)
            if ports[name] == front:
                through += done.blobs
                _until(lambda: _delivered(server), through)
    lab.others.append(machine.others())
    rates = {name: sum(one.blobs for one in made) / sum(one.seconds for one in made) for name, made in uploads.items()}
    blobs = sum(one.blobs for one in uploads["through the front"])
    cpu = {name: (cpu_s(pid) - before[name]) / blobs * 1e6 for name, pid in server.pids().items()}
    for name, made in uploads.items():
        lab.say(f"{name}: {rates[name]:,.0f}/s, p99 {max(one.p99_ms for one in made):.0f} ms")
    spent = ", ".join(f"{name} {each:.0f}" for name, each in cpu.items())
    lab.say(f"CPU µs each: {spent}; others used {lab.others[-1]:.0%} of the machine")
    above, below = rates["through the front"], rates["straight"]
    missing = through - _delivered(server)
    faults = [one.fault for made in uploads.values() for one in made if one.fault]
    faults += [f"{missing} events are missing"] if missing else []
    return Sample("front", above / below, f"{above:,.0f}/s against {below:,.0f}/s straight", "; ".join(faults[:1]))


def _upload(lab: Lab, port: int, prefix: str, seconds: float) -> Uploaded:
    query = generate_container_sas(
        AZURITE_ACCOUNT,
        _CONTAINER,
        account_key=AZURITE_KEY,
        permission=ContainerSasPermissions(write=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    order = Uploads(port, f"/{AZURITE_ACCOUNT}/{_CONTAINER}", query, seconds, prefix, CONNECTIONS, SIZE)
    with lab.directory("uploader") as path, Child(module("bench.uploader"), path / "errors") as child:
        child.tell(msgspec.json.encode(order))
        return msgspec.convert(child.json(seconds + 60), Uploaded)


def _delivered(server: Recapito) -> int:
    lines = [line for line in call(server.port, "GET", "/metrics").splitlines() if line.startswith(_DELIVERED)]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)


def _until(count: Callable[[], int], events: int) -> None:
    """Wait until N events are counted, no longer than allowed."""
    patient_until = time.monotonic() + LEFT_OVER_S
    while count() < events and time.monotonic() < patient_until:
        time.sleep(0.05)
