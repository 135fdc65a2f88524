"""Reading what an endpoint's answer asks for. Nothing of an answer is trusted."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from recapito.domain import limits
from recapito.domain.instant import SECOND


def retry_after_ns(headers: list[bytes], now: int) -> int:
    """How long the endpoint asks us to stay away, from `Retry-After` in seconds or as a date; 0 if it does not.

    What is malformed, past or beyond belief is as if it were not there.
    """
    text = next((line.partition(b":")[2] for line in headers if line[:12].lower() == b"retry-after:"), b"")
    value = text.decode("latin-1").strip()
    wait_ns = int(value) * SECOND if re.fullmatch(r"[0-9]{1,10}", value) else _date(value) - now
    return wait_ns if 0 < wait_ns <= limits.RETRY_AFTER_BELIEVED_NS else 0


def _date(value: str) -> int:
    """The instant of an HTTP date; the beginning of time for anything else."""
    try:
        parsed = parsedate_to_datetime(value)
        return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()) * SECOND
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
