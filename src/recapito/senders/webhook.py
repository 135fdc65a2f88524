"""The webhook sender: posts batches with Event Grid's delivery headers and turns every result into an Outcome.

Our own resolver looks up names; each address is judged after the lookup, and again when it is dialled. Nothing of an
answer is trusted.
"""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial

import pycurl
from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.delivery import headers
from recapito.domain.delivery.attributes import Header, is_sendable
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.kept_headers import RawHeaders
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.delivery.signature import NAMES, Signing
from recapito.domain.events.passed import HEADER as PASSED
from recapito.domain.events.schema import BodyForm
from recapito.domain.excerpt import excerpt
from recapito.domain.handshake.handshake import ORIGIN
from recapito.domain.instant import SECOND
from recapito.domain.resources.destination import WebHook
from recapito.senders.endpoint import EndpointRoute, header
from recapito.senders.http.curl import CurlLoop
from recapito.senders.http.resolver import Resolved, Resolver
from recapito.senders.http.transfer import EXCERPT_BODY_BYTES, CurlReply, Transfer, trust
from recapito.senders.signing import RequestSigner

Answer = Callable[[Outcome], None]
TokenSource = Callable[[str], str]
"""A bearer token for the application that protects a webhook."""

# From libcurl's errors to Event Grid's results; an error that is not here is a GenericError.
RESULT_OF_CURL = {
    pycurl.E_OK: Result.SOCKET_ERROR,  # closed before the headers were complete, which is no error to libcurl
    pycurl.E_COULDNT_RESOLVE_HOST: Result.RESOLUTION_ERROR,
    pycurl.E_COULDNT_CONNECT: Result.SOCKET_ERROR,
    pycurl.E_OPERATION_TIMEDOUT: Result.SOCKET_ERROR,  # only connecting has a time-out
    pycurl.E_SSL_CONNECT_ERROR: Result.SOCKET_ERROR,
    pycurl.E_SSL_CERTPROBLEM: Result.SOCKET_ERROR,
    pycurl.E_SSL_CIPHER: Result.SOCKET_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: Result.SOCKET_ERROR,
    pycurl.E_SSL_ISSUER_ERROR: Result.SOCKET_ERROR,
    pycurl.E_SSL_INVALIDCERTSTATUS: Result.SOCKET_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: Result.SOCKET_ERROR,
    pycurl.E_SEND_ERROR: Result.SOCKET_ERROR,
    pycurl.E_RECV_ERROR: Result.SOCKET_ERROR,
    pycurl.E_GOT_NOTHING: Result.SOCKET_ERROR,
    pycurl.E_PARTIAL_FILE: Result.SOCKET_ERROR,
    pycurl.E_AGAIN: Result.SOCKET_ERROR,
    pycurl.E_ABORTED_BY_CALLBACK: Result.SOCKET_ERROR,  # connections broke one after the other
}
_RETRY_AFTER_DIGITS = 10  # more digits are more than any wait that is accepted
_plain_answer = lru_cache(1000)(answered)


class _Route(EndpointRoute):
    """The headers and addresses that all batches of one subscription to one URL share."""

    def __init__(self, egress: Egress, url: str, subscription: str, form: BodyForm) -> None:
        super().__init__(egress, url)
        self.headers = [
            f"Content-Type: {form}",
            "Accept:",
            "Expect:",
        ]  # the last two switch off headers of libcurl's own
        self.lines = _route_lines(subscription, form)


class WebhookExchange:
    """One batch on its way: an Exchange for the lane, a Post for the CurlLoop. `over`: answered or aborted."""

    __slots__ = (
        "_answer",
        "_has_id",
        "_lines",
        "_route",
        "_secrets",
        "_sender",
        "body",
        "headers",
        "over",
        "resolve",
        "transfer",
        "url",
    )

    method = "POST"
    kept_bytes = EXCERPT_BODY_BYTES

    def __init__(self, sender: "WebhookSender", route: _Route, batch: Batch, answer: Answer) -> None:
        self._sender = sender
        self._route = route
        self._answer = answer
        self.over = False
        self.transfer: Transfer | None = None
        self._secrets = route.secrets
        lines = route.lines + _batch_lines(batch.attempts_before, batch.data_version)
        if batch.passed:
            lines = f"{PASSED}: {batch.passed}"
        self._lines, self._has_id = lines, batch.output_id is not None
        if batch.output_id is not None:
            lines += _OUTPUT_ID_LINE + batch.output_id
        self.headers = [*route.headers, lines]
        if batch.headers:
            for custom in batch.headers:
                if batch.signing is None or custom.name.lower() not in NAMES:  # those are ours where we sign
                    self.headers += header(custom.name, custom.value)
            self._secrets += _secret_words(batch.headers)
        if batch.traceparent and not any(custom.name.lower() == "traceparent" for custom in batch.headers):
            self.headers.append(f"traceparent: {batch.traceparent}")
        self.body = batch.body
        self.url = route.url
        self.resolve: str | None = None

    def __repr__(self) -> str:
        return f"<WebhookExchange {self.url.partition('?')[0]}, {'over' if self.over else 'open'}>"

    def abort(self) -> None:
        if not self.over:
            self.over = True
            self._sender.drop(self)

    def settle(self, resolved: Resolved) -> None:
        """Continue after the lookup of the name."""
        self._route.settle(resolved)
        if not self.over and not self._sender.closed:
            self.dial()

    def dial(self) -> None:
        """Hand over to the CurlLoop, or fail if no address may be dialled."""
        if self._route.failure is None:
            self.resolve = self._route.resolve
            self._sender.post(self)
        else:
            self.fail(self._route.failure)

    def fail(self, outcome: Outcome) -> None:
        """End without sending; `answer` is called in the next turn of the event loop."""
        asyncio.get_running_loop().call_soon(self._end, outcome)

    def authorize(self, token: str) -> None:
        """Send a bearer token, and remove it from excerpts of the answer."""
        self.headers.append(f"Authorization: Bearer {token}")
        self._secrets += (token,)

    def finish(self, reply: CurlReply) -> None:
        """Called by the CurlLoop at the end."""
        if not self.over:
            outcome = self._sender.outcome_of(reply, self._secrets)
            if self._sender.keeps_headers:
                outcome = replace(outcome, headers=self._kept_headers(reply))
            self._end(outcome)

    def _kept_headers(self, reply: CurlReply) -> RawHeaders:
        common = len(self._route.headers)
        lines = [*self.headers[:common], self._lines, *self.headers[common + 1 :]]
        return RawHeaders(lines, reply.headers, self._secrets, self._has_id)

    def _end(self, outcome: Outcome) -> None:
        if not self.over and not self._sender.closed:
            self.over = True
            self._answer(outcome)


class WebhookSender:
    """Carries batches to webhooks. `now` is wall time, to which dates in answers are compared.

    `token_for` signs tokens for webhooks that an application protects; None if this server signs none.
    `keeps_headers`: outcomes carry the headers of the request and of its answer, for history.
    `signer` signs the requests of subscriptions that ask for it.
    """

    def __init__(
        self,
        egress: Egress,
        ca_file: str | None = None,
        resolver: Resolver | None = None,
        *,
        now: Callable[[], int],
        token_for: TokenSource | None = None,
        keeps_headers: bool = False,
        signer: RequestSigner | None = None,
    ) -> None:
        self._trust = trust(partial(judge, egress=egress), ca_file)
        self._route = lru_cache(limits.ROUTES)(partial(_Route, egress))
        self._resolver = resolver or Resolver()
        self._now = now
        self._token_for = token_for
        self.keeps_headers = keeps_headers
        self._signer = signer
        self._curl: CurlLoop | None = None
        self.closed = False

    def __repr__(self) -> str:
        return f"<WebhookSender {self._curl or 'unused'}>"

    def send(self, destination: WebHook, batch: Batch, answer: Answer) -> WebhookExchange:
        if self.closed:
            raise RuntimeError("The sender is closed.")
        route = self._route(destination.url, batch.subscription, batch.form)
        exchange = WebhookExchange(self, route, batch, answer)
        if destination.application is not None and not self._add_token(exchange, destination.application):
            return exchange
        if batch.signing is not None and not self._sign(exchange, batch.signing):
            return exchange
        if not route.host:
            exchange.dial()
        elif (known := self._resolver.known(route.host)) is not None:
            exchange.settle(known)
        else:
            self._resolver.ask(route.host, exchange.settle)
        return exchange

    def _add_token(self, exchange: WebhookExchange, application: str) -> bool:
        """Add the token for a webhook that an application protects; without a signer the exchange fails, unsent."""
        if self._token_for is None:
            exchange.fail(Outcome(Result.UNAUTHORIZED, detail="this server signs no tokens for protected webhooks"))
            return False
        exchange.authorize(self._token_for(application))
        return True

    def _sign(self, exchange: WebhookExchange, signing: Signing) -> bool:
        """Sign the body as it is sent; a request that cannot be signed fails, unsent."""
        assert self._signer is not None, "this sender signs no requests"
        made = self._signer.headers(signing, exchange.body)
        if isinstance(made, Outcome):
            exchange.fail(made)
            return False
        exchange.headers += made
        return True

    async def close(self) -> None:
        self.closed = True
        if self._curl is not None:
            await self._curl.close()

    def post(self, exchange: WebhookExchange) -> None:
        """Give an exchange to the CurlLoop, which is made for the first one, on the event loop that runs then."""
        if self._curl is None:
            self._curl = CurlLoop(self._trust)
        self._curl.submit(exchange)

    def drop(self, exchange: WebhookExchange) -> None:
        """Take an exchange from the CurlLoop, if it is there."""
        if self._curl is not None:
            self._curl.abort(exchange)

    def outcome_of(self, reply: CurlReply, secrets: tuple[str, ...]) -> Outcome:
        """The outcome of a reply. Only a failure has an excerpt of the body."""
        if 200 <= reply.status < 300:
            return _plain_answer(reply.status)
        if reply.status:
            body = reply.body.decode("utf-8", "replace")
            return answered(reply.status, retry_after_ns(reply.headers, self._now()), excerpt(body, secrets))
        ours = reply.code in (pycurl.E_COULDNT_CONNECT, pycurl.E_WRITE_ERROR, pycurl.E_ABORTED_BY_CALLBACK)
        detail = (reply.note if ours else "") or reply.problem or "the answer broke off"
        return Outcome(RESULT_OF_CURL.get(reply.code, Result.GENERIC_ERROR), detail=excerpt(detail, secrets))


# Our own headers are lines of one text, which libcurl sends as it is: formatting eight texts would be a tenth of the
# cost of a request.
_OUTPUT_ID_LINE = f"\r\n{headers.OUTPUT_EVENT_ID}: "
_ORIGIN_LINES = f"\r\nWebHook-Request-Origin: {ORIGIN}\r\nOrigin: {ORIGIN}"


def _route_lines(subscription: str, form: BodyForm) -> str:
    lines = f"\r\n{headers.METADATA_VERSION}: {form.metadata_version}"
    if form.has_cloud_events:
        lines += _ORIGIN_LINES
    name = _line(headers.SUBSCRIPTION_NAME, subscription.upper())
    return f"{headers.EVENT_TYPE}: {headers.NOTIFICATION}{lines}{name}"


@lru_cache(100)
def _batch_lines(attempts_before: int, data_version: str | None) -> str:
    version = "" if data_version is None else _line(headers.DATA_VERSION, data_version)
    return f"\r\n{headers.DELIVERY_COUNT}: {attempts_before}{version}"


def _line(name: str, value: str) -> str:
    """One header after others, or nothing if the value could end the line: some values come from publishers."""
    return f"\r\n{name}:{' ' if value else ''}{value}" if is_sendable(value) else ""


def _secret_words(headers: tuple[Header, ...]) -> tuple[str, ...]:
    """The texts of secret headers that an answer might repeat: a value, or a token without its scheme."""
    values = [header.value for header in headers if header.secret]
    return tuple(text for value in values for text in (value, *value.split()) if text)


def retry_after_ns(headers: list[bytes], now: int) -> int:
    """The time that the endpoint asks us to wait, from `Retry-After` in seconds or as a date; 0 if it does not.

    A malformed or past value counts as none; a very long one as RETRY_AFTER_BELIEVED_NS.
    """
    text = next((line.partition(b":")[2] for line in headers if line[:12].lower() == b"retry-after:"), b"")
    value = text.decode("latin-1").strip()
    wait_ns = _seconds(value) if re.fullmatch(r"[0-9]+", value) else _date(value) - now
    return min(max(wait_ns, 0), limits.RETRY_AFTER_BELIEVED_NS)


def _seconds(digits: str) -> int:
    """Digits as nanoseconds. They are cut, for Python does not read a number of thousands of digits."""
    significant = digits.lstrip("0")
    return int(significant[:_RETRY_AFTER_DIGITS] or 0) * SECOND


def _date(value: str) -> int:
    """The instant of an HTTP date; 0 for anything else."""
    try:
        parsed = parsedate_to_datetime(value)
        return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
