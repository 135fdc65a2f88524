"""The habit of a connection: most clients begin every request alike, but for the length of its body.

The law: what is served out of habit is, byte for byte but for the digits of its length, what the parser has read
before as one whole request; its length is that of all that follows. Anything else is left to the parser.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from recapito.api.publish.route import Target
from recapito.domain.resources.topic import Topic

_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)\r\n", re.IGNORECASE)
_END = b"\r\n\r\n"


class Head(NamedTuple):
    """What the beginning of a publish request says."""

    target: Target
    topic: Topic
    query: bytes
    headers: Mapping[bytes, bytes]


class RequestTemplate(NamedTuple):
    """How requests begin: the bytes before and after the digits of the length, and what they say."""

    before: bytes
    after: bytes
    head: Head

    def body_of(self, data: bytes) -> bytes | None:
        """The body, if this is one whole request of the habit."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start)
        if not data.startswith(self.after, end):
            return None
        body = data[end + len(self.after) :]
        return body if data[start:end] == b"%d" % len(body) else None


def template_of(data: bytes, body: bytes, head: Head) -> RequestTemplate | None:
    """The habit that a request shows which the parser found whole and alone in `data`, if it shows one."""
    start = data[: len(data) - len(body)]
    length = _LENGTH.search(start)
    if length is None or start.find(_END) != len(start) - len(_END):
        return None
    habit = RequestTemplate(start[: length.start(1)], start[length.end(1) :], head)
    return habit if habit.body_of(data) == body else None
