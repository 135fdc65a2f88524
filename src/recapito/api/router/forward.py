"""Forwarding of requests to an owner: from a standby to the node that owns, from a router to a partition.

The law: a request that was not sent at all may be sent again, by the client; the outcome of every other one without an
answer is unknown, and the answer says so. The owner sees the client's own address, signed by this node, so that a
client has the rights that it would have there. A forwarded request is never forwarded again.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterable, MutableMapping
from io import BytesIO
from ssl import SSLContext
from typing import Any, NamedTuple

import aiohttp
from multidict import CIMultiDict
from starlette.types import Receive, Scope, Send
from yarl import URL

from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import OutcomeUnknown, arm_body, new_report, publish_body, refusal
from recapito.api.publish.route import target_of
from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.instant import SECOND
from recapito.errors import Busy, CallerError
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret

NOT_OWNER = b"x-recapito-not-owner"
PARTITION = b"x-recapito-partition"
UNIX = "unix:"
CONNECT_S = 1.0
IDLE_S = 30.0  # below the owner's own limit, so that it does not close a connection that is about to be used
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
RETRY_S = 1
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class NoOwner(Busy):
    """The owner cannot be reached, or there is none; nothing was done."""


class ForwardCounts:
    """Requests since the start: forwarded, not sent at all, and without an answer."""

    def __init__(self) -> None:
        self.forwarded = 0
        self.unsent = 0
        self.unknown = 0


class GatheredAnswer(NamedTuple):
    """The whole answer of an owner."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


class Forwarder:
    """An ASGI application that forwards every request to one owner. It must be made on a running event loop.

    owner: returns the URL of the owner, or `unix:` and the path of its socket on this machine; empty if there is none.
    partition: the one of several that it forwards to, which another node is told.
    """

    def __init__(
        self,
        owner: Callable[[], str],
        secret: ClusterSecret,
        tls: SSLContext | None = None,
        read_s: float = limits.FORWARD_READ_NS / SECOND,
        publish_s: float = limits.FORWARD_PUBLISH_NS / SECOND,
        partition: int | None = None,
    ) -> None:
        self._owner = owner
        self._partition = partition
        self._name = "The cluster" if partition is None else f"Partition {partition} of the cluster"
        self._secret = secret
        self._bodies = BodyReader()
        self._read_s = read_s
        self._publish_s = publish_s
        self._open = 0
        self.counts = ForwardCounts()
        self._tls = tls
        self._url = ""
        self._session: aiohttp.ClientSession | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Forwarder to {self._owner() or 'no owner'}, {self._open} open>"

    async def close(self) -> None:
        """End all connections to the owner."""
        self._leave()
        await asyncio.gather(*self._closing)

    def owner_changed(self) -> None:
        """End the connections to the former owner: it has answered whatever it will, or is gone."""
        if self._session is not None and self._url != self._owner():
            self._leave()

    def _leave(self) -> None:
        if self._session is not None:
            closing = asyncio.create_task(self._session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._session = None

    def _reach(self, owner: str) -> aiohttp.ClientSession:
        if owner != self._url:
            self._leave()
        if self._session is None:
            self._session, self._url = _open_session(self._tls, owner), owner
        return self._session

    @property
    def is_near(self) -> bool:
        """Whether the owner is on this machine, in this node."""
        return self._owner().startswith(UNIX)

    @property
    def has_owner(self) -> bool:
        return bool(self._owner())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        publishes = target_of(scope["path"], scope["headers"]) is not None
        try:
            await self._forward(scope, receive, send, publishes)
        except ClientGone:
            return
        except (CallerError, Busy, OutcomeUnknown) as error:
            await refuse(send, error, publishes)

    async def _forward(self, scope: Scope, receive: Receive, send: Send, publishes: bool) -> None:
        headers = scope["headers"]
        if is_forwarded(headers, self._secret):
            raise NoOwner("This node is not the owner, and nothing was done.", RETRY_S)
        if self._open >= limits.FORWARDS:
            raise Busy("Too many requests wait for the owner of the cluster. Try again.", RETRY_S)
        self._open += 1
        try:
            body = await self._bodies.read(plain(headers), receive, most_bytes(publishes))
            await self.relay(scope, body, send, publishes)
        finally:
            self._open -= 1

    async def ask(self, scope: Scope, body: bytes = b"") -> GatheredAnswer:
        """Forward a request, and return the whole answer. Raises NoOwner or OutcomeUnknown."""
        parts: list[MutableMapping[str, Any]] = []

        async def gather(message: MutableMapping[str, Any]) -> None:
            parts.append(message)

        try:
            await self.relay(scope, body, gather, publishes=False)
        except ClientGone as error:
            raise OutcomeUnknown from error
        return GatheredAnswer(parts[0]["status"], parts[0]["headers"], b"".join(part["body"] for part in parts[1:]))

    async def relay(self, scope: Scope, body: bytes, send: Send, publishes: bool) -> None:
        """Forward a request, and send the answer on. Raises NoOwner, OutcomeUnknown or ClientGone."""
        owner = self._owner()
        if not owner:
            raise NoOwner(f"{self._name} has no owner at this moment. Try again.", RETRY_S)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=self._publish_s if publishes else self._read_s
        )
        query = scope["query_string"]
        base = "http://recapito" if owner.startswith(UNIX) else owner
        url = base + scope["raw_path"].decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
        began = False
        try:
            async with self._reach(owner).request(
                scope["method"],
                URL(url, encoded=True),
                data=BytesIO(body) if len(body) > limits.PUBLISH_BYTES else body or None,  # aiohttp sends it in pieces
                headers=self._headers(scope, body),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                allow_redirects=False,
                timeout=timeout,
            ) as answer:
                if NOT_OWNER.decode() in answer.headers:
                    raise NoOwner(f"{self._name} changes its owner at this moment. Try again.", RETRY_S)
                began = True
                await _send_head(send, answer.status, answer.raw_headers)
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                self.counts.forwarded += 1
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self.counts.unsent += 1
            distrusted = isinstance(error, aiohttp.ClientConnectorCertificateError)
            why = ": this node does not trust its certificate" if distrusted else ""
            message = f"{self._name} has an owner that cannot be reached{why}. Nothing was done. Try again."
            raise NoOwner(message, RETRY_S) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.counts.unknown += 1
            if began:
                raise ClientGone from error  # the answer has begun: breaking the connection off tells the client
            raise OutcomeUnknown from error

    def _headers(self, scope: Scope, body: bytes) -> CIMultiDict[str]:
        forwarded = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in _HOP_BY_HOP and name not in (FORWARDED, PARTITION, b"expect", b"content-length")
        )
        if body or scope["method"] in ("POST", "PUT", "PATCH"):
            forwarded["Content-Length"] = str(len(body))
        signed = self._secret.sign(peer_of(scope) or "", int(time.time()))
        forwarded[FORWARDED.decode()] = signed.decode("latin-1")
        if self._partition is not None:
            forwarded[PARTITION.decode()] = str(self._partition)
        return forwarded


def is_forwarded(headers: Iterable[tuple[bytes, bytes]], secret: ClusterSecret) -> bool:
    """Whether a node of this cluster forwards the request."""
    return any(name == FORWARDED and secret.verify(value, int(time.time())) is not None for name, value in headers)


def _open_session(tls: SSLContext | None, owner: str) -> aiohttp.ClientSession:
    """A session of aiohttp that judges every address it dials."""

    def make_socket(info: AddressInfo) -> socket.socket:
        address = str(info[4][0])
        reason = judge(address, Egress.LOCAL)
        if reason is not None:
            raise OSError(errno.EACCES, f"egress refused {address}: {reason}")
        return socket.socket(info[0], info[1], info[2])

    connector: aiohttp.BaseConnector
    if owner.startswith(UNIX):
        connector = aiohttp.UnixConnector(owner.removeprefix(UNIX), limit=limits.FORWARDS, keepalive_timeout=IDLE_S)
    else:
        connector = aiohttp.TCPConnector(
            ssl=tls or True, limit=limits.FORWARDS, keepalive_timeout=IDLE_S, socket_factory=make_socket
        )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


def most_bytes(publishes: bool) -> int:
    """The largest body that is forwarded; the owner may take less."""
    return limits.PUBLISH_BYTES if publishes else limits.ESTATE_BYTES


def plain(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers without an encoding: the owner judges that."""
    return {name: value for name, value in headers if name != b"content-encoding"}


async def _send_head(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
    kept = [(name.lower(), value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
    await send({"type": "http.response.start", "status": status, "headers": kept})


async def refuse(send: Send, error: Exception, publishes: bool) -> None:
    """Answer with an error; a client learns whether the request may have been carried out."""
    refused = refusal(error)
    if refused.status >= 500 and refused.outcome is None:
        refused = refused._replace(outcome="NotStored")
    body = publish_body(refused, new_report(time.time_ns())) if publishes else arm_body(refused)
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    marks = [(NOT_OWNER, b"1")] if isinstance(error, NoOwner) else []
    headers += [*refused.headers, *marks]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
