"""Machines for a cluster, as network namespaces: three for NATS servers, two for nodes. It needs root.

The machines meet at a switch, a bridge, from which each can be moved to a second switch: that is a partition. Nodes
have a second cable to this machine, on which clients and webhooks are, so that a client can be on the minority side.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SERVERS = ("s0", "s1", "s2")
NODES = ("n0", "n1")
SMALL_DISKS = ("s0", "s1")  # servers with volumes of their own, which can be filled
DISK_MB = 1024
BALLAST = "ballast"
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
        for server in SMALL_DISKS:
            (self._directory / server).mkdir()
            size = f"size={DISK_MB}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._directory / server)], check=True)
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
        for server in SMALL_DISKS:
            subprocess.run(["umount", "--lazy", str(self._directory / server)], capture_output=True)

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

    def exit_code(self, machine: str) -> int | None:
        """The exit code of a machine's process that ended by itself."""
        process = self._processes.get(machine)
        return None if process is None else process.poll()

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

    def kill_role(self, node: str, role: str) -> None:
        """End one role of a node; a node that does not run it is left alone."""
        for pid in self._roles(node, role):
            os.kill(pid, signal.SIGKILL)

    def pause_role(self, node: str, role: str) -> None:
        for pid in self._roles(node, role):
            os.kill(pid, signal.SIGSTOP)

    def _roles(self, node: str, role: str) -> list[int]:
        pid = self._processes[node].pid
        children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return [
            each for each in children if f" {role} " in Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ")
        ]

    def wipe(self, machine: str, kept: Path | None) -> None:
        """Remove the data of a machine that does not run, except one file."""
        for path in sorted((self._directory / machine).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # it holds the file
                    path.rmdir()
            elif path != kept:
                path.unlink()

    def flip_bits(self, server: str, rng: random.Random) -> None:
        """Flip a bit in two blocks of the streams of a server that does not run."""
        blocks = sorted(path for path in (self._directory / server).rglob("*.blk") if path.stat().st_size)
        for path in rng.sample(blocks, min(2, len(blocks))):
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)

    def fill(self, server: str) -> None:
        """Leave no room on the volume of a server."""
        with suppress(OSError), (self._directory / server / BALLAST).open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass

    def make_room(self) -> None:
        """Give full volumes room again. NATS switches JetStream off when its disk is full, so it is started again."""
        for server in SMALL_DISKS:
            ballast = self._directory / server / BALLAST
            if ballast.exists():
                ballast.unlink()
                if self.running(server):
                    self.kill(server)

    def current(self, server: str) -> bool:
        """Whether a server says that its copies of all streams are current."""
        with suppress(OSError), urllib.request.urlopen(f"http://{address(server)}:8222/healthz", timeout=3) as answer:
            return bool(answer.status == 200)
        return False

    def keep_journals(self, directory: Path) -> None:
        """Copy what all machines wrote into a directory, and what the servers say of their streams now."""
        directory.mkdir(parents=True, exist_ok=True)
        for path in (*self._directory.glob("*.out"), *self._directory.glob("*.log")):
            shutil.copy(path, directory)
        for server in SERVERS:
            url = f"http://{address(server)}:8222/jsz?streams=true&raft=true"
            with suppress(OSError), urllib.request.urlopen(url, timeout=3) as answer:
                (directory / f"{server}.jsz.json").write_bytes(answer.read())

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
