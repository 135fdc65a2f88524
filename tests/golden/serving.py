"""A server on a copy of the data directory, at the instant at which that was written: what it shows and delivers."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from tests.golden import imports as it
from tests.golden.directory import opened
from tests.golden.values import GROUP, NOW

START_S = 30
STOP_S = 10
HOUR_S = 3600
_GRID = f"{GROUP}/providers/Microsoft.EventGrid"
_SHOWN = (
    f"{_GRID}/topics",
    f"{_GRID}/domains",
    f"{_GRID}/systemTopics",
    f"{GROUP}/providers/Microsoft.Storage/storageAccounts",
    f"{_GRID}/domains/Shop/topics",
    f"{_GRID}/domains/Shop/topics/Fruit/providers/Microsoft.EventGrid/eventSubscriptions",
    f"{_GRID}/topics/Orders/eventSubscriptions",
    f"{_GRID}/topics/Clouds/eventSubscriptions",
    f"{_GRID}/topics/Readings/eventSubscriptions",
    f"{_GRID}/systemTopics/Storage/eventSubscriptions",
)
_PAGE = "api-version=2022-06-15&$top=1"
_ATTEMPTS = "/deliveries?topic=Orders&subscription=Billing"
_PAGED = (
    f"{_GRID}/topics?{_PAGE}",
    f"{_GRID}/topics?{_PAGE}&$filter=contains(name,'r')".replace("'", "%27"),
    f"{_GRID}/topics/Orders/eventSubscriptions?{_PAGE}",
    f"{GROUP.rpartition('/')[0]}?{_PAGE}",
    "/lanes?limit=1",
    f"{_ATTEMPTS}&limit=1",
)
_ASKED = ("/connections", "/damaged", "/lanes")


async def serve(directory: Path) -> str:
    """Everything that a server shows of a directory, and what it delivers within an hour."""
    with _receiver() as (receiver, received):
        await _redirect(directory, receiver)
        with _server(directory) as (client, server):
            client.call("POST", "/clock/advance", {"seconds": 0})  # what is due already happens before this ends
            parts = [(path, client.arm("GET", path)) for path in _SHOWN]
            parts += [(path, client.call("GET", path)) for path in _ASKED]
            parts += [(f"next after {path}", _next(client.call("GET", path))) for path in _PAGED]
            parts.append(("attempts", client.call("GET", _ATTEMPTS)["value"]))  # the newest mark is of the real time
            client.call("POST", "/clock/advance", {"seconds": HOUR_S})
            parts += [(f"an hour later: {path}", client.call("GET", path)) for path in ("/lanes", "/counts")]
            letters = client.call("GET", "/deadletters?topic=Orders")["value"]
            parts.append(("dead letters", sorted((_nameless(one) for one in letters), key=json.dumps)))
        written = (directory / "deadletters").rglob("*.json")
        files = [[*path.relative_to(directory).parts[:-1], path.read_text("utf-8")] for path in written]
        parts.append(("files of dead letters", sorted(files)))
        parts.append(("delivered", sorted(received, key=json.dumps)))
    text = "".join(f"# {title}\n{json.dumps(shown, indent=1, ensure_ascii=False)}\n" for title, shown in parts)
    text = re.sub(r'"unread": \d+', '"unread": "N"', text)  # the janitor may have forgotten a subscription meanwhile
    for found, shown in ((server, "<server>"), (receiver, "<receiver>"), (it.package.__version__, "<version>")):
        text = text.replace(found, shown)
    return text


def _next(page: dict[str, Any]) -> Any:
    """Where the next page starts: a link, or what is asked for."""
    return page.get("nextLink", page.get("next"))


def _nameless(letter: dict[str, Any]) -> dict[str, Any]:
    """A dead letter without what is random: the name of its file."""
    return {name: value for name, value in letter.items() if name not in ("name", "path", "file")}


async def _redirect(directory: Path, receiver: str) -> None:
    """Have the webhooks on this machine be a receiver that listens."""
    async with opened(directory) as stores:
        for one in await stores.log.subscriptions(None, 0, 100):
            destination = one.destination
            if isinstance(destination, it.WebHook) and one.deleted_position is None:
                url = destination.url.replace("127.0.0.1:9", receiver).replace("/hook", f"/{one.name}")
                await stores.log.put_subscription(
                    msgspec.structs.replace(one, destination=msgspec.structs.replace(destination, url=url))
                )


@contextmanager
def _receiver() -> Iterator[tuple[str, list[Any]]]:
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            received.append([self.path, headers, body])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """The log is not read."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", received
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _server(directory: Path) -> Iterator[tuple[it.LocalClient, str]]:
    """A server in a process of its own, which ends with this block however that ends."""
    log = directory / "server.log"
    read_end, write_end = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as said:
        port = listener.getsockname()[1]
        flags = {
            "server.data": str(directory),
            "server.port": port,
            "clock.mode": "manual",
            "clock.patience_s": 10.0,
            "delivery.jitter": False,
            "delivery.handshake": "off",
            "portal.enabled": False,
            "disk.ballast_mb": 1,
            "disk.stop_mb": 1,
            "disk.stop_percent": 0.1,
        }
        settings = msgspec.to_builtins(it.load_settings(environment={}, flags=flags))
        origin = it.ClockOrigin(wall=NOW, boot=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        order = it.RoleConfig(settings=settings, origin=origin, listener=listener.fileno(), wake=-1, ready=write_end)
        process = subprocess.Popen(
            [sys.executable, *it.ROLE_COMMAND],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            pass_fds=[listener.fileno(), write_end],
            start_new_session=True,
        )
    os.close(write_end)
    assert process.stdin is not None
    try:
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        ready = select.select([read_end], [], [], START_S)[0] and os.read(read_end, 64)
        assert ready, log.read_text("utf-8")
        yield it.LocalClient(port, log), f"127.0.0.1:{port}"
    finally:
        os.close(read_end)
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
