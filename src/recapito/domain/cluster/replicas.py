"""Whether every NATS server's copy of a stream is whole, from two looks at what the servers say of themselves.

The law: the sequences of our streams are dense, so a copy with fewer messages than sequences has lost some, and a copy
whose end is before another's end of a minute ago does not keep up. One look proves nothing: a copy may be changing.
"""

from collections.abc import Mapping
from typing import NamedTuple


class CopyState(NamedTuple):
    """One server's copy of one stream, as that server counts it."""

    messages: int
    first: int
    last: int

    @property
    def missing(self) -> int:
        """The messages between its ends that it does not have."""
        return max(self.last - self.first + 1 - self.messages, 0) if self.last else 0


Look = Mapping[str, Mapping[str, CopyState]]
"""By the server's monitor, and by the name of the stream."""


def find_faults(before: Look, now: Look) -> dict[str, str]:
    """The servers whose copies are not whole in both looks, with the fault and the remedy."""
    ends: dict[str, int] = {}
    for copies in before.values():
        for stream, state in copies.items():
            ends[stream] = max(ends.get(stream, 0), state.last)
    faults = {}
    for server in sorted(before.keys() & now.keys()):
        for stream in sorted(before[server].keys() & now[server].keys()):
            was, is_now = before[server][stream], now[server][stream]
            if was.missing and is_now.missing:
                faults[server] = (
                    f"The copy of stream {stream} at {server} lacks {is_now.missing} messages: stop that server, empty "
                    "its store directory, and start it again. Never do that on two servers at once."
                )
            elif is_now.last < ends[stream]:
                faults[server] = (
                    f"The copy of stream {stream} at {server} is {ends[stream] - is_now.last} messages behind that of "
                    "a minute ago: look at that server's log and disk."
                )
    return faults
