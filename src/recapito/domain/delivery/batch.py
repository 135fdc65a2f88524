"""A batch: the events of one request to one endpoint.

It is filled with the events that are available and never waits. It has at most `event_limit` events, and more than
`byte_limit` bytes of request body only when a single event is larger, which then goes alone.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec

from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.signature import Signing
from recapito.domain.events.schema import BodyForm


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The content of one request, and the values of its headers.

    `attempts_before` is the smallest number of earlier attempts among its events; `data_version` is None when the
    events differ or their schema has none; `output_id` is None when there are several events; `headers` are the
    subscriber's own; `signing` is None where requests are not signed. `traces` are the traceparents of the traced
    events, `traceparent` is the one to send.
    """

    subscription: str
    body: bytes
    events: int
    attempts_before: int
    data_version: str | None
    output_id: str | None
    form: BodyForm = BodyForm.EVENTS
    headers: tuple[Header, ...] = ()
    traces: tuple[str, ...] = ()
    traceparent: str = ""
    signing: Signing | None = None

    @property
    def lone_event(self) -> bytes:
        """The body of a batch of one event, without the brackets of an array."""
        return self.body[1:-1] if self.form.is_array else self.body

    def __repr__(self) -> str:
        return f"<Batch of {self.events} events, {len(self.body)} bytes, for {self.subscription}>"


def goes_alone(attempts: int) -> bool:
    """Whether an event with this number of earlier attempts is sent in a request of its own.

    A batch succeeds or fails as a whole: one event that is always refused would keep the others from arriving.
    """
    return attempts >= limits.ATTEMPTS_IN_COMPANY


def fill(sizes: Iterable[int], event_limit: int, byte_limit: int) -> int:
    """The number of leading events, of these sizes, that go into one batch: at least one, if there is one.

    The body of n events has the sum of their sizes plus n + 1 bytes for brackets and commas.
    """
    total, count = 1, 0
    for size in islice(sizes, event_limit):
        total += size + 1
        if total > byte_limit:
            return max(count, 1)
        count += 1
    return count
