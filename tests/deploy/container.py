"""A container without an engine: the image's root file system in a network namespace of its own, by bubblewrap.

The process is the image's user, on a read-only root, and is reached over a pair of virtual network devices.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deploy.container import oci
from tests.deploy.core_install import build, copy_packages, core_requirements
from tests.kit.launch import program, skip

PATIENCE_S = 60


class VirtualNetwork:
    """A network of this machine and one namespace: `host` is here, `container` is there; `far` is routed, not near."""

    def __init__(self) -> None:
        self.name = f"recapito-{secrets.token_hex(3)}"
        self._device = f"rcp{self.name[-6:]}"
        third, fourth = secrets.randbelow(200) + 20, secrets.randbelow(200) + 20
        self.host, self.container = f"10.{third}.{fourth}.1", f"10.{third}.{fourth}.2"
        self.far = f"10.{third}.{fourth + 1}.1"

    def open(self) -> None:
        """Make the namespace and the devices."""
        _ip("netns", "add", self.name)
        _ip("link", "add", self._device, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("address", "add", f"{self.host}/24", "dev", self._device)
        _ip("address", "add", f"{self.far}/24", "dev", self._device)
        _ip("link", "set", self._device, "up")
        _ip("-n", self.name, "address", "add", f"{self.container}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self.name, "link", "set", device, "up")
        _ip("-n", self.name, "route", "add", "default", "via", self.host)

    def close(self) -> None:
        """Remove the namespace, and the devices with it."""
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)


@contextmanager
def network() -> Iterator[VirtualNetwork]:
    """A network for the length of a test, where the machine allows it."""
    program("ip", "install iproute2")
    it = VirtualNetwork()
    try:
        it.open()
    except subprocess.CalledProcessError as error:
        it.close()
        skip(f"this machine allows no network namespace: {error.stderr}")
    try:
        yield it
    finally:
        it.close()


@contextmanager
def root_file_system(*packages: str) -> Iterator[Path]:
    """The image's root file system with Recapito's core and some packages, copied from this environment."""
    program("mmdebstrap", "install mmdebstrap")
    folder = Path(tempfile.mkdtemp(prefix="recapito-image-"))
    folder.chmod(0o755)  # the container's user reads it
    try:
        rootfs = folder / "rootfs"
        oci.make_rootfs(rootfs)
        wheel = build(folder / "dist")
        shutil.unpack_archive(wheel, rootfs / oci.SITE, "zip")
        copy_packages(rootfs / oci.SITE, *core_requirements(rootfs / oci.SITE), *packages, compiled=True)
        yield rootfs
    finally:
        shutil.rmtree(folder)


class RunningImage:
    """A running container with the image's configuration, some variables, and files mounted over those in /etc."""

    def __init__(self, rootfs: Path, net: VirtualNetwork, files: dict[str, str], **variables: str) -> None:
        self._config: dict[str, Any] = oci.config_of(oci.instructions((oci.HERE / "Containerfile").read_text("utf-8")))
        self._folder = Path(tempfile.mkdtemp(prefix="recapito-volume-"))
        self._folder.chmod(0o755)
        self.data = self._folder / "data"
        self.data.mkdir(mode=0o700)
        os.chown(self.data, oci.USER, oci.USER)
        mounts: list[str] = []
        for name, text in files.items():
            (self._folder / name).write_text(text, "utf-8")
            mounts += ["--ro-bind", str(self._folder / name), f"/etc/recapito/{name}"]
        environment = [*self._config["Env"], *(f"{name}={value}" for name, value in variables.items())]
        (volume,) = self._config["Volumes"]
        command = [
            *("ip", "netns", "exec", net.name),
            *("setpriv", f"--reuid={self._config['User']}", f"--regid={self._config['User']}", "--clear-groups"),
            *("bwrap", "--ro-bind", str(rootfs), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *("--bind", str(self.data), volume, *mounts),
            *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--die-with-parent"),
            *("--clearenv", *(word for text in environment for word in ("--setenv", *text.split("=", 1)))),
            *("/opt/recapito/bin/recapito", *self._config["Cmd"]),
        ]
        with (self._folder / "stderr").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        self.said = self._process.stdout.readline()

    @property
    def log(self) -> str:
        """Its standard error up to now."""
        return (self._folder / "stderr").read_text("utf-8", "replace")

    def stop(self) -> int:
        """Ask its first process to end, as an engine does; the exit code."""
        pid = self._process.pid
        for first in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(first), signal.SIGTERM)
        code = self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._folder)
        return code


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=PATIENCE_S)
