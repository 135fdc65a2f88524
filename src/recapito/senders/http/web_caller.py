"""The caller on libcurl: single requests through a CurlLoop of its own, under the egress rules.

It trusts no answer: headers and body are cut at their limits.
"""

import asyncio
from functools import partial

import pycurl

from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.delivery.outcome import Result
from recapito.domain.excerpt import excerpt
from recapito.domain.handshake.http_call import CallResult, FailureKind, HttpReply, HttpRequest, NoReply
from recapito.senders.endpoint import EndpointRoute, header
from recapito.senders.http import transfer
from recapito.senders.http.curl import CurlLoop
from recapito.senders.http.resolver import Resolved, Resolver

# From libcurl's errors; an error that is not in the table broke the exchange off.
TROUBLE_OF_CURL = {
    pycurl.E_COULDNT_RESOLVE_HOST: FailureKind.NAME_NOT_FOUND,
    pycurl.E_COULDNT_CONNECT: FailureKind.NOT_CONNECTED,
    pycurl.E_OPERATION_TIMEDOUT: FailureKind.TIMED_OUT,  # only connecting has a time-out
    pycurl.E_SSL_CONNECT_ERROR: FailureKind.TLS_FAILED,
    pycurl.E_SSL_CERTPROBLEM: FailureKind.TLS_FAILED,
    pycurl.E_SSL_CIPHER: FailureKind.TLS_FAILED,
    pycurl.E_SSL_CACERT_BADFILE: FailureKind.TLS_FAILED,
    pycurl.E_SSL_ISSUER_ERROR: FailureKind.TLS_FAILED,
    pycurl.E_SSL_INVALIDCERTSTATUS: FailureKind.TLS_FAILED,
    pycurl.E_PEER_FAILED_VERIFICATION: FailureKind.TLS_FAILED,
}
_TROUBLE_OF_ROUTE = {
    Result.RESOLUTION_ERROR: FailureKind.NAME_NOT_FOUND,
    Result.SOCKET_ERROR: FailureKind.ADDRESS_REFUSED,
    Result.GENERIC_ERROR: FailureKind.INVALID_URL,
}
_SILENCED = ["Accept:", "Expect:", "Content-Type:"]  # libcurl's own, which we do not send
_CLOSED = NoReply(FailureKind.CLOSED, "the service is ending")


class _Call:
    """One request on its way: a Post for the CurlLoop."""

    kept_bytes = limits.RESPONSE_BODY_BYTES

    def __init__(self, request: HttpRequest, route: EndpointRoute) -> None:
        self.method: str = request.method
        self.url = route.url
        self.headers = [line for name, value in request.headers for line in header(name, value)]
        given = {line.partition(":")[0].lower() for line in self.headers}
        self.headers += [line for line in _SILENCED if line[:-1].lower() not in given]
        self.body = request.body
        self.resolve = route.resolve
        self.over = False
        self.transfer: transfer.Transfer | None = None
        self._secrets = route.secrets
        self.answer: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()

    def finish(self, reply: transfer.CurlReply) -> None:
        """Called by the CurlLoop at the end."""
        self.end(_answer_of(reply, self._secrets))

    def end(self, answer: CallResult) -> None:
        """Set the result, once."""
        self.over = True
        if not self.answer.done():
            self.answer.set_result(answer)


class WebCaller:
    """Makes requests, by a CurlLoop that it starts with the first of them."""

    def __init__(self, egress: Egress, ca_file: str | None = None, resolver: Resolver | None = None) -> None:
        self._egress = egress
        self._trust = transfer.trust(partial(judge, egress=egress), ca_file)
        self._resolver = resolver or Resolver()
        self._curl: CurlLoop | None = None
        self._open: set[asyncio.Future[Resolved] | _Call] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<WebCaller {self._curl or 'unused'}>"

    async def ask(self, request: HttpRequest) -> CallResult:
        route = EndpointRoute(self._egress, request.url)
        if route.host:
            route.settle(await self._resolve(route.host))
        if self._closed:
            return _CLOSED
        if route.failure is not None:
            return NoReply(_TROUBLE_OF_ROUTE[route.failure.result], route.failure.detail)
        return await self._call(_Call(request, route))

    async def close(self) -> None:
        self._closed = True
        for waiting in self._open:
            if isinstance(waiting, _Call):
                waiting.end(_CLOSED)
            elif not waiting.done():
                waiting.set_result(Resolved((), _CLOSED.detail))
        if self._curl is not None:
            await self._curl.close()
            self._curl = None

    async def _resolve(self, host: str) -> Resolved:
        known = self._resolver.known(host)
        if known is not None or self._closed:
            return known or Resolved((), _CLOSED.detail)
        found: asyncio.Future[Resolved] = asyncio.get_running_loop().create_future()

        def settle(resolved: Resolved) -> None:
            if not found.done():
                found.set_result(resolved)

        self._open.add(found)
        try:
            self._resolver.ask(host, settle)
            return await found
        finally:
            self._open.discard(found)

    async def _call(self, call: _Call) -> CallResult:
        if self._curl is None:
            self._curl = CurlLoop(self._trust)
        self._open.add(call)
        try:
            self._curl.submit(call)
            return await call.answer
        finally:
            self._open.discard(call)
            if not call.over:
                call.over = True
                self._curl.abort(call)


def _answer_of(reply: transfer.CurlReply, secrets: tuple[str, ...]) -> CallResult:
    if reply.status:
        pairs = (line.decode("latin-1").partition(":") for line in reply.headers[1:])
        return HttpReply(
            reply.status, tuple((name.strip(), value.strip()) for name, colon, value in pairs if colon), reply.body
        )
    detail = reply.note or reply.problem or "the connection was closed before an answer was complete"
    return NoReply(TROUBLE_OF_CURL.get(reply.code, FailureKind.BROKEN_OFF), excerpt(detail, secrets))
