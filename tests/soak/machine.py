"""The server under test and what is done to it: roles and the parent killed, processes paused, its disk filled.

And its files damaged, while it is down.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.rot import Rotten, names, rot
from tests.system.machine import Server, until

PAUSES_S = (0.2, 2.0, 12.0)
START_PATIENCE_S = 60.0
UNREAD_S = 0.7  # so long dispatch stands still before the server is killed: some segments are unread then


class Machine:
    """Keeps one server running on one directory; its users ask for `server` each time."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.done: Counter[str] = Counter()
        self.journal: list[str] = []
        self.rotten: list[Rotten] = []
        self._data = data
        self._flags = flags
        self._ended = threading.Event()
        self.server = Server(data, *flags)
        self.key = self.server.key
        self.port = self.server.port

    def wait(self, seconds: float) -> bool:
        """Let time pass; True when the soak is over."""
        return self._ended.wait(seconds)

    def end(self) -> None:
        """The soak is over: waiting threads go on."""
        self._ended.set()

    # Faults.

    def kill_role(self, rng: random.Random) -> None:
        """One role, at once; the parent starts it again."""
        role = rng.choice(("intake", "dispatch"))
        self.server.kill(role)
        self.done[f"{role} killed"] += 1

    def kill_newborn(self, rng: random.Random) -> None:
        """One role, and the one that takes its place again while it starts."""
        role = rng.choice(("intake", "dispatch"))
        before = self.server.roles().get(role)
        self.server.kill(role)
        if until(lambda: self.server.roles().get(role, before) != before):
            self._ended.wait(rng.uniform(0, 1))
            self.server.kill(role)
        self.done[f"{role} killed at its start"] += 1

    def kill_both(self, rng: random.Random) -> None:
        """Both roles at the same moment."""
        for role in ("intake", "dispatch"):
            self.server.kill(role)
        self.done["both roles killed"] += 1

    def kill_parent(self, rng: random.Random) -> None:
        """The parent, at once, sometimes just after a role; then the machine starts the server again."""
        if rng.random() < 0.5:
            self.kill_role(rng)
        self.server.kill("parent")
        self.done["parent killed"] += 1
        self._restart()

    def pause(self, rng: random.Random) -> None:
        """A process stands still for a while, as on a machine that is overloaded."""
        roles = self.server.roles()
        if not roles:
            return
        role = rng.choice(sorted(roles))
        try:
            os.kill(roles[role], signal.SIGSTOP)
            self._ended.wait(rng.choice(PAUSES_S))
            os.kill(roles[role], signal.SIGCONT)
        except ProcessLookupError:
            return
        self.done[f"{role} paused"] += 1

    def stop_politely(self, rng: random.Random) -> None:
        """A restart as an operator does it."""
        self.server.stop()
        self.done["restarted"] += 1
        self._restart()

    def fill_disk(self, rng: random.Random) -> None:
        """Something else takes all the room of the volume, for a while."""
        filler = self._data.parent / "filler"
        try:
            with filler.open("wb") as file:
                while True:
                    file.write(bytes(1 << 16))
                    file.flush()
        except OSError:
            pass
        self._ended.wait(rng.uniform(1, 8))
        filler.unlink()
        self.done["disk filled"] += 1

    def damage(self, rng: random.Random) -> None:
        """A bit flips while the server is down: in a segment that is unread, a row that waits, or a lane's row."""
        roles = self.server.roles()
        if "dispatch" in roles:
            with contextlib.suppress(ProcessLookupError):
                os.kill(roles["dispatch"], signal.SIGSTOP)
            self._ended.wait(UNREAD_S)
        self.server.stop(signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in roles.values()))
        found = rot(self._data, rng)
        if found is not None:
            self.rotten.append(found)
            self.done[f"{found.table} damaged"] += 1
        self._restart()

    def lost(self, path: str, listed: set[tuple[object, ...]]) -> set[str]:
        """The events that a subscription may have given up: of damaged records that people are shown."""
        lanes = {0} | {lane for lane, name in names(self._data).items() if name == path}
        return {id for one in self.rotten if one.lane in lanes and one[:4] in listed for id in one.ids}

    def begun_again(self, path: str) -> bool:
        """Whether the books of a subscription have begun anew, because its row was damaged."""
        lanes = {lane for lane, name in names(self._data).items() if name == path}
        return any(one.table == "lane" and one.lane in lanes for one in self.rotten)

    def listed(self) -> set[tuple[object, ...]]:
        """The places of the damaged records that `recapito damaged list` shows."""
        command = [sys.executable, "-m", "recapito", "damaged", "list", "--server", self.server.url, "-o", "json"]
        shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return {(one["table"], one["subscriptionId"], one["position"], one["offset"]) for one in shown}

    def corrupt(self, path: str) -> int:
        """How many events a subscription has given up because they were damaged, by its own books."""
        _, text = self.server.request("GET", "/metrics")
        wanted = (f'event_subscription="{path}"', 'reason="CorruptRecord"')
        lines = [line for line in text.decode().splitlines() if all(part in line for part in wanted)]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)

    def _restart(self) -> None:
        """Start the server again, as systemd would; a start that is refused is counted, and tried again."""
        old = self.server
        old.stop(signal.SIGKILL)
        self.journal.extend(old.journal[-50:])
        for _ in range(int(START_PATIENCE_S)):
            try:
                self.server = Server(self._data, *self._flags, port=self.port)
                return
            except AssertionError as refused:
                self.done["start refused"] += 1
                self.journal.append(str(refused))
                self._ended.wait(1)
        raise AssertionError(f"the server does not start again: {self.journal[-1]}")

    def memory_mb(self) -> dict[str, float]:
        """The peak of each role."""
        peaks = {}
        for role, pid in self.server.roles().items():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            peaks[role] = int(peak.split()[1]) / 1024
        return peaks


@contextmanager
def small_disk(directory: Path, size_mb: int) -> Iterator[bool]:
    """A volume of its own of this size, if this machine lets us mount one."""
    mounted = size_mb > 0 and os.geteuid() == 0 and shutil.which("mount") is not None
    if mounted:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(directory)]
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
