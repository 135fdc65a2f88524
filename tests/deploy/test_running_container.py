"""The image's root file system, run as its user on a read-only root: a topic, an event and the portal from outside."""

import http.client
import json
import threading
from typing import Any

from tests.deploy.container import RunningImage, VirtualNetwork, network, root_file_system
from tests.kit.http_server import ArrivedRequest, CannedReply, LoopbackServer
from tests.kit.launch import program
from tests.system.machine import GROUP, VERSION, events, until

PATIENCE_S = 30.0
KEY = "MDEyMzQ1Njc4OWFiY2RlZg=="
ESTATE = "topics: [{{name: orders, keys: {{key1: {key}}}, subscriptions: [{{name: billing, endpoint: '{url}'}}]}}]"


def ask(
    net: VirtualNetwork, port: int, method: str, path: str, body: object = None, source: str = "", **headers: str
) -> tuple[int, bytes]:
    """One request from this machine's network namespace to the container; `source` is the address of the caller."""
    connection = http.client.HTTPConnection(
        net.container, port, timeout=PATIENCE_S, source_address=(source, 0) if source else None
    )
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answers(net: VirtualNetwork, port: int, path: str) -> bool:
    try:
        return ask(net, port, "GET", path)[0] == 200
    except OSError:
        return False


def managed(net: VirtualNetwork, method: str, path: str, body: object = None) -> Any:
    status, answer = ask(net, 8585, method, f"{path}?{VERSION}", body)
    assert status < 300, answer
    return json.loads(answer) if answer else None


def test_the_image_runs_as_its_user_on_a_read_only_root() -> None:
    """In development mode its network manages it and opens the portal without a login; others do not.

    A mounted estate file is its set-up, with a key that a client can know beforehand.
    """
    program("bwrap", "install bubblewrap")
    arrived, seen = threading.Event(), []

    def take(request: ArrivedRequest) -> CannedReply:
        seen.extend(event["id"] for event in request.events)
        arrived.set()
        return CannedReply(200)

    with network() as net, root_file_system("nicegui", "aiohttp") as rootfs:
        hook = LoopbackServer(take, host=net.host)
        own = (rootfs / "etc/recapito/recapito.toml").read_text("utf-8")
        files = {
            "recapito.toml": f'{own}[delivery]\nhandshake = "off"\n',
            "estate.yaml": ESTATE.format(key=KEY, url=hook.url),
        }
        container = RunningImage(rootfs, net, files, RECAPITO_DEV="1")
        try:
            assert container.said == "Recapito is ready at http://localhost:8585\n", container.log
            assert "DEVELOPMENT MODE" in container.log and net.container.rpartition(".")[0] in container.log
            assert answers(net, 8585, "/readyz")
            managed(net, "PUT", f"{GROUP}/topics/more", {"location": "local"})
            assert ask(net, 8585, "POST", "/topics/orders/api/events", events("e-1"), aeg_sas_key=KEY)[0] == 200
            assert arrived.wait(PATIENCE_S) and seen == ["e-1"]
            assert until(lambda: answers(net, 8586, "/"), 90.0)
            assert b"Recapito" in ask(net, 8586, "GET", "/")[1]
            path = f"{GROUP}/topics/orders?{VERSION}"
            assert ask(net, 8585, "GET", path, source=net.far)[0] == 403
            assert ask(net, 8586, "GET", "/", source=net.far)[0] == 403
            assert ask(net, 8585, "GET", path, host="events.example")[0] == 403
            assert {path.stat().st_uid for path in container.data.rglob("*")} == {8585}
        finally:
            hook.close()
            assert container.stop() == 0
