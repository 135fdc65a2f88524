"""A volume of a given size for a test, a sink for events on it, and those who fill it."""

import http.client
import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from recapito.domain.limits import MB
from tests.kit.http_server import CannedReply, LoopbackServer
from tests.system.machine import Server, events

UP, DOWN, SLOW, HALF = "up", "down", "slow", "half"


@contextmanager
def volume(place: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes, mounted for the length of a test; a machine that may not mount skips it."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "recapito-test", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"SMALL VOLUMES ARE NOT TESTED: this machine cannot mount one ({mounted.stderr.strip()})")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


class Sink:
    """A webhook that counts, by id, how often it answered an event with 200. It keeps no bodies."""

    def __init__(self, state: str) -> None:
        self.taken: Counter[str] = Counter()
        self.requests = 0
        self._state = state
        self._up = threading.Event()
        if state != SLOW:
            self._up.set()
        self._lock = threading.Lock()
        self._server = LoopbackServer(
            lambda request: CannedReply(self.answer([event["id"] for event in request.events]))
        )
        self.url = f"{self._server.url}/hook"

    def answer(self, ids: list[str]) -> int:
        """The status for these events."""
        self._up.wait(25)
        with self._lock:
            self.requests += 1
            if self._state == DOWN or (self._state == HALF and int(ids[0].rpartition("-")[2]) % 2 == 0):
                return 500
            self.taken.update(ids)
            return 200

    def recover(self) -> None:
        """From now on, take everything at once."""
        self._state = UP
        self._up.set()

    @property
    def repeated(self) -> int:
        """How many events were taken once more than needed."""
        with self._lock:
            return self.taken.total() - len(self.taken)

    def close(self) -> None:
        self._up.set()
        self._server.close()


@contextmanager
def sink(state: str = UP) -> Iterator[Sink]:
    """A sink for the length of a test."""
    with closing(Sink(state)) as endpoint:
        yield endpoint


class Burst:
    """Publishers that go on, each on its own connection, until they are stopped or refused `enough` times."""

    def __init__(self, recapito: Server, event_bytes: int, publishers: int = 8, enough: int | None = None) -> None:
        self.acknowledged: set[str] = set()
        self.refused = 0
        self.odd: list[str] = []
        self._server = recapito
        self._key = recapito.key
        self._data = json.dumps("x" * event_bytes)
        self._enough = enough
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._publish, args=(n,)) for n in range(publishers)]
        for thread in self._threads:
            thread.start()

    def join(self) -> "Burst":
        """Wait until every publisher has been refused enough."""
        for thread in self._threads:
            thread.join()
        return self

    def stop(self) -> "Burst":
        """Have the publishers finish."""
        self._stopping.set()
        return self.join()

    def _publish(self, publisher: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        refused = number = 0
        while not self._stopping.is_set() and refused != self._enough:
            number += 1
            id = f"{publisher}-{number}"
            headers = {"aeg-sas-key": self._key, "Content-Type": "application/json"}
            connection.request("POST", "/topics/demo/api/events", events(id, data=self._data), headers)
            response = connection.getresponse()
            text = response.read()
            with self._lock:
                if response.status == 200:
                    self.acknowledged.add(id)
                elif response.status == 503 and response.headers["Retry-After"]:
                    self.refused += 1
                else:
                    self.odd.append(f"{response.status} {text!r}")
            if response.status != 200:
                refused += 1
                self._stopping.wait(0.05)
        connection.close()


def fill_up(file: Path) -> None:
    """Write, as another program would, until no byte is left, nor any of the room that the server gives back."""
    with file.open("wb", buffering=0) as stranger:
        for size in (MB, 4096, 1) * 20:
            try:
                while True:
                    stranger.write(bytes(size))
            except OSError:
                if os.statvfs(file.parent).f_bavail == 0:
                    return
    raise AssertionError("the volume does not fill up")
