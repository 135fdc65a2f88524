"""The outcome of one attempt: a value, never an exception.

The names are Event Grid's `lastDeliveryOutcome` values; rules are keyed by the HTTP status where there is one.
"""

from enum import StrEnum

import msgspec

from recapito.domain.delivery.kept_headers import RawHeaders


class Result(StrEnum):
    """Event Grid's word for how an attempt ended; the last one is ours, for events that are forwarded."""

    SUCCESS = "Success"
    NOT_FOUND = "NotFound"
    DISABLED = "Disabled"
    FULL = "Full"
    UNAUTHORIZED = "Unauthorized"
    BAD_REQUEST = "BadRequest"
    TIMED_OUT = "TimedOut"
    BUSY = "Busy"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    PROBATION = "Probation"
    CANCELED = "Canceled"
    ABORTED = "Aborted"
    SOCKET_ERROR = "SocketError"
    RESOLUTION_ERROR = "ResolutionError"
    SESSION_QUEUE_NOT_SUPPORTED = "SessionQueueNotSupported"
    FORBIDDEN = "Forbidden"
    INVALID_AZURE_FUNCTION_DESTINATION = "InvalidAzureFunctionDestination"
    GENERIC_ERROR = "GenericError"
    LOOP_DETECTED = "LoopDetected"


class Outcome(msgspec.Struct, frozen=True):
    """The end of one attempt. `status` is the HTTP status or its equivalent; None without an answer.

    `retry_after_ns` is the delay that the endpoint asked for, not yet capped; `detail` is a short, printable reason
    for the operator (a curl error, an excerpt of the answer) and never contains a secret. `headers` are kept only for
    history, and only by senders that are told to.
    """

    result: Result
    status: int | None = None
    retry_after_ns: int = 0
    detail: str = ""
    headers: RawHeaders | None = None

    @property
    def failure(self) -> Result:
        """The result of a failed attempt: a 2xx that the profile does not count as success has no name of its own."""
        return Result.GENERIC_ERROR if self.result is Result.SUCCESS else self.result


RESULT_OF_STATUS = {
    400: Result.BAD_REQUEST,
    401: Result.UNAUTHORIZED,
    403: Result.FORBIDDEN,
    404: Result.NOT_FOUND,
    408: Result.TIMED_OUT,
    413: Result.PAYLOAD_TOO_LARGE,
    429: Result.BUSY,
    503: Result.BUSY,
}


def answered(status: int, retry_after_ns: int = 0, detail: str = "") -> Outcome:
    """The outcome of an HTTP answer. The profile decides whether a 2xx is a success."""
    result = RESULT_OF_STATUS.get(status, Result.SUCCESS if 200 <= status < 300 else Result.GENERIC_ERROR)
    return Outcome(result, status, retry_after_ns, detail)
