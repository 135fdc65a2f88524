"""HTTPS: the express lane and the ordinary way over TLS, clients that hang on, and clients that speak plainly."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop

from recapito.identity.certificate import CertificateFiles, load_context, prepare
from recapito.process.http_server import HttpServer
from tests.api.client import World
from tests.api.server.raw_http import GET, answer, publish


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    """A certificate for this machine."""
    return prepare(tmp_path, ["localhost", "127.0.0.1"], datetime.now(UTC))


def test_publishing_over_tls(files: CertificateFiles) -> None:
    """Publishes and other requests are answered in order, in one go and in pieces; stopping does not wait."""

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with World() as world:
                key = (await world.topic()).key1
                await world.topics.find("orders")
                server = HttpServer(world.surface, load_context(files.certificate, files.key))
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                trust = ssl.create_default_context(cafile=str(files.authority))
                address = listener.getsockname()
                reader, writer = await asyncio.open_connection(*address, ssl=trust)
                writer.write(publish(key, 1) + GET + publish("wrong", 2) + publish(key, 3))
                assert [(await answer(reader))[0] for _ in range(4)] == [200, 200, 401, 200]
                whole = publish(key, *range(1000))
                for at in range(0, len(whole), 5000):
                    writer.write(whole[at : at + 5000])
                    await writer.drain()
                assert (await answer(reader))[0] == 200
                assert world.publisher.stats.publishes == 3
                plain_reader, plain_writer = await asyncio.open_connection(*address)
                plain_writer.write(GET)
                assert b"200" not in await plain_reader.read()
                plain_writer.close()
                writer.transport.pause_reading()  # type: ignore[attr-defined] # it never sees our goodbye
                server.stop()
                await asyncio.wait_for(serving, 20)
                writer.transport.abort()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())
