"""Uploads blobs over keep-alive connections, one at a time on each, as fast as they are answered: a process of its own.

`python -m bench.uploader` reads its Uploads as JSON.
"""

import asyncio
import sys
import time
from itertools import count
from typing import cast

import msgspec
import uvloop

from bench.tally import STEP_NS, percentile

_SLOWEST = 100_000
_LONGEST_ANSWER_S = 30.0


class Uploads(msgspec.Struct, frozen=True):
    """The load: `path` is that of a container, and `query` its shared access signature."""

    port: int
    path: str
    query: str
    seconds: float
    prefix: str
    connections: int
    size: int


class Uploaded(msgspec.Struct):
    """The result. The time runs until the last answer."""

    blobs: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    fault: str = ""


class _Connection(asyncio.Protocol):
    """One connection, which uploads until the time is over. `over` is set then, or when it fails."""

    def __init__(self, uploader: "Uploader") -> None:
        self._uploader = uploader
        self._answer = b""
        self._sent_ns = 0
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._upload()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._answer.endswith(b"\r\n\r\n"):  # the answer to an upload has no body
            return
        answer, self._answer = self._answer, b""
        self._uploader.answered(answer, time.monotonic_ns() - self._sent_ns)
        if self._uploader.going():
            self._upload()
        else:
            self.over.set()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.is_set():
            self._uploader.result.fault = f"a connection was lost: {error}"
            self.over.set()

    def _upload(self) -> None:
        self._sent_ns = time.monotonic_ns()
        self._transport.write(self._uploader.next_head())
        self._transport.write(self._uploader.body)

    def end(self) -> None:
        """Hang up."""
        self.over.set()
        self._transport.abort()


class Uploader:
    """Keeps the connections busy until its time is over and every upload is answered."""

    def __init__(self, order: Uploads) -> None:
        self.body = b"x" * order.size
        self.result = Uploaded()
        self._order = order
        self._names = count()
        self._latencies = [0] * _SLOWEST

    async def run(self) -> Uploaded:
        """Connect, upload, wait for the last answers."""
        loop = asyncio.get_running_loop()
        began_cpu_s, began = time.process_time(), time.monotonic()
        self._end = began + self._order.seconds
        connections = [
            (await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._order.port))[1]
            for _ in range(self._order.connections)
        ]
        try:
            async with asyncio.timeout(self._order.seconds + _LONGEST_ANSWER_S):
                for connection in connections:
                    await connection.over.wait()
        except TimeoutError:
            self.result.fault = "an upload was never answered"
        self.result.seconds = time.monotonic() - began
        self.result.cpu_s = time.process_time() - began_cpu_s
        self.result.p50_ms = percentile(self._latencies, 50) * STEP_NS / 1e6
        self.result.p99_ms = percentile(self._latencies, 99) * STEP_NS / 1e6
        for connection in connections:
            connection.end()
        return self.result

    def going(self) -> bool:
        """Whether the time is not over."""
        return time.monotonic() < self._end

    def answered(self, answer: bytes, took_ns: int) -> None:
        """Count an answer."""
        if answer.startswith(b"HTTP/1.1 201"):
            self.result.blobs += 1
            self._latencies[min(took_ns // STEP_NS, _SLOWEST - 1)] += 1
        else:
            self.result.fault = answer[:500].decode("latin-1")

    def next_head(self) -> bytes:
        """The head of the next upload, of a blob of its own."""
        order = self._order
        return (
            f"PUT {order.path}/{order.prefix}-{next(self._names)}?{order.query} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{order.port}\r\nx-ms-version: 2021-12-02\r\nx-ms-blob-type: BlockBlob\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {order.size}\r\n\r\n"
        ).encode()


if __name__ == "__main__":
    order = msgspec.json.decode(sys.stdin.readline(), type=Uploads)
    print(msgspec.json.encode(uvloop.run(Uploader(order).run())).decode())
