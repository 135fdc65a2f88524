"""The receiver, a process of its own: answers every POST with 200 and an empty body, and tallies what came.

It is a bare protocol, because on two cores whatever the receiver costs is taken from what is measured. Some of its
ports can be told to hang: they read and never answer. `python -m bench.receiver TALLY PORTS HUNG DELAY_MS` prints its
ports; each answer comes after the delay.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

import uvloop

from bench.event import count_of, stamp_of
from bench.tally import Tally

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Endpoint(asyncio.Protocol):
    """One connection. A request is answered when its body is whole; clients do not pipeline."""

    def __init__(self, tally: Tally, delay_s: float) -> None:
        self._tally = tally
        self._delay_s = delay_s
        self._parts: list[bytes] = []
        self._received = 0
        self._size: int | None = None  # of the whole request; unknown until its head is here

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._received += len(data)
        if self._size is None:
            if len(self._parts) > 1:
                self._parts = [b"".join(self._parts)]
            self._size = _request_size(self._parts[0])
        if self._size is not None and self._received >= self._size:
            self._answer(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))

    def _answer(self, request: bytes) -> None:
        self._parts = []
        self._received = 0
        self._size = None
        events = count_of(request)
        if events:
            self._tally.add(events, stamp_of(request))
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, _ANSWER)
        else:
            self._transport.write(_ANSWER)


class Hung(asyncio.Protocol):
    """An endpoint that takes everything and never answers."""


def _request_size(start: bytes) -> int | None:
    """The size of a request, head and body, None if its head is not complete."""
    end = start.find(b"\r\n\r\n")
    if end < 0:
        return None
    at = start.find(b"Content-Length: ", 0, end)
    at = start.lower().find(b"content-length: ", 0, end) if at < 0 else at
    return end + 4 + (int(start[at + 16 : start.index(b"\r", at)]) if at >= 0 else 0)


async def receive(tally: Tally, ports: int, hung: int, delay_s: float) -> None:
    """Listen, print the ports, and go on until standard input closes."""
    loop = asyncio.get_running_loop()
    answering = [await loop.create_server(lambda: Endpoint(tally, delay_s), "127.0.0.1", 0) for _ in range(ports)]
    hanging = [await loop.create_server(Hung, "127.0.0.1", 0) for _ in range(hung)]
    print(json.dumps({"ports": _ports(answering), "hung": _ports(hanging)}), flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def _ports(servers: list[asyncio.Server]) -> list[int]:
    return [server.sockets[0].getsockname()[1] for server in servers]


if __name__ == "__main__":
    uvloop.run(receive(Tally(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]) / 1000))
