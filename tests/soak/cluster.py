"""`python -m tests.soak --cluster ROUNDS`: a cluster under load while nodes and servers are killed, paused and cut off.

Each round has one fault. After it everything that was acknowledged must have arrived at both webhooks, and events that
arrived twice must be no more than the unsettled windows of each lane.
"""

import asyncio
import http.client
import itertools
import json
import os
import random
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from recapito.composition import cluster_setup
from recapito.domain import limits
from recapito.domain.cluster.partition import home_of
from recapito.peers.monitor import ask_monitor
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from tests.soak.books import Books
from tests.soak.cluster_faults import FAULTS
from tests.soak.lab import HOOK_ADDRESS, NODES, PORT, SERVERS, Lab, address, client_address
from tests.system.machine import GROUP, VERSION, events, until

TENANT = "11111111-2222-3333-4444-555555555555"
SECRET = "soak-soak-soak-soak"
BATCH = 10
PATHS = ("one", "batched")
UNSETTLED = limits.WINDOW_REQUESTS * limits.UNSETTLED_WINDOWS  # requests that were answered, while commits are slow
MOST_REPEATED = {"one": UNSETTLED, "batched": UNSETTLED * BATCH}
PATIENCE_S = 120.0


class Hooks:
    """The webhooks, one for each path; every request is taken."""

    def __init__(self, books: Books) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                books.arrive(self.path.strip("/"), [event["id"] for event in content])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """Silence: nodes are killed while they send."""

        self._server = Server((HOOK_ADDRESS, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://{HOOK_ADDRESS}:{self.port}/{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Cluster:
    """The nodes and servers of the lab, as clients see them."""

    def __init__(self, directory: Path, partitions: int) -> None:
        self.lab = Lab(directory)
        self._partitions = partitions
        named = {home_of(f"demo-{number}", partitions): f"demo-{number}" for number in range(50 * partitions)}
        self.topics = [named[number] for number in range(partitions)]
        self._directory = directory
        self.store = "nats://" + ",".join(f"{address(server)}:4222" for server in SERVERS)

    def environment(self, node: str) -> dict[str, str]:
        principal = {"client_id": "soak", "secret": SECRET, "roles": ["Contributor"]}
        return {
            "RECAPITO_SERVER_STORE": self.store,
            "RECAPITO_SERVER_DATA": str(self._directory / node),
            "RECAPITO_SERVER_HOST": "0.0.0.0",
            "RECAPITO_SERVER_PORT": str(PORT),
            "RECAPITO_SERVER_PUBLIC_URL": f"http://{client_address(NODES[0])}:{PORT}",
            "RECAPITO_CLUSTER_NODE": node,
            "RECAPITO_CLUSTER_URL": f"http://{address(node)}:{PORT}",
            "RECAPITO_CLUSTER_MONITORS": ",".join(f"http://{address(server)}:8222" for server in SERVERS),
            "RECAPITO_IDENTITY_TENANT": TENANT,
            "RECAPITO_IDENTITY_PRINCIPALS": json.dumps([principal]),
            "RECAPITO_METRICS_AUTHENTICATE": "false",
            "RECAPITO_PORTAL_ENABLED": "false",
        }

    def settings(self, node: str) -> Settings:
        return settings_module.load(environment=self.environment(node))

    def start(self) -> None:
        """Make the cluster, with all that runs in it."""
        self.lab.build()
        for server in SERVERS:
            self.lab.start_server(server)
        first, second = (self.settings(node) for node in NODES)
        size = cluster_setup.StreamSizes(512 * limits.MB, 512 * limits.MB, 3, self._partitions)
        assert until(lambda: self._made(first, size), 60)
        asyncio.run(cluster_setup.join(second, cluster_setup.read_secret(first)))
        self.heal()

    def _made(self, settings: Settings, size: cluster_setup.StreamSizes) -> bool:
        with suppress(Exception):  # the servers elect a leader first
            asyncio.run(cluster_setup.init(settings, size))
            return True
        return False

    def heal(self) -> None:
        """Everything runs, is connected and has room."""
        self.lab.join()
        self.lab.make_room()
        for machine in (*SERVERS, *NODES):
            if self.lab.running(machine):
                self.lab.go_on(machine)
            else:
                self.start_machine(machine)

    def mend(self) -> list[str]:
        """Follow the remedy for copies that lack messages, once a node tells of one: empty that server. Those emptied.

        A bit that flipped costs a server a part of its copy, which NATS does not replace by itself.
        """
        told = " ".join(why for node in NODES for why in self._checks(node).values() if " lacks " in why)
        lacking = [server for server in SERVERS if f"//{address(server)}:" in told and self._lacks(server)]
        for server in lacking:
            self.wipe(server)
        return lacking

    def _lacks(self, server: str) -> bool:
        """Whether a server's copies lack messages even now: the nodes look at them once a minute."""
        with suppress(OSError):
            told = ask_monitor(f"http://{address(server)}:8222", "recapito_L")
            return any(copy.missing for copy in told.copies.values())
        return False

    def _supervise(self) -> None:
        """Start nodes again that ended because the servers did not answer, as systemd does. Other ends are defects."""
        for node in NODES:
            code = self.lab.exit_code(node)
            if code == os.EX_TEMPFAIL:
                self.start_machine(node)
            elif code is not None:
                raise TimeoutError(f"{node} ended with {code}: {self._said(node)}")

    def start_machine(self, machine: str) -> None:
        if machine in SERVERS:
            self.lab.start_server(machine)
        else:
            self.lab.start_node(machine, self.environment(machine))

    def wipe(self, machine: str) -> None:
        """Start a machine without its data; a node keeps the cluster's secret alone. Wait until it is whole again."""
        self.lab.kill(machine)
        settings = None if machine in SERVERS else self.settings(machine)
        self.lab.wipe(machine, settings and settings.cluster.secret_in(settings.data))
        self.start_machine(machine)
        whole = self.lab.current if settings is None else lambda machine: self.state(machine) in ("standby", "owner")
        if not until(lambda: whole(machine), PATIENCE_S):
            raise TimeoutError(f"{machine} is not whole again after it was wiped")

    def state(self, node: str) -> str:
        """`owner`, another state, or nothing if the node does not answer."""
        url = f"http://{client_address(node)}:{PORT}/metrics"
        with suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=3) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("recapito_cluster_state") and line.endswith(" 1"):
                    return str(line.split('"')[1])
        return ""

    def owner(self) -> str:
        """The node that owns, once one does and the other stands by; of several partitions, that of the first."""
        found: list[str] = []

        def look() -> bool:
            self._supervise()
            if self._partitions > 1:
                found[:] = self._owners()
                return len(found) == self._partitions and all(map(self.state, NODES))
            states = {node: self.state(node) for node in NODES}
            found[:] = [node for node, state in states.items() if state == "owner"]
            return len(found) == 1 and "standby" in states.values()

        if not until(look, PATIENCE_S):
            raise TimeoutError("\n".join(f"{node} is '{self.state(node)}': {self._said(node)}" for node in NODES))
        return found[0]

    def _owners(self) -> list[str]:
        """The owners of all partitions that have one, if all nodes agree about them."""
        seen = []
        for node in NODES:
            checks = self._checks(node)
            told = [checks.get(f"partition {number}", "") for number in range(self._partitions)]
            seen.append([text.split("'")[1] for text in told if text.startswith("ok: node '")])
        return seen[0] if seen[0] == seen[1] else []

    def _checks(self, node: str) -> dict[str, str]:
        """The checks of a node that is ready; none of another one."""
        with suppress(OSError, ValueError), urllib.request.urlopen(_ready_url(node), timeout=3) as answer:
            return dict(json.load(answer)["checks"])
        return {}

    def _said(self, node: str) -> str:
        """The last words of a node."""
        return (self._directory / f"{node}.out").read_text()[-1500:]

    def manage(self, method: str, path: str, body: object = None) -> Any:
        """A management request, sent again while a node that has just become the owner still answers as a standby."""
        found: list[Any] = []

        def answered() -> bool:
            with suppress(OSError):
                found.append(self._manage(method, path, body))
            return bool(found)

        if not until(answered, PATIENCE_S):
            raise TimeoutError(f"{method} {path} is not answered")
        return found[0]

    def _manage(self, method: str, path: str, body: object) -> Any:
        form = {"grant_type": "client_credentials", "client_id": "soak", "client_secret": SECRET}
        form["scope"] = "https://management.azure.com/.default"
        base = f"http://{client_address(NODES[0])}:{PORT}"
        with urllib.request.urlopen(
            f"{base}/{TENANT}/oauth2/v2.0/token", urllib.parse.urlencode(form).encode(), timeout=20
        ) as answer:
            token = json.loads(answer.read())["access_token"]
        request = urllib.request.Request(f"{base}{path}?{VERSION}", json.dumps(body).encode(), method=method)
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())


def _ready_url(node: str) -> str:
    return f"http://{client_address(node)}:{PORT}/readyz"


class Load:
    """Publishers, one for each node; they remember the longest time without an acknowledgement."""

    def __init__(self, books: Books, keys: dict[str, str]) -> None:
        self._books = books
        self._keys = keys
        self._ending = threading.Event()
        self._last = time.monotonic()
        self.longest = 0.0
        self.acknowledged = 0
        self._threads = [threading.Thread(target=self._run, args=(node,)) for node in NODES]
        for thread in self._threads:
            thread.start()

    def _run(self, node: str) -> None:
        for number, (topic, key) in enumerate(itertools.cycle(self._keys.items())):
            ids = [f"{node}-{time.monotonic_ns()}-{number}-{n}" for n in range(5)]
            status: int | None = None
            self._books.published(ids, None)  # they may arrive before the answer does
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(client_address(node), PORT, timeout=15)
                connection.request("POST", f"/topics/{topic}/api/events", events(*ids), {"aeg-sas-key": key})
                status = connection.getresponse().status
                connection.close()
            self._books.published(ids, status)
            if status == 200:
                now = time.monotonic()
                self.longest, self._last = max(self.longest, now - self._last), now
                self.acknowledged += len(ids)
            if self._ending.wait(0.05 if status == 200 else 0.25):
                return

    def begin_round(self) -> None:
        self.longest, self._last = 0.0, time.monotonic()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()


def soak_cluster(
    rounds: int, seed: int, partitions: int = 1, faults: Iterable[str] = FAULTS, journals: Path | None = None
) -> list[str]:
    """Run rounds of these faults; everything that went wrong. The last line that it prints is the record.

    The seed also chooses the first fault, so that short runs with several seeds meet all of them. A run that is broken
    off, by Ctrl-C or by a cluster that does not heal, prints the record of the rounds that it has finished.
    The journals of all machines are kept in a directory, if one is named.
    """
    rng, books, wrong, done = random.Random(seed), Books(), [], Counter[str]()
    began = time.monotonic()
    with TemporaryDirectory() as place:
        cluster = Cluster(Path(place), partitions)
        load: Load | None = None
        hooks: Hooks | None = None
        try:
            cluster.start()
            cluster.owner()
            hooks = Hooks(books)
            for topic, path in itertools.product(cluster.topics, PATHS):
                destination = {"endpointUrl": hooks.url(path), "maxEventsPerBatch": BATCH if path == "batched" else 1}
                body = {"properties": {"destination": {"endpointType": "WebHook", "properties": destination}}}
                cluster.manage("PUT", f"{GROUP}/topics/{topic}", {"location": "local"})
                cluster.manage("PUT", f"{GROUP}/topics/{topic}/eventSubscriptions/{path}", body)
            keys = {
                topic: cluster.manage("POST", f"{GROUP}/topics/{topic}/listKeys")["key1"] for topic in cluster.topics
            }
            load = Load(books, keys)
            names = list(faults)
            for number in range(rounds):
                name = names[(seed + number) % len(names)]
                print(f"{number + 1}/{rounds} after {(time.monotonic() - began) / 60:.0f} min: ", end="", flush=True)
                wrong += [f"round {number + 1}, {name}: {why}" for why in _round(cluster, books, load, name, rng)]
                done[name] += 1
        except (KeyboardInterrupt, TimeoutError) as broken:
            wrong.append(f"round {done.total() + 1} did not end: {str(broken) or 'it was broken off'}")
        finally:
            if load is not None:
                load.end()
            if journals is not None:
                cluster.lab.keep_journals(journals)
            cluster.lab.tear_down()
            if hooks is not None:
                hooks.close()
    repeated = sum(books.repeated(path) for path in PATHS)
    print(
        f"{done.total()} of {rounds} rounds, seed {seed}, {partitions} partitions: "
        f"{load.acknowledged if load else 0} events acknowledged, "
        f"{len(wrong)} faults found, {repeated} arrived again; {dict(done)}"
    )
    return wrong


def _round(cluster: Cluster, books: Books, load: Load, name: str, rng: random.Random) -> list[str]:
    mended = cluster.mend()
    owner, before = cluster.owner(), {path: books.repeated(path) for path in PATHS}
    load.begin_round()
    acknowledged = load.acknowledged
    seconds = FAULTS[name](cluster, owner, rng)
    threading.Event().wait(seconds)
    cluster.heal()
    healed = time.monotonic()
    now = cluster.owner()
    whole_s = time.monotonic() - healed
    began = load.acknowledged
    wrong = [] if until(lambda: load.acknowledged > began + 50, PATIENCE_S) else ["publishing stands still"]
    with books.lock:
        wanted = set(books.acknowledged)
    for path in PATHS:

        def missing(path: str = path) -> set[str]:
            with books.lock:
                return wanted - books.arrived.get(path, Counter()).keys()

        if not until(lambda missing=missing: not missing(), PATIENCE_S):  # type: ignore[misc]
            wrong.append(f"{len(missing())} acknowledged events did not arrive at {path}, one is {min(missing())}")
        repeated = books.repeated(path) - before[path]
        if repeated > MOST_REPEATED[path] * len(cluster.topics):
            wrong.append(f"{repeated} events arrived again at {path}")
        if invented := books.invented(path):
            wrong.append(f"{len(invented)} events arrived at {path} that nobody published")
    repeats = ", ".join(f"{books.repeated(path) - before[path]} again at {path}" for path in PATHS)
    emptied = "".join(f"{server} emptied, " for server in mended)
    print(
        f"{emptied}{name} for {seconds:.1f} s: owner {owner} -> {now}, whole {whole_s:.1f} s after it was healed, "
        f"{load.acknowledged - acknowledged} acknowledged, "
        f"silent for {load.longest:.1f} s at most, {repeats}{'; WRONG' if wrong else ''}",
        flush=True,
    )
    return wrong
