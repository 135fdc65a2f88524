"""The load generator, a process of its own: publishes over keep-alive connections, one request at a time on each.

Without a rate it goes as fast as answers come, but never further ahead of the receiver than half a second's worth, so
that what is measured is the rate of the whole way and not of a queue that grows. With a rate, an event's instant is the
one it was due at, so that a server that stalls cannot hide it. `python -m bench.load` reads its Order as JSON.
"""

import asyncio
import sys
import time
from collections import deque
from itertools import cycle
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from bench.event import SIZE, stamped, template
from bench.tally import STEP_NS, Tally, percentile

AHEAD_S = 0.5
LOOK_S = 0.002
LONGEST_ANSWER_S = 30.0
VARIANTS = 64
_SLOWEST = 100_000


class Order(msgspec.Struct, frozen=True):
    """The load: events, target and duration. Each event is delivered `fan_out` times; 0 is without a receiver."""

    port: int
    path: str
    key: str
    tally: str
    seconds: float
    connections: int = 64
    batch: int = 1
    fan_out: int = 1
    rate: float = 0.0
    events: int = 0  # stop after so many, whatever the time
    size: int = SIZE  # bytes of an event


class Result(msgspec.Struct):
    """The result. Instants are of the monotonic clock; `refused` were answered 503 and not tried again."""

    events: int = 0
    refused: int = 0
    failed: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    cpu_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    first_failure: str = ""


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self, generator: "Generator") -> None:
        self._generator = generator
        self._answer = b""
        self._usual: bytes | None = None  # answers of one server are mostly the same bytes: no need to read them again
        self._sent_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def publish(self, request: bytes, sent_ns: int) -> None:
        """Send one request."""
        self._sent_ns = sent_ns
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if data != self._usual or self._answer:
            data = self._answer + data
            self._answer = b"" if _is_whole(data) else data
            if self._answer:
                return
            self._usual = data
        self._generator.answered(self, data, self._sent_ns)

    def connection_lost(self, error: Exception | None) -> None:
        self._generator.lost(self)


class Generator:
    """Keeps the connections busy until its time is over and every request is answered."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._tally = Tally(Path(order.tally))
        bodies = [template(order.batch, order.size, variant) for variant in range(VARIANTS)]
        self._bodies = cycle(bodies)
        size = len(stamped(bodies[0], 0))
        self._head = (
            f"POST {order.path} HTTP/1.1\r\nHost: 127.0.0.1:{order.port}\r\naeg-sas-key: {order.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        ).encode()
        self.result = Result()
        self._latencies = [0] * _SLOWEST
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._sent = 0
        self._allowed = 0  # events that may be sent by now
        self._last_ns = 0

    async def run(self) -> Result:
        """Connect, publish, wait for the last answers."""
        loop = asyncio.get_running_loop()
        for _ in range(self._order.connections):
            _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._order.port)
            self._idle.append(connection)
            self._open.add(connection)
        began_s = time.process_time()
        self.result.started_ns = time.monotonic_ns()
        self._end_ns = self.result.started_ns + int(self._order.seconds * 1e9)
        while self._going() and self._open:
            self._allow()
            self._use_idle()
            await asyncio.sleep(LOOK_S if self._order.rate or self._order.fan_out else 0.05)
        self.result.ended_ns = time.monotonic_ns()
        await self._last_answers()
        self.result.cpu_s = time.process_time() - began_s
        self.result.p50_ms = percentile(self._latencies, 50) * STEP_NS / 1e6
        self.result.p99_ms = percentile(self._latencies, 99) * STEP_NS / 1e6
        return self.result

    def answered(self, connection: Connection, answer: bytes, sent_ns: int) -> None:
        """A request was answered; the connection goes on at once if it may."""
        now = time.monotonic_ns()
        if answer.startswith(b"HTTP/1.1 200"):
            self.result.events += self._order.batch
            self._latencies[min((now - sent_ns) // STEP_NS, _SLOWEST - 1)] += 1
        elif answer.startswith(b"HTTP/1.1 503"):
            self.result.refused += 1
        else:
            self._fail(answer[:500].decode("latin-1"))
        if self._sent < self._allowed and now < self._end_ns:
            self._publish(connection, now)
        else:
            self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """A connection closed; what was under way on it is unknown."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        elif time.monotonic_ns() < self._end_ns:
            self._fail("connection lost")

    def _fail(self, why: str) -> None:
        self.result.failed += 1
        self.result.first_failure = self.result.first_failure or why

    def _going(self) -> bool:
        enough = self._order.events and self._sent >= self._order.events
        return not enough and time.monotonic_ns() < self._end_ns

    def _allow(self) -> None:
        """How many events may have been sent by now."""
        order = self._order
        elapsed_s = (time.monotonic_ns() - self.result.started_ns) / 1e9
        if order.rate:
            self._allowed = int(elapsed_s * order.rate)
        elif order.fan_out:
            received = self._tally.events / order.fan_out
            ahead = max(received / max(elapsed_s, 0.1) * AHEAD_S, order.connections * order.batch)
            self._allowed = int(received + ahead)
        else:
            self._allowed = sys.maxsize
        if order.events:
            self._allowed = min(self._allowed, order.events)

    def _use_idle(self) -> None:
        while self._idle and self._sent < self._allowed:
            self._publish(self._idle.popleft(), time.monotonic_ns())

    def _publish(self, connection: Connection, now: int) -> None:
        order = self._order
        instant = self.result.started_ns + int(self._sent / order.rate * 1e9) if order.rate else now
        self._last_ns = instant = max(instant, self._last_ns + 1)
        self._sent += order.batch
        connection.publish(self._head + stamped(next(self._bodies), instant), instant)

    async def _last_answers(self) -> None:
        for _ in range(int(LONGEST_ANSWER_S / LOOK_S)):
            if len(self._idle) == len(self._open):
                return
            await asyncio.sleep(LOOK_S)
        self._fail(f"{len(self._open) - len(self._idle)} requests were never answered")


def _is_whole(answer: bytes) -> bool:
    head, blank, body = answer.partition(b"\r\n\r\n")
    lengths = [int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"]
    return bool(blank) and len(body) >= sum(lengths)


if __name__ == "__main__":
    print(
        msgspec.json.encode(uvloop.run(Generator(msgspec.json.decode(sys.stdin.readline(), type=Order)).run())).decode()
    )
