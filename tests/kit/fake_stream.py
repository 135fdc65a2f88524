"""A stream in memory with the faults of real ones: lost answers, late application, stale and damaged replicas.

A `FakeStream` is one client of a `FakeServer`. Before each verb its `fault` names the fault of that call; "" is none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from recapito.contracts.stream import (
    Replica,
    StreamFenced,
    StreamFull,
    StreamMessage,
    StreamMissing,
    StreamState,
    StreamUnknown,
)

Fault = Callable[[str], str]  # a verb -> the fault of this call

PUBLISH_FAULTS = ("lost answer", "lost request", "late", "refused but stored")
READ_FAULTS = ("lagging", "gap", "flipped", "unreachable")
STATE_FAULTS = ("stale", "unreachable")


def sound(verb: str) -> str:
    """No fault at all."""
    return ""


@dataclass
class FakeServer:
    """The stored messages of one stream, on all replicas together."""

    name: str = "LOG"
    log_id: str = ""
    created: int = 1
    max_body: int = 1 << 20
    max_bytes: int = 1 << 30  # 0: no bound
    messages: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    late: list[tuple[bytes, int]] = field(default_factory=list)
    missing: bool = False
    full_once: bool = False
    published: int = 0

    def store(self, body: bytes, expected: int) -> int:
        if self.missing:
            raise StreamMissing(f"there is no stream {self.name}")
        if self.last != expected:
            raise StreamFenced(f"the last sequence is {self.last}, not {expected}")
        if self.full_once or 0 < self.max_bytes < self.size + len(body):
            self.full_once = False
            raise StreamFull(self.name)
        self.last += 1
        self.messages[self.last] = body
        self.published += 1
        return self.last

    def apply_late(self) -> None:
        """Messages whose answer was lost arrive now, if their expectation still holds."""
        late, self.late = self.late, []
        for body, expected in late:
            try:
                self.store(body, expected)
            except (StreamUnknown, StreamFull):
                continue

    def restart_at_zero(self) -> None:
        """A majority lost its disks: the stream has its name and its birth, and no message."""
        self.messages.clear()
        self.last = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.messages.values()))


class FakeStream:
    """One client's view of a stream."""

    def __init__(self, server: FakeServer, fault: Fault = sound) -> None:
        self._server = server
        self.fault = fault
        self.cut = False  # no answer to anything

    @property
    def name(self) -> str:
        return self._server.name

    @property
    def max_body(self) -> int:
        return self._server.max_body

    def publish(self, body: bytes, expected: int) -> int:
        assert len(body) <= self.max_body
        fault = self._meet("publish")
        if fault == "lost request":
            raise StreamUnknown("no answer")
        if fault == "late":
            self._server.late.append((body, expected))
            raise StreamUnknown("no answer")
        sequence = self._server.store(body, expected)
        if fault == "lost answer":
            raise StreamUnknown("no answer")
        if fault == "refused but stored":
            raise StreamFenced("wrong last sequence")
        return sequence + 1 if fault == "wrong sequence" else sequence

    def read(self, after: int, limit_bytes: int, leader: bool = False) -> list[StreamMessage]:
        fault = self._meet("read")
        if fault == "unreachable":
            raise StreamUnknown("no answer")
        found: list[StreamMessage] = []
        for sequence in range(after + 1, self._server.last + 1):
            body = self._server.messages.get(sequence)
            if body is None:
                continue
            if found and limit_bytes <= 0:
                break
            limit_bytes -= len(body)
            found.append(StreamMessage(sequence, body, sequence))
            if leader and len(found) == 16:
                break
        if leader:
            return found
        if fault == "lagging":
            return found[: len(found) // 2]
        if fault == "gap":
            return found[: len(found) // 2] + found[len(found) // 2 + 1 :]
        if fault == "flipped":
            return [message._replace(body=_flipped(message.body)) for message in found]
        return found

    def state(self) -> StreamState:
        fault = self._meet("state")
        server = self._server
        if fault == "unreachable":
            raise StreamUnknown("no answer")
        if server.missing:
            raise StreamMissing(f"there is no stream {self.name}")
        last = max(server.last - 3, 0) if fault == "stale" else server.last
        first = min(server.messages, default=server.last + 1)
        replicas = (Replica("a", True), Replica("b", True), Replica("c", True))
        return StreamState(first, last, server.size, server.max_bytes, server.created, server.log_id, "a", replicas)

    def purge(self, below: int) -> None:
        if self._meet("purge") == "unreachable":
            raise StreamUnknown("no answer")
        for sequence in [sequence for sequence in self._server.messages if sequence < below]:
            del self._server.messages[sequence]

    def _meet(self, verb: str) -> str:
        if self.cut:
            raise StreamUnknown("cut off")
        return self.fault(verb)


class FakeStreams:
    """Both streams of a store, as one client reaches them."""

    def __init__(self, log: FakeServer, lanes: FakeServer, fault: Fault = sound) -> None:
        self.log = FakeStream(log, fault)
        self.lanes = FakeStream(lanes, fault)

    def close(self) -> None:
        self.log.cut = self.lanes.cut = True


def _flipped(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])
