"""One table from the AMQP conditions of Service Bus and Event Hubs to an Outcome with an equivalent status.

A detail names the resource and the remedy in our own words: the service's text is not repeated.
"""

from collections.abc import Iterator
from typing import NamedTuple

from azure.core.exceptions import ClientAuthenticationError

from recapito.azure.access import reason_of
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.resources.resource_id import ResourceId


class AmqpMeaning(NamedTuple):
    """The meaning of a condition: a result, the status that rules are keyed by, the remedy."""

    result: Result
    status: int | None
    remedy: str


_GONE = AmqpMeaning(Result.NOT_FOUND, 404, "it does not exist: create it, or correct the subscription")
_FULL = AmqpMeaning(Result.FULL, None, "it is full: have its messages received, or make it larger")
_OFF = AmqpMeaning(Result.DISABLED, None, "it is disabled for sending: enable it")
_BUSY = AmqpMeaning(Result.BUSY, 503, "the service is busy or throttles us")
_SLOW = AmqpMeaning(Result.TIMED_OUT, 408, "the service gave up on the request")
_LARGE = AmqpMeaning(Result.PAYLOAD_TOO_LARGE, 413, "the message is larger than it takes")
_WRONG = AmqpMeaning(Result.BAD_REQUEST, 400, "the service does not take the message")
_MAY_NOT = AmqpMeaning(
    Result.FORBIDDEN, 403, "the connection's credential may not send there: grant it, or recapito connection set {top}"
)
_WHO = AmqpMeaning(
    Result.UNAUTHORIZED,
    401,
    "the key or signature of its connection is wrong or has ended, or this machine's clock is:"
    " recapito connection set {top}",
)
_SESSION = AmqpMeaning(
    Result.SESSION_QUEUE_NOT_SUPPORTED,
    400,
    "it requires sessions: turn them off, or set the delivery property SessionId",
)
_BROKE = AmqpMeaning(Result.SOCKET_ERROR, None, "the connection broke")
_ALIEN = _BROKE._replace(
    remedy="what answers does not speak AMQP as Azure does: is its address right? If not, recapito connection set {top}"
)
_FAILED = AmqpMeaning(Result.GENERIC_ERROR, 500, "the service failed")

MEANING_OF_CONDITION = {
    "not-found": _GONE,
    "resource-deleted": _GONE,
    "resource-limit-exceeded": _FULL,
    "entity-disabled": _OFF,
    "server-busy": _BUSY,
    "timeout": _SLOW,
    "operation-cancelled": _SLOW,
    "link:message-size-exceeded": _LARGE,
    "frame-size-too-small": _LARGE,
    "unauthorized-access": _MAY_NOT,
    "auth-failed": _WHO,
    "not-allowed": _WRONG,
    "invalid-field": _WRONG,
    "argument-error": _WRONG,
    "argument-out-of-range": _WRONG,
    "precondition-failed": _WRONG,
    "not-implemented": _WRONG,
    "decode-error": _WRONG,
    "link:detach-forced": _BROKE,
    "connection:forced": _BROKE,
    "connection:framing-error": _BROKE,
    "container-close": _BROKE,
    "socket-error": _BROKE,
    "internal-error": _FAILED,
}
# The answers of claims-based security, before there is a link.
MEANING_OF_STATUS = {400: _WHO, 401: _WHO, 403: _MAY_NOT, 404: _GONE, 408: _SLOW, 429: _BUSY, 500: _FAILED, 503: _BUSY}
_VAGUE = {"unknown-error", "client-error"}
_NO_IDENTITY = AmqpMeaning(
    Result.UNAUTHORIZED,
    401,
    "this server has no identity that Azure accepts: give it one, or recapito connection set {top}",
)
_REFUSED_HERE = _WRONG._replace(remedy="the client library does not take the message")

_TWO_PARTITIONS = _WRONG._replace(
    remedy="its delivery properties PartitionKey and SessionId must be the same: leave one out"
)


def outcome_of(error: BaseException, resource: ResourceId) -> Outcome:
    """The outcome of a delivery to this resource that ended with an error of a client library."""
    chain = list(_chain(error))
    for cause in chain:
        status = getattr(cause, "status_code", None)
        if isinstance(cause, ClientAuthenticationError):
            return _outcome(_NO_IDENTITY, resource, type(cause).__name__)
        if isinstance(status, int) and status in MEANING_OF_STATUS:
            return _outcome(MEANING_OF_STATUS[status], resource, str(status))
    for cause in chain:
        word = _condition(cause)
        if word in MEANING_OF_CONDITION and word != "socket-error":
            return _outcome(_refine(word, chain), resource, word)
    for cause in chain:
        if isinstance(cause, OSError):
            late = "it did not answer in time" if isinstance(cause, TimeoutError) else "the connection broke"
            return _outcome(_BROKE._replace(remedy=reason_of(cause) or late), resource, type(cause).__name__)
    if any(_condition(cause) == "socket-error" for cause in chain):
        return _outcome(_BROKE, resource, "socket-error")
    if isinstance(error, ValueError | TypeError):
        refused = _TWO_PARTITIONS if "session_id" in str(error) else _REFUSED_HERE
        return _outcome(refused, resource, type(error).__name__)
    if any(isinstance(cause, ValueError | TypeError) for cause in chain):  # of frames that could not be read
        return _outcome(_ALIEN, resource, type(error).__name__)
    return _outcome(_FAILED._replace(status=None, remedy="an unexpected error"), resource, type(error).__name__)


def _refine(word: str, chain: list[BaseException]) -> AmqpMeaning:
    """Two conditions have several causes, which only the service's text distinguishes."""
    text = " ".join(str(cause) for cause in chain).lower()
    if word == "not-allowed" and "sessionid" in text:
        return _SESSION
    if word == "unauthorized-access" and "expired" in text:
        return _WHO
    if word == "not-allowed" and "disabled" in text:
        return _OFF
    return MEANING_OF_CONDITION[word]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _condition(error: BaseException) -> str:
    """The condition of an error, without its prefix; Service Bus and Event Hubs put it in different attributes."""
    condition = getattr(error, "condition", None) or getattr(error, "_condition", None) or b""
    condition = getattr(condition, "value", condition)
    text = condition.decode("ascii", "replace") if isinstance(condition, bytes) else str(condition)
    word = text.partition(":")[2]
    return "" if word in _VAGUE else word


def _outcome(meaning: AmqpMeaning, resource: ResourceId, shown: str) -> Outcome:
    top = resource.top
    remedy = meaning.remedy.format(top=top.text)
    return Outcome(
        meaning.result, meaning.status, detail=f"{resource.name} of namespace {top.name}: {remedy} ({shown})"
    )
