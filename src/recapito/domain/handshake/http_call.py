"""One small HTTP request of the server to an endpoint, and its result: values, never exceptions."""

from enum import StrEnum
from typing import Literal, NamedTuple

Method = Literal["GET", "POST", "OPTIONS"]


class HttpRequest(NamedTuple):
    """A request. The URL's query and the body may contain secrets: show neither."""

    method: Method
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.url.partition('?')[0]}>"


class HttpReply(NamedTuple):
    """An answer of any status. Headers and body are as they came, cut at their limits."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The first header of this name, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class FailureKind(StrEnum):
    """The reasons why there is no answer."""

    INVALID_URL = "InvalidUrl"
    NAME_NOT_FOUND = "NameNotFound"
    ADDRESS_REFUSED = "AddressRefused"  # by our own egress rules
    NOT_CONNECTED = "NotConnected"
    TLS_FAILED = "TlsFailed"
    TIMED_OUT = "TimedOut"
    BROKEN_OFF = "BrokenOff"
    CLOSED = "Closed"  # by us, at our end


class NoReply(NamedTuple):
    """There is no answer. `detail` is a short, printable reason without a secret."""

    trouble: FailureKind
    detail: str = ""


CallResult = HttpReply | NoReply
