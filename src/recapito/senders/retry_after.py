"""Reading what an endpoint's answer asks for. Nothing of an answer is trusted."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from recapito.domain import limits
from recapito.domain.instant import SECOND

_DIGITS = 10  # a number of so many digits is beyond belief, and so is a longer one


def retry_after_ns(headers: list[bytes], now: int) -> int:
    """How long the endpoint asks us to stay away, from `Retry-After` in seconds or as a date; 0 if it does not.

    What is malformed or past is as if it were not there; what is beyond belief is as much as is believed.
    """
    text = next((line.partition(b":")[2] for line in headers if line[:12].lower() == b"retry-after:"), b"")
    value = text.decode("latin-1").strip()
    wait_ns = _seconds(value) if re.fullmatch(r"[0-9]+", value) else _date(value) - now
    return min(max(wait_ns, 0), limits.RETRY_AFTER_BELIEVED_NS)


def _seconds(digits: str) -> int:
    """So many seconds; Python would not read a number of thousands of digits."""
    significant = digits.lstrip("0")
    return int(significant[:_DIGITS] or 0) * SECOND


def _date(value: str) -> int:
    """The instant of an HTTP date; the beginning of time for anything else."""
    try:
        parsed = parsedate_to_datetime(value)
        return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
