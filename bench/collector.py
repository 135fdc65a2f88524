"""A collector of traces that takes everything and keeps nothing: `python -m bench.collector` prints its port."""

import asyncio
import socket
import sys

import uvloop

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r", 1)[0]))
            writer.write(_ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def collect(listener: socket.socket) -> None:
    """Collect until standard input closes."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ending.set)
    async with await asyncio.start_server(_serve, sock=listener):
        await ending.wait()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        uvloop.run(collect(listening))
