"""The one table from errors to HTTP statuses, and the three shapes of an error body.

The data plane answers as Event Grid does (spec §3): the status by name, the exact code in `details`, and a report id.
Management answers as ARM does: the exact code, and the field as `target`. Identity answers as OAuth does.
"""

import traceback
from typing import NamedTuple
from uuid import uuid4

import msgspec

from recapito.domain.instant import utc
from recapito.errors import (
    AppendFailed,
    Busy,
    CallerError,
    Conflict,
    Gone,
    InvalidInput,
    LoopDetected,
    NotFound,
    PreconditionFailed,
    RecordDamaged,
    StoreDamaged,
    StoreFailed,
    TooLarge,
    TooManyRequests,
    Unauthorized,
)
from recapito.observability.journal import Journal


class Forbidden(CallerError):
    """The caller may not do this."""


class Unauthenticated(Unauthorized):
    """A management request without a valid token. `authority` is the URL that issues tokens."""

    def __init__(self, authority: str) -> None:
        super().__init__("AuthenticationFailed", "The request needs a bearer token that is valid here and now.")
        self.authority = authority


class OutcomeUnknown(Exception):
    """A request was sent to the owner of a partition, and its answer did not come. Sending it again is safe."""


class GrantRefused(CallerError):
    """A request for a token was wrong: `code` is OAuth's, `number` is Entra's."""

    def __init__(self, code: str, number: int, message: str) -> None:
        super().__init__(code, message)
        self.number = number


class ClientRefused(GrantRefused):
    """The client id is unknown, or the secret is wrong."""


class GrantSlowed(GrantRefused):
    """Too many wrong secrets were sent for a token."""

    def __init__(self, slowed: TooManyRequests) -> None:
        super().__init__("temporarily_unavailable", 90055, slowed.message)
        self.retry_after_s = slowed.retry_after_s


class MethodNotAllowed(CallerError):
    """The path exists, the method does not. `allow` lists the methods that do."""

    def __init__(self, allow: str) -> None:
        super().__init__("MethodNotAllowed", f"The method is not allowed here. Allowed: {allow}.")
        self.allow = allow


class UnsupportedMedia(CallerError):
    """The body has an encoding or a type that is not accepted."""


class TooMuch(TooLarge):
    """The body is so large that its rest is not read: the connection ends with the answer."""


class TooSlow(CallerError):
    """The body did not arrive in time; the connection ends with the answer."""


# The names are Event Grid's for the statuses: the `code` of a data plane error.
_STATUS: dict[type[Exception], tuple[int, str]] = {
    InvalidInput: (400, "BadRequest"),
    Unauthorized: (401, "Unauthorized"),
    Unauthenticated: (401, "Unauthorized"),
    ClientRefused: (401, "Unauthorized"),
    GrantRefused: (400, "BadRequest"),
    GrantSlowed: (429, "TooManyRequests"),
    Forbidden: (403, "Forbidden"),
    NotFound: (404, "NotFound"),
    MethodNotAllowed: (405, "MethodNotAllowed"),
    TooSlow: (408, "RequestTimeout"),
    Conflict: (409, "Conflict"),
    Gone: (410, "Gone"),
    PreconditionFailed: (412, "PreconditionFailed"),
    TooLarge: (413, "RequestEntityTooLarge"),
    TooMuch: (413, "RequestEntityTooLarge"),
    UnsupportedMedia: (415, "UnsupportedMediaType"),
    TooManyRequests: (429, "TooManyRequests"),
    Busy: (503, "ServiceUnavailable"),
    OutcomeUnknown: (503, "ServiceUnavailable"),
    StoreFailed: (503, "ServiceUnavailable"),
    AppendFailed: (503, "ServiceUnavailable"),
    StoreDamaged: (503, "ServiceUnavailable"),
    RecordDamaged: (503, "ServiceUnavailable"),
    LoopDetected: (508, "LoopDetected"),
}
_OTHER = (500, "InternalServerError")
_STORE_RETRY_S = 1
_DAMAGE_RETRY_S = 60
_FILE_DAMAGED = (
    "The request needs a damaged part of the server's store. "
    "`recapito doctor --data DIRECTORY`, beside the server, says what to do."
)
_NO_ANSWER = "An owner of the cluster did not answer; whether the request was carried out is unknown. Try again."
_OUTCOMES = {
    "NotStored": "No event of this request is stored.",
    "OutcomeUnknown": "The events of this request may be stored. Publish them again, and expect repetitions.",
}


class Refusal(NamedTuple):
    """An error as the caller sees it; `name` is the status by Event Grid's name."""

    status: int
    name: str
    code: str
    message: str
    target: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    outcome: str | None = None  # whether a publish that failed by our fault is stored


def refusal(error: Exception) -> Refusal:
    """The error as the caller sees it. Our own faults show only that the caller may try again."""
    status, name = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), _OTHER)
    match error:
        case MethodNotAllowed():
            return Refusal(status, name, error.code, error.message, None, ((b"allow", error.allow.encode()),))
        case Unauthenticated():
            challenge = f'Bearer authorization_uri="{error.authority}", error="invalid_token"'.encode()
            return Refusal(status, name, error.code, error.message, None, ((b"www-authenticate", challenge),))
        case ClientRefused():
            return Refusal(status, name, error.code, error.message, None, ((b"www-authenticate", b"Basic"),))
        case GrantSlowed():
            return Refusal(status, name, error.code, error.message, None, _retry_after(error.retry_after_s))
        case TooMuch() | TooSlow():
            return Refusal(status, name, error.code, error.message, error.target, ((b"connection", b"close"),))
        case CallerError():
            return Refusal(status, name, error.code, error.message, error.target)
        case TooManyRequests():
            return Refusal(status, name, "TooManyRequests", error.message, None, _retry_after(error.retry_after_s))
        case Busy():
            return Refusal(status, name, "ServerBusy", error.message, None, _retry_after(error.retry_after_s))
        case OutcomeUnknown():
            retry = _retry_after(_STORE_RETRY_S)
            return Refusal(status, name, "OutcomeUnknown", _NO_ANSWER, None, retry, "OutcomeUnknown")
        case RecordDamaged():
            return Refusal(status, name, "RecordDamaged", str(error), None, _retry_after(_DAMAGE_RETRY_S))
        case StoreDamaged():
            return Refusal(status, name, "StoreDamaged", _FILE_DAMAGED, None, _retry_after(_DAMAGE_RETRY_S))
        case StoreFailed():
            message = "Whether the request was stored is unknown. Try again."
            return Refusal(status, name, "StoreFailed", message, None, _retry_after(_STORE_RETRY_S))
    return Refusal(status, name, "InternalError", "Something went wrong on the server. Try again.")


def _retry_after(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"retry-after", b"%d" % seconds),)


def arm_body(refused: Refusal) -> bytes:
    return msgspec.json.encode(
        {"error": {"code": refused.code, "message": refused.message, "target": refused.target, "details": []}}
    )


def publish_refusal(error: Exception) -> Refusal:
    """The error as a publisher sees it. A failure before the commit leaves nothing stored."""
    if isinstance(error, StoreFailed) and not isinstance(error, AppendFailed | RecordDamaged):
        error = Busy("The store cannot be read now. Try again.", _STORE_RETRY_S)
    refused = refusal(error)
    if refused.status < 500:
        return refused
    return refused._replace(outcome="OutcomeUnknown" if isinstance(error, AppendFailed) else "NotStored")


def publish_body(refused: Refusal, report: str) -> bytes:
    """The error body of the data plane (spec §3 and A23). Our own faults have a second detail: are events stored."""
    message = f"{refused.message} Report '{report}' when you ask for help."
    details = [{"code": refused.code, "message": message}]
    if refused.outcome is not None:
        details.append({"code": refused.outcome, "message": _OUTCOMES[refused.outcome]})
    return msgspec.json.encode({"error": {"code": refused.name, "message": message, "details": details}})


def oauth_body(error: GrantRefused, now: int) -> bytes:
    return msgspec.json.encode(
        {
            "error": error.code,
            "error_description": f"AADSTS{error.number}: {error.message}",
            "error_codes": [error.number],
            "timestamp": f"{utc(now):%Y-%m-%d %H:%M:%SZ}",
            "trace_id": str(uuid4()),
            "correlation_id": str(uuid4()),
        }
    )


def new_report(now: int) -> str:
    """An id for one failure, which the answer and the journal share."""
    at = utc(now)
    return f"{uuid4()}:0:{at.month}/{at.day}/{at.year} {at.hour % 12 or 12}:{at:%M:%S %p} (UTC)"


def journal_fault(journal: Journal, error: Exception, report: str) -> None:
    """Write our own faults to the journal in full. A caller's faults are only in the answer.

    Damage is no defect of the program, and every request may meet it: it is written without a traceback.
    """
    if isinstance(error, CallerError | Busy | OutcomeUnknown):
        return
    if isinstance(error, StoreDamaged | RecordDamaged):
        journal("api.failed", report=report, error=str(error))
        return
    where = "".join(traceback.format_exception(error))[-1000:]
    journal("api.failed", report=report, error=repr(error), where=where)
