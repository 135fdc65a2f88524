"""The publish route on a store that discards: everything of intake but the writing. The yardstick of durability.

It is the server's own composition with another Log. `python -m bench.discard` prints its port; with `--asgi` it serves
the route by plain ASGI, without the express lane.
"""

import asyncio
import socket
import sys
from collections.abc import Sequence

import uvloop

from recapito.api.server.protocol import HttpProtocol
from recapito.clock import SystemClock
from recapito.composition.intake import make_intake
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.contracts.log import NewSegment
from recapito.observability.journal import silent
from recapito.process.http_server import HttpServer
from recapito.settings import settings
from recapito.stores.memory import MemoryLedger, MemoryLog


class DiscardingLog(MemoryLog):
    """Takes segments and keeps none of them."""

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        return [1] * len(segments)


async def serve(listener: socket.socket, express: bool) -> None:
    """Serve until standard input closes."""
    log = DiscardingLog()
    stores, keyring = Stores(log, log, MemoryLedger()), Keyring(log, SecretBox.in_memory())
    chosen = settings.load(environment={}, flags={"server.store": "memory"})
    intake = make_intake(chosen, stores, keyring, SystemClock(), silent, lambda: None, lambda: None)
    publishing = asyncio.create_task(intake.publisher.run())
    server = HttpServer(intake.surface)
    if not express:
        server.config.http_protocol_class = HttpProtocol
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), server.stop)
    await server.serve(sockets=[listener])
    await intake.publisher.close()
    await publishing


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        print(listening.getsockname()[1], flush=True)
        uvloop.run(serve(listening, "--asgi" not in sys.argv))
