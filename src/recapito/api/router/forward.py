"""Forwarding of requests from a standby to the owner.

The law: a request that was not sent at all may be sent again, by the client; the outcome of every other one without an
answer is unknown, and the answer says so. The owner sees the client's own address, signed by this node, so that a
client has the rights that it would have there. A forwarded request is never forwarded again.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterable
from ssl import SSLContext

import aiohttp
from multidict import CIMultiDict
from starlette.types import Receive, Scope, Send
from yarl import URL

from recapito.api.auth.management import peer_of
from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import Refusal, arm_body, new_report, publish_body, refusal
from recapito.api.publish.route import target_of
from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.instant import SECOND
from recapito.errors import Busy, CallerError
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret

NOT_OWNER = b"x-recapito-not-owner"
CONNECT_S = 1.0
IDLE_S = 30.0  # below the owner's own limit, so that it does not close a connection that is about to be used
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_RETRY_S = 1
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class NoOwner(Busy):
    """The owner cannot be reached, or there is none; nothing was done."""


class OutcomeUnknown(Exception):
    """The request was sent to the owner, and its answer did not come."""


class ForwardCounts:
    """Requests since the start: forwarded, not sent at all, and without an answer."""

    def __init__(self) -> None:
        self.forwarded = 0
        self.unsent = 0
        self.unknown = 0


class Forwarder:
    """An ASGI application that forwards every request. `owner` returns the URL of the owner, empty if there is none.

    It must be made on a running event loop.
    """

    def __init__(
        self,
        owner: Callable[[], str],
        secret: ClusterSecret,
        tls: SSLContext | None = None,
        read_s: float = limits.FORWARD_READ_NS / SECOND,
        publish_s: float = limits.FORWARD_PUBLISH_NS / SECOND,
    ) -> None:
        self._owner = owner
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
            self._session, self._url = _open_session(self._tls), owner
        return self._session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        publishes = target_of(scope["path"], scope["headers"]) is not None
        try:
            await self._forward(scope, receive, send, publishes)
        except ClientGone:
            return
        except (CallerError, Busy, OutcomeUnknown) as error:
            await _refuse(send, error, publishes)

    async def _forward(self, scope: Scope, receive: Receive, send: Send, publishes: bool) -> None:
        headers = scope["headers"]
        if any(name == FORWARDED and self._secret.verify(value, int(time.time())) for name, value in headers):
            raise NoOwner("This node is not the owner, and nothing was done.", _RETRY_S)
        if self._open >= limits.FORWARDS:
            raise Busy("Too many requests wait for the owner of the cluster. Try again.", _RETRY_S)
        self._open += 1
        try:
            body = await self._bodies.read(_plain(headers), receive, limits.PUBLISH_BYTES)
            await self._exchange(scope, body, send, publishes)
        finally:
            self._open -= 1

    async def _exchange(self, scope: Scope, body: bytes, send: Send, publishes: bool) -> None:
        owner = self._owner()
        if not owner:
            raise NoOwner("The cluster has no owner at this moment. Try again.", _RETRY_S)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=self._publish_s if publishes else self._read_s
        )
        query = scope["query_string"]
        url = owner + scope["raw_path"].decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
        began = False
        try:
            async with self._reach(owner).request(
                scope["method"],
                URL(url, encoded=True),
                data=body or None,
                headers=self._headers(scope, body),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                allow_redirects=False,
                timeout=timeout,
            ) as answer:
                if NOT_OWNER.decode() in answer.headers:
                    raise NoOwner("The owner of the cluster changes at this moment. Try again.", _RETRY_S)
                began = True
                await _send_head(send, answer.status, answer.raw_headers)
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                self.counts.forwarded += 1
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self.counts.unsent += 1
            raise NoOwner("The owner of the cluster cannot be reached, and nothing was done. Try again.") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.counts.unknown += 1
            if began:
                raise ClientGone from error  # the answer has begun: breaking the connection off tells the client
            raise OutcomeUnknown from error

    def _headers(self, scope: Scope, body: bytes) -> CIMultiDict[str]:
        forwarded = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in _HOP_BY_HOP and name not in (FORWARDED, b"expect", b"content-length")
        )
        if body or scope["method"] in ("POST", "PUT", "PATCH"):
            forwarded["Content-Length"] = str(len(body))
        signed = self._secret.sign(peer_of(scope) or "", int(time.time()))
        forwarded[FORWARDED.decode()] = signed.decode("latin-1")
        return forwarded


def _open_session(tls: SSLContext | None) -> aiohttp.ClientSession:
    """A session of aiohttp that judges every address it dials."""

    def make_socket(info: AddressInfo) -> socket.socket:
        address = str(info[4][0])
        reason = judge(address, Egress.LOCAL)
        if reason is not None:
            raise OSError(errno.EACCES, f"egress refused {address}: {reason}")
        return socket.socket(info[0], info[1], info[2])

    connector = aiohttp.TCPConnector(
        ssl=tls or True, limit=limits.FORWARDS, keepalive_timeout=IDLE_S, socket_factory=make_socket
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers without an encoding: the owner judges that."""
    return {name: value for name, value in headers if name != b"content-encoding"}


async def _send_head(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
    kept = [(name.lower(), value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
    await send({"type": "http.response.start", "status": status, "headers": kept})


async def _refuse(send: Send, error: Exception, publishes: bool) -> None:
    if isinstance(error, OutcomeUnknown):
        retry = ((b"retry-after", b"%d" % _RETRY_S),)
        message = "The owner of the cluster did not answer; whether the request was carried out is unknown. Try again."
        refused = Refusal(503, "ServiceUnavailable", "OutcomeUnknown", message, None, retry, "OutcomeUnknown")
    else:
        refused = refusal(error)
        if refused.status >= 500:
            refused = refused._replace(outcome="NotStored")
    body = publish_body(refused, new_report(time.time_ns())) if publishes else arm_body(refused)
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    marks = [(NOT_OWNER, b"1")] if isinstance(error, NoOwner) else []
    headers += [*refused.headers, *marks]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
