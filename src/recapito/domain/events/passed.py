"""The topics that a forwarded event came by: so servers that forward to each other notice it.

A server that forwards an event names, in one header, the waymarks of the topics that the event came by, its own last. A
topic that finds its own waymark there has stored the event before, so it refuses it: nothing is lost, and nothing goes
round. Azure ignores the header. The waymarks are stored beside the event, never in it, so deliveries do not show them.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

from recapito.domain import limits
from recapito.errors import InvalidInput, LoopDetected

HEADER = "recapito-passed"
_MARK_BYTES = 8
_MARKS = re.compile(r"[0-9a-f]{16}(?:,[0-9a-f]{16})*")


def waymark(log_id: str, topic: int) -> str:
    """The waymark of a topic: no other topic has it, on whatever server."""
    return blake2b(f"{log_id}/{topic}".encode(), digest_size=_MARK_BYTES).hexdigest()


def check_passed(text: str, own: str) -> str:
    """The waymarks that a request came with, to be stored; LoopDetected if that of the topic itself is among them."""
    waymarks = text.replace(" ", "")
    if not _MARKS.fullmatch(waymarks):
        raise InvalidInput("BadRequest", f"The header {HEADER} is not a list of topics' waymarks.")
    if own in waymarks.split(","):
        raise LoopDetected(
            "LoopDetected",
            "These events came by this topic before: an event subscription forwards them back to where they came from."
            " Delete it, or have its filter leave them out.",
        )
    if waymarks.count(",") + 1 >= limits.PASSED_TOPICS:
        raise LoopDetected(
            "LoopDetected", f"These events came by {limits.PASSED_TOPICS} topics already, and are not taken again."
        )
    return waymarks


def joined(passed: Iterable[str], own: str) -> str:
    """The header of a request with events that came by these topics, when the topic with the waymark `own` sends it."""
    waymarks = dict.fromkeys(name for text in passed if text for name in text.split(","))
    return ",".join([*waymarks, own])
