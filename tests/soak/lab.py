"""Machines for a cluster, as network namespaces: three for NATS servers, two for nodes. It needs root.

The machines meet at a switch, a bridge, from which each can be moved to a second switch: that is a partition. Nodes
have a second cable to this machine, on which clients and webhooks are, so that a client can be on the minority side.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SERVERS = ("s0", "s1", "s2")
NODES = ("n0", "n1")
HOOK_ADDRESS = "10.79.0.1"
PORT = 8585
NATS = Path(sys.executable).with_name("nats-server")


def address(machine: str) -> str:
    """The address of a machine in the cluster's network."""
    return f"10.77.0.{10 * (1 + (machine[0] == 'n')) + int(machine[1])}"


def client_address(node: str) -> str:
    """The address by which clients reach a node."""
    return f"10.78.{node[1]}.2"


class Lab:
    """The machines, their cables and their processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tag = f"r{os.getpid() % 10000}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.away: set[str] = set()

    def build(self) -> None:
        for switch in ("A", "B"):
            self._ip(f"link add {self._tag}{switch} type bridge")
            self._ip(f"link set {self._tag}{switch} up")
        self._ip(f"addr add 10.77.0.1/24 dev {self._tag}A")
        self._ip(f"addr add {HOOK_ADDRESS}/32 dev lo")
        for machine in (*SERVERS, *NODES):
            space, cable = self._space(machine), self._cable(machine)
            self._ip(f"netns add {space}")
            self._ip(f"link add {cable} type veth peer name eth0 netns {space}")
            self._ip(f"link set {cable} master {self._tag}A up")
            for line in (f"addr add {address(machine)}/24 dev eth0", "link set eth0 up", "link set lo up"):
                self._ip(f"-n {space} {line}")
        for node in NODES:
            space, cable = self._space(node), self._cable(f"c{node}")
            self._ip(f"link add {cable} type veth peer name eth1 netns {space}")
            self._ip(f"addr add 10.78.{node[1]}.1/30 dev {cable}")
            self._ip(f"link set {cable} up")
            for line in (
                f"addr add {client_address(node)}/30 dev eth1",
                "link set eth1 up",
                f"route add default via 10.78.{node[1]}.1",
            ):
                self._ip(f"-n {space} {line}")

    def tear_down(self) -> None:
        for machine in tuple(self._processes):
            self.kill(machine)
        with suppress(subprocess.CalledProcessError):
            self._ip(f"addr del {HOOK_ADDRESS}/32 dev lo")
        for machine in (*SERVERS, *NODES):
            with suppress(subprocess.CalledProcessError):
                self._ip(f"netns del {self._space(machine)}")
        for switch in ("A", "B"):
            with suppress(subprocess.CalledProcessError):
                self._ip(f"link del {self._tag}{switch}")

    def cut(self, machines: Iterable[str]) -> None:
        """Put these machines on the other side of a partition."""
        for machine in machines:
            self._ip(f"link set {self._cable(machine)} master {self._tag}B")
            self.away.add(machine)

    def join(self) -> None:
        """End the partition."""
        for machine in tuple(self.away):
            self._ip(f"link set {self._cable(machine)} master {self._tag}A")
            self.away.discard(machine)

    def start_server(self, server: str) -> None:
        routes = ", ".join(f'"nats://{address(each)}:6222"' for each in SERVERS)
        config = self._directory / f"{server}.conf"
        config.write_text(
            f"""
            server_name: {server}
            listen: "{address(server)}:4222"
            http: "{address(server)}:8222"
            max_payload: 8MB
            jetstream {{ store_dir: "{self._directory / server}", sync_interval: always, max_file_store: 4GB }}
            cluster {{ name: soak, listen: "{address(server)}:6222", routes: [{routes}] }}
            """
        )
        self._start(server, [str(NATS), "-c", str(config), "-l", str(self._directory / f"{server}.log")], {})

    def start_node(self, node: str, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "recapito", "serve", "--quiet", "--handshake", "off"]
        self._start(node, command, environment)

    def running(self, machine: str) -> bool:
        process = self._processes.get(machine)
        return process is not None and process.poll() is None

    def kill(self, machine: str) -> None:
        """End the process of a machine at once; the roles of a node end with their parent."""
        process = self._processes.pop(machine)
        self._signal(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()

    def stop(self, machine: str) -> None:
        process = self._processes.pop(machine)
        process.terminate()
        process.wait()

    def pause(self, machine: str) -> None:
        self._signal(self._processes[machine].pid, signal.SIGSTOP)

    def go_on(self, machine: str) -> None:
        self._signal(self._processes[machine].pid, signal.SIGCONT)

    def _start(self, machine: str, command: list[str], environment: dict[str, str]) -> None:
        with (self._directory / f"{machine}.out").open("ab") as log:
            self._processes[machine] = subprocess.Popen(
                ["ip", "netns", "exec", self._space(machine), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def _signal(self, pid: int, number: int) -> None:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for each in (pid, *(map(int, children.read_text().split()) if children.exists() else ())):
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def _space(self, machine: str) -> str:
        return f"{self._tag}{machine}"

    def _cable(self, machine: str) -> str:
        return f"{self._tag}v{machine}"

    def _ip(self, arguments: str) -> None:
        subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)
