"""One table from the errors of Azure Storage and of its client library to an Outcome with an equivalent status.

A detail names the resource and the remedy in our own words: the service's text can hold the request's signature.
"""

import re
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from recapito.azure.access import reason_of
from recapito.domain.delivery.outcome import Outcome, Result, answered
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.resources.resource_id import ResourceId

CLOCK_APART_NS = 15 * MINUTE  # Azure Storage accepts less
_CODE = re.compile(r"[A-Za-z0-9]{1,64}")


class StorageMeaning(NamedTuple):
    """The meaning of an error code: a result, the status that rules are keyed by, the remedy."""

    result: Result
    status: int | None
    remedy: str


_WHO = StorageMeaning(
    Result.UNAUTHORIZED,
    401,
    "the key or signature of its connection is wrong or has ended, or this machine's clock is:"
    " recapito connection set {account}",
)
_NO_KEYS = _WHO._replace(
    remedy="its account takes no keys: allow them, or recapito connection set {account} --default-credential"
)
_REFUSED = StorageMeaning(
    Result.FORBIDDEN,
    403,
    "the account refuses the connection's credential: it may not write there, its key is wrong (as Azurite says it),"
    " or the account's firewall keeps this machine out: recapito connection set {account}",
)
_GONE = StorageMeaning(Result.NOT_FOUND, 404, "it does not exist: create it, or correct the subscription")
_OFF = StorageMeaning(Result.DISABLED, None, "it is disabled: enable it")
_LARGE = StorageMeaning(Result.PAYLOAD_TOO_LARGE, 413, "the message is larger than a queue takes")
_SLOW = StorageMeaning(Result.TIMED_OUT, 408, "the service gave up on the request")

# The service answers 403 both to a wrong credential and to one without the right; the first can be mended: a 401.
MEANING_OF_CODE = {
    "AuthenticationFailed": _WHO,
    "InvalidAuthenticationInfo": _WHO,
    "NoAuthenticationInformation": _WHO,
    "KeyBasedAuthenticationNotPermitted": _NO_KEYS,
    "AuthorizationFailure": _REFUSED,
    "ContainerNotFound": _GONE,
    "ContainerBeingDeleted": _GONE,
    "QueueNotFound": _GONE,
    "QueueBeingDeleted": _GONE,
    "AccountIsDisabled": _OFF,
    "ContainerDisabled": _OFF,
    "QueueDisabled": _OFF,
    "RequestBodyTooLarge": _LARGE,
    "MessageTooLarge": _LARGE,
    "OperationTimedOut": _SLOW,
}
_REMEDY_OF_STATUS = {
    400: "the service does not take the request",
    401: _WHO.remedy,
    403: "the connection's credential may not write there: grant it, or recapito connection set {account}",
    404: _GONE.remedy,
}
_ALIEN = (
    "what answers does not speak as Azure Storage does: is its address right? If not, recapito connection set {account}"
)
_NO_IDENTITY = "this server has no identity that Azure accepts: give it one, or recapito connection set {account}"


def outcome_of(error: Exception, resource: ResourceId, now: int | None = None) -> Outcome:
    """The outcome of a delivery to this resource that ended with this error; `now` is this machine's time."""
    if isinstance(error, HttpResponseError) and error.response is not None and error.status_code:
        return _answered(error, error.status_code, resource, now)
    if isinstance(error, ClientAuthenticationError):
        return Outcome(Result.UNAUTHORIZED, 401, detail=_detail(resource, _NO_IDENTITY))
    inner = getattr(error, "inner_exception", None) or error
    if isinstance(inner, aiohttp.ClientConnectorDNSError):
        return Outcome(Result.RESOLUTION_ERROR, detail=_detail(resource, f"{inner.host}: {_reason(inner.os_error)}"))
    if isinstance(inner, aiohttp.ClientConnectorError):
        place = f"{inner.host}:{inner.port}"
        return Outcome(Result.SOCKET_ERROR, detail=_detail(resource, f"{place}: {_reason(inner.os_error)}"))
    if isinstance(error, ServiceRequestError | ServiceResponseError | OSError) or isinstance(inner, OSError):
        return Outcome(Result.SOCKET_ERROR, detail=_detail(resource, f"the connection broke ({type(inner).__name__})"))
    kind = "the client library failed" if isinstance(error, AzureError) else "an unexpected error"
    return Outcome(Result.GENERIC_ERROR, detail=_detail(resource, f"{kind} ({type(error).__name__})"))


def _answered(error: HttpResponseError, status: int, resource: ResourceId, now: int | None) -> Outcome:
    code = str(getattr(error, "error_code", None) or "")
    code = getattr(getattr(error, "error_code", None), "value", code)
    shown = f"{status} {code}" if _CODE.fullmatch(code) else str(status)
    meaning = MEANING_OF_CODE.get(code)
    if meaning is _WHO and (apart := _apart(error, now)):
        return Outcome(_WHO.result, _WHO.status, detail=_detail(resource, f"{apart} ({shown})"))
    if meaning is not None:
        return Outcome(meaning.result, meaning.status, detail=_detail(resource, f"{meaning.remedy} ({shown})"))
    if status < 300 or (status == 404 and not code):
        # An error that looks like success must not count as one, nor a stranger's 404 as a thing that is missing.
        return Outcome(
            Result.GENERIC_ERROR, status if status == 404 else None, detail=_detail(resource, f"{_ALIEN} ({shown})")
        )
    remedy = _REMEDY_OF_STATUS.get(status, "the service failed")
    return answered(status, detail=_detail(resource, f"{remedy} ({shown})"))


def _apart(error: HttpResponseError, now: int | None) -> str | None:
    """The difference of this machine's clock from the service's, if it is so large that no signature is accepted."""
    date = getattr(error.response, "headers", {}).get("Date")
    try:
        theirs = int(parsedate_to_datetime(date or "").timestamp()) * SECOND
    except ValueError:
        return None
    if now is None or abs(now - theirs) < CLOCK_APART_NS:
        return None
    minutes, which = round(abs(now - theirs) / MINUTE), "ahead of" if now > theirs else "behind"
    return f"this machine's clock is {minutes} minutes {which} the service's: set it right, best by NTP"


def _detail(resource: ResourceId, what: str) -> str:
    account = resource.top
    part = f"{resource.name} of storage account {account.name}" if resource != account else account.name
    return f"{part}: {what.format(account=account.text)}"


def _reason(error: OSError) -> str:
    return reason_of(error) or str(error) or type(error).__name__
