"""Requests that another node forwards: the owner knows the client by the signature, on both paths of a publish."""

import asyncio
import socket
import time
from collections.abc import Sequence

from recapito.api.server.protocol import ClientOf
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.process.http_server import HttpServer
from tests.api.client import World
from tests.api.server.raw_http import answer, publish

SECRET = ClusterSecret.new()
RULES = {"properties": {"inboundIpRules": [{"ipMask": "192.0.2.0/24", "action": "Allow"}]}}


def client_of(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    value = next((value for name, value in headers if name == FORWARDED), None)
    return None if value is None else SECRET.verify(value, int(time.time()))


def ask(requests: Sequence[bytes], known: ClientOf | None = client_of) -> list[int]:
    """The statuses of requests on one connection from 127.0.0.1, to a topic that takes 192.0.2.0/24 alone."""

    async def run() -> list[int]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with World() as world:
                key = (await world.topic(**RULES)).key1
                await world.topics.find("orders")
                server = HttpServer(world.surface, client_of=known)
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                statuses = []
                for request in requests:
                    writer.write(request.replace(b"aeg-sas-key: KEY", b"aeg-sas-key: " + key.encode()))
                    statuses.append((await asyncio.wait_for(answer(reader), 10))[0])
                writer.close()
                server.stop()
                await serving
                return statuses

    return asyncio.run(run())


def forwarded(address: str, secret: ClusterSecret = SECRET) -> bytes:
    """A publish that a node forwards for a client."""
    signed = FORWARDED + b": " + secret.sign(address, int(time.time())) + b"\r\n"
    return publish("KEY", 1).replace(b"Content-Length", signed + b"Content-Length")


def test_the_client_is_the_one_that_was_signed() -> None:
    """Clients in turn on one connection are each judged by their own address, however often they come."""
    good, bad = forwarded("192.0.2.7"), forwarded("198.51.100.1")
    assert ask([good, good, bad, good, bad, publish("KEY", 1), good]) == [200, 200, 403, 200, 403, 403, 200]


def test_a_header_without_the_secret_is_passed_over() -> None:
    """A client cannot claim an address: neither with another secret, nor at a server that is no node."""
    assert ask([forwarded("192.0.2.7", ClusterSecret.new())]) == [403]
    assert ask([forwarded("192.0.2.7")], known=None) == [403]


def test_management_is_open_to_the_clients_own_machine_alone() -> None:
    """A request that a node forwards for a client elsewhere needs a token, although the node is on loopback."""
    listing = b"GET /clock HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n"
    elsewhere = FORWARDED + b": " + SECRET.sign("192.0.2.7", int(time.time())) + b"\r\n"
    here = FORWARDED + b": " + SECRET.sign("127.0.0.1", int(time.time())) + b"\r\n"
    assert ask([listing % here, listing % elsewhere, listing % b""]) == [200, 403, 200]
