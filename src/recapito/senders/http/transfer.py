"""One libcurl easy handle, set up once and used for one request after the other.

It reads no more of an answer than the limits allow. A final status that was received counts, however the rest ends.
"""

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pycurl

from recapito import __version__
from recapito.domain import limits
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.errors import SettingsError

EXCERPT_BODY_BYTES = 4 * limits.RESPONSE_EXCERPT_BYTES
"""More than an excerpt, so that a secret at its end is recognised as a whole and removed."""
_BLANK = (b"\r\n", b"\n")
_HEADER_LINES = limits.RESPONSE_HEADERS + 2  # with the status line and the blank one


class CurlReply(msgspec.Struct, frozen=True, gc=False):
    """The end of a request. Without a final `status` (0), `code` is libcurl's error and `problem` its text."""

    status: int
    headers: list[bytes]
    body: bytes
    code: int
    problem: str
    note: str  # the reason why we refused to dial or to read on


class CurlPost(Protocol):
    """A request to be made, mostly a POST. `resolve` is libcurl's entry for the host's addresses, None for a literal
    address; of the answer's body the first `kept_bytes` are kept.
    """

    @property
    def method(self) -> str:
        """The HTTP method; only a POST has a body."""

    @property
    def kept_bytes(self) -> int:
        """The bytes of the answer's body that are kept."""

    url: str
    headers: list[str]
    body: bytes
    resolve: str | None
    over: bool
    transfer: "Transfer | None"

    def finish(self, reply: CurlReply) -> None:
        """Called once, on the event loop."""


class OutboundTrust(NamedTuple):
    """The addresses and certificates to trust: `judge` refuses addresses, authorities are in `ca_file` or `ca_path`."""

    judge: Callable[[str], str | None]
    ca_file: str | None
    ca_path: str | None


def trust(judge: Callable[[str], str | None], ca_file: str | None) -> OutboundTrust:
    """The authorities of a file, or OpenSSL's own."""
    if ca_file is not None:
        if not Path(ca_file).is_file():
            raise SettingsError(f"ca_file: there is no file {ca_file}.")
        return OutboundTrust(judge, ca_file, None)
    paths = ssl.get_default_verify_paths()
    return OutboundTrust(judge, paths.cafile, paths.capath)


class Transfer:
    """A reusable easy handle, and the answer that it has received so far."""

    def __init__(self, trust: OutboundTrust, opened: Callable[[int], None]) -> None:
        self._judge = trust.judge
        self._opened = opened
        self._post: CurlPost | None = None
        self._method = "POST"
        self._url = ""
        self.curl: Any = pycurl.Curl()
        self.curl.transfer = self
        for option, value in _OPTIONS:
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._take_header)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._take_body)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._begin_request)
        if trust.ca_file:
            self.curl.setopt(pycurl.CAINFO, trust.ca_file)
        if trust.ca_path:
            self.curl.setopt(pycurl.CAPATH, trust.ca_path)
        self._forget()

    def __repr__(self) -> str:
        return f"<Transfer {'free' if self._post is None else 'under way'}>"

    def load(self, post: CurlPost) -> None:
        """Prepare the handle for a request."""
        self._post = post
        post.transfer = self
        self._kept_bytes = post.kept_bytes
        if post.method != self._method:
            self._turn_to(post.method)
        if post.url != self._url:
            self.curl.setopt(pycurl.URL, post.url)
            self._url = post.url
        self.curl.setopt(pycurl.HTTPHEADER, post.headers)
        if post.method == "POST":
            self.curl.setopt(pycurl.POSTFIELDS, post.body)
        if post.resolve is not None:
            self.curl.setopt(pycurl.RESOLVE, [post.resolve])

    def unload(self, code: int, problem: str) -> tuple[CurlPost, CurlReply]:
        """The request and its reply; the handle is free again and keeps nothing of either."""
        post, status = self._post, self._status(code)
        assert post is not None
        reply = CurlReply(status, self._headers, self._body, code, problem, self._note)
        if self._method == "POST":
            self.curl.setopt(pycurl.POSTFIELDS, b"")
        self._post = post.transfer = None
        self._forget()
        return post, reply

    @property
    def dawdles_since(self) -> float:
        """The monotonic time at which the headers of the final answer were complete; 0.0 until then."""
        return self._headers_at if self._status(0) else 0.0

    def _status(self, code: int) -> int:
        """The final status, 0 if there is none.

        It counts if its headers are complete, whatever came of the body, or if it was us who took no more of them.
        """
        status: int = self.curl.getinfo(pycurl.RESPONSE_CODE)
        return status if status >= 200 and (self._headers_at or code == pycurl.E_WRITE_ERROR) else 0

    def _turn_to(self, method: str) -> None:
        """Change the method of the handle."""
        self._method = method
        self.curl.unsetopt(pycurl.CUSTOMREQUEST)
        self.curl.setopt(pycurl.POST if method == "POST" else pycurl.HTTPGET, 1)
        if method not in ("POST", "GET"):
            self.curl.setopt(pycurl.CUSTOMREQUEST, method)

    def _forget(self) -> None:
        self._headers: list[bytes] = []
        self._header_bytes = 0
        self._responses = 0
        self._headers_at = 0.0
        self._body = b""
        self._body_bytes = self._kept_bytes = 0
        self._sends = 0
        self._note = ""

    def _begin_request(self, *connection: object) -> int:
        """The moment of sending. libcurl sends again what a connection from the pool broke under, as often as it has
        others; an endpoint that breaks them all is told once more and no oftener.
        """
        self._sends += 1
        if self._sends <= limits.REQUEST_SENDS:
            return _SEND
        self._note = "the connection broke without an answer, and so did the next"
        return _SEND_NOTHING

    def _take_header(self, line: bytes) -> int | None:
        self._header_bytes += len(line)
        if line.startswith(b"HTTP/"):
            self._responses += 1
            self._headers = []
            self._headers_at = 0.0
        elif line in _BLANK:
            self._headers_at = time.monotonic()
        self._headers.append(line)
        if self._header_bytes > limits.RESPONSE_HEADER_BYTES or len(self._headers) > _HEADER_LINES:
            self._note = "the headers of the answer are over the limit"
        elif self._responses > limits.RESPONSE_INTERIM + 1:
            self._note = "there is no end of interim answers"
        else:
            return None
        return -1

    def _take_body(self, data: bytes) -> int | None:
        self._body_bytes += len(data)
        if len(self._body) < self._kept_bytes:
            self._body += data[: self._kept_bytes - len(self._body)]
        return -1 if self._body_bytes > limits.RESPONSE_BODY_BYTES else None

    def _open_socket(self, purpose: int, address: Any) -> int:
        """Called when libcurl dials: the address that is judged here is the one that it connects to."""
        reason = self._judge(address.addr[0])
        if reason is not None:
            self._note = f"egress refused {address.addr[0]}: {reason}"
            return _NO_SOCKET
        try:
            fd = socket.socket(address.family, address.socktype, address.protocol).detach()
        except OSError as error:
            self._note = f"no socket could be opened: {error.strerror}"
            return _NO_SOCKET
        self._opened(fd)
        return fd


_NO_SOCKET: int = pycurl.SOCKET_BAD
_SEND: int = pycurl.PREREQFUNC_OK
_SEND_NOTHING: int = pycurl.PREREQFUNC_ABORT
_OPTIONS: tuple[tuple[int, Any], ...] = (
    (pycurl.POST, 1),
    (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
    (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
    (pycurl.PATH_AS_IS, 1),
    (pycurl.USERAGENT, f"recapito/{__version__}"),
    (pycurl.FOLLOWLOCATION, 0),
    (pycurl.HTTP_CONTENT_DECODING, 0),
    (pycurl.PROXY, ""),
    (pycurl.NOPROXY, "*"),
    (pycurl.NETRC, pycurl.NETRC_IGNORED),
    (pycurl.NOSIGNAL, 1),
    (pycurl.TCP_NODELAY, 1),
    (pycurl.CONNECTTIMEOUT_MS, limits.CONNECT_WAIT_NS // MILLISECOND),
    (pycurl.MAXLIFETIME_CONN, limits.CONNECTION_AGE_NS // SECOND),
    (pycurl.MAXAGE_CONN, limits.CONNECTION_IDLE_NS // SECOND),
    (pycurl.DNS_CACHE_TIMEOUT, limits.CONNECTION_AGE_NS // SECOND),
    (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
    (pycurl.SSL_VERIFYPEER, 1),
    (pycurl.SSL_VERIFYHOST, 2),
)
