"""The webhook sender: posts batches with Event Grid's delivery headers and turns whatever happens into an Outcome.

Names are looked up by our own resolver; each address is judged when it was looked up, and again when it is dialled.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial

import pycurl

from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge
from recapito.domain.delivery import headers
from recapito.domain.delivery.attributes import Header, is_sendable
from recapito.domain.delivery.batch import Batch, Form
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.excerpt import excerpt
from recapito.domain.handshake.handshake import ORIGIN
from recapito.domain.resources.destination import WebHook
from recapito.senders.endpoint import EndpointRoute, header
from recapito.senders.http.curl import CurlLoop
from recapito.senders.http.resolver import Resolved, Resolver
from recapito.senders.http.transfer import EXCERPT_BODY_BYTES, Reply, Transfer, trust
from recapito.senders.retry_after import retry_after_ns

Answer = Callable[[Outcome], None]
TokenSource = Callable[[str], str]
"""A bearer token for the application that protects a webhook."""

# What libcurl's errors are in Event Grid's words; an error that is not here is a GenericError.
RESULT_OF_CURL = {
    pycurl.E_OK: Result.SOCKET_ERROR,  # closed before the headers were complete, which libcurl lets pass
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
_plain_answer = lru_cache(1000)(answered)


class _Route(EndpointRoute):
    """What all batches of one subscription to one URL have in common."""

    def __init__(self, egress: Egress, url: str, subscription: str, form: Form) -> None:
        super().__init__(egress, url)
        self.headers = [f"Content-Type: {form}", "Accept:", "Expect:"]  # the last two are libcurl's way to say: none
        self.lines = _route_lines(subscription, form)


class WebhookExchange:
    """One batch on its way: an Exchange for the lane, a Post for the pump. `over`: answered or aborted."""

    __slots__ = ("_answer", "_route", "_secrets", "_sender", "body", "headers", "over", "resolve", "transfer", "url")

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
        if batch.output_id is not None:
            lines += _OUTPUT_ID_LINE + batch.output_id
        self.headers = [*route.headers, lines]
        if batch.headers:
            for custom in batch.headers:
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
        """Stop listening and let go of the connection. No answer comes after this returns."""
        if not self.over:
            self.over = True
            self._sender.drop(self)

    def settle(self, resolved: Resolved) -> None:
        """The name was looked up: go on."""
        self._route.settle(resolved)
        if not self.over and not self._sender.closed:
            self.dial()

    def dial(self) -> None:
        """Hand over to the pump, unless it is known that there is nothing to dial."""
        if self._route.failure is None:
            self.resolve = self._route.resolve
            self._sender.post(self)
        else:
            self.fail(self._route.failure)

    def fail(self, outcome: Outcome) -> None:
        """Nothing is sent; whoever waits hears of it in a moment."""
        asyncio.get_running_loop().call_soon(self._end, outcome)

    def authorize(self, token: str) -> None:
        """Show a bearer token, and nobody what the endpoint repeats of it."""
        self.headers.append(f"Authorization: Bearer {token}")
        self._secrets += (token,)

    def finish(self, reply: Reply) -> None:
        """The pump's word for the end."""
        if not self.over:
            self._end(self._sender.outcome_of(reply, self._secrets))

    def _end(self, outcome: Outcome) -> None:
        if not self.over and not self._sender.closed:
            self.over = True
            self._answer(outcome)


class WebhookSender:
    """Carries batches to webhooks. `now` tells the wall clock's time, which dates in answers are measured by.

    `token_for` signs tokens for webhooks that an application protects; None where nobody does.
    """

    def __init__(
        self,
        egress: Egress,
        ca_file: str | None = None,
        resolver: Resolver | None = None,
        *,
        now: Callable[[], int],
        token_for: TokenSource | None = None,
    ) -> None:
        self._trust = trust(partial(judge, egress=egress), ca_file)
        self._route = lru_cache(limits.ROUTES)(partial(_Route, egress))
        self._resolver = resolver or Resolver()
        self._now = now
        self._token_for = token_for
        self._curl: CurlLoop | None = None
        self.closed = False

    def __repr__(self) -> str:
        return f"<WebhookSender {self._curl or 'unused'}>"

    def send(self, destination: WebHook, batch: Batch, answer: Answer) -> WebhookExchange:
        """Start one exchange."""
        if self.closed:
            raise RuntimeError("The sender is closed.")
        route = self._route(destination.url, batch.subscription, batch.form)
        exchange = WebhookExchange(self, route, batch, answer)
        if destination.application is not None and not self._show_token(exchange, destination.application):
            return exchange
        if not route.host:
            exchange.dial()
        elif (known := self._resolver.known(route.host)) is not None:
            exchange.settle(known)
        else:
            self._resolver.ask(route.host, exchange.settle)
        return exchange

    def _show_token(self, exchange: WebhookExchange, application: str) -> bool:
        """Let a webhook that an application protects see a token; where none is signed, nothing is sent."""
        if self._token_for is None:
            exchange.fail(Outcome(Result.UNAUTHORIZED, detail="this server signs no tokens for protected webhooks"))
            return False
        exchange.authorize(self._token_for(application))
        return True

    async def close(self) -> None:
        """Abort what is open and free everything."""
        self.closed = True
        if self._curl is not None:
            await self._curl.close()

    def post(self, exchange: WebhookExchange) -> None:
        """Give an exchange to the pump, which is made for the first, on the event loop that runs then."""
        if self._curl is None:
            self._curl = CurlLoop(self._trust)
        self._curl.submit(exchange)

    def drop(self, exchange: WebhookExchange) -> None:
        """Take an exchange from the pump, if it has it."""
        if self._curl is not None:
            self._curl.abort(exchange)

    def outcome_of(self, reply: Reply, secrets: tuple[str, ...]) -> Outcome:
        """What a reply means. Only a failure is worth an excerpt."""
        if 200 <= reply.status < 300:
            return _plain_answer(reply.status)
        if reply.status:
            body = reply.body.decode("utf-8", "replace")
            return answered(reply.status, retry_after_ns(reply.headers, self._now()), excerpt(body, secrets))
        ours = reply.code in (pycurl.E_COULDNT_CONNECT, pycurl.E_WRITE_ERROR, pycurl.E_ABORTED_BY_CALLBACK)
        detail = (reply.note if ours else "") or reply.problem or "the answer broke off"
        return Outcome(RESULT_OF_CURL.get(reply.code, Result.GENERIC_ERROR), detail=excerpt(detail, secrets))


# Our own headers are lines of one text, which libcurl sends as it is: eight texts to be formatted would be a tenth of
# what a request costs.
_OUTPUT_ID_LINE = f"\r\n{headers.OUTPUT_EVENT_ID}: "
_EVENT_LINES = f"\r\n{headers.METADATA_VERSION}: 1"
_CLOUD_EVENT_LINES = f"\r\n{headers.METADATA_VERSION}: 1.0\r\nWebHook-Request-Origin: {ORIGIN}\r\nOrigin: {ORIGIN}"


def _route_lines(subscription: str, form: Form) -> str:
    lines = _EVENT_LINES if form is Form.EVENTS else _CLOUD_EVENT_LINES
    name = _line(headers.SUBSCRIPTION_NAME, subscription.upper())
    return f"{headers.EVENT_TYPE}: {headers.NOTIFICATION}{lines}{name}"


@lru_cache(100)
def _batch_lines(attempts_before: int, data_version: str | None) -> str:
    version = "" if data_version is None else _line(headers.DATA_VERSION, data_version)
    return f"\r\n{headers.DELIVERY_COUNT}: {attempts_before}{version}"


def _line(name: str, value: str) -> str:
    """One header after others, or nothing if the value could be mistaken for more: some come from publishers."""
    return f"\r\n{name}:{' ' if value else ''}{value}" if is_sendable(value) else ""


def _secret_words(headers: tuple[Header, ...]) -> tuple[str, ...]:
    """What an answer might repeat of secret headers: a value, or a token without its scheme."""
    values = [header.value for header in headers if header.secret]
    return tuple(text for value in values for text in (value, *value.split()) if text)
