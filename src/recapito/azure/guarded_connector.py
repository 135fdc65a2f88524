"""Dialling for Microsoft's clients: names are looked up by our own resolver, and each address is judged when dialled.

A socket is made for one address, at the moment of dialling: a name that changes its mind after it was looked up, a
redirect or an address in the URL itself can not pass unseen.
"""

import errno
import socket
import ssl

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from recapito.azure.name_service import NameService, resolve
from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.instant import SECOND

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class GuardedResolver(AbstractResolver):
    """aiohttp's questions, answered by a name service that never hangs."""

    def __init__(self, names: NameService) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host. OSError if it has none."""
        resolved = await resolve(self._names, host)
        if not resolved.addresses:
            raise OSError(errno.EHOSTUNREACH, resolved.problem)
        return [_result(host, port, address) for address in resolved.addresses]

    async def close(self) -> None:
        """The name service is its owner's to close."""


def open_session(names: NameService, egress: Egress, ca_file: str | None) -> aiohttp.ClientSession:
    """A session of aiohttp whose every connection is judged. Lanes bound how many there are; it keeps no cookies."""

    def make_socket(info: AddressInfo) -> socket.socket:
        address = str(info[4][0])
        reason = judge(address, egress)
        if reason is not None:
            raise OSError(errno.EACCES, f"egress refused {address}: {reason}")
        made = socket.socket(info[0], info[1], info[2])
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made

    connector = aiohttp.TCPConnector(
        resolver=GuardedResolver(names),
        use_dns_cache=False,
        limit=0,
        keepalive_timeout=limits.CONNECTION_IDLE_NS / SECOND,
        socket_factory=make_socket,
        ssl=ssl.create_default_context(cafile=ca_file),
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
