"""A batch: the events of one request to one endpoint.

It is filled with the events that are available and never waits. It has at most `event_limit` events, and more than
`byte_limit` bytes of request body only when a single event is larger, which then goes alone.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import msgspec

from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.delivery import Delivery
from recapito.domain.delivery.signature import Signing
from recapito.domain.events.schema import BodyForm
from recapito.domain.profiles.profile import Profile


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The content of one request, and the values of its headers.

    `attempts_before` is the smallest number of earlier attempts among its events; `data_version` is None when the
    events differ or their schema has none; `output_id` is None when there are several events; `headers` are the
    subscriber's own; `signing` is None where requests are not signed. `traces` are the traceparents of the traced
    events, `traceparent` is the one to send. `passed` are the waymarks of the topics that its events came by, this
    server's last: a request that has them forwards to another Event Grid, as a publisher would.
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
    passed: str = ""

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


def by_attempts(delivery: Delivery) -> int:
    """The most events of a request with this delivery; see `goes_alone`."""
    return 1 if goes_alone(delivery.attempts) else limits.BATCH_EVENTS[1]


Company = Callable[[Delivery], int]
"""The most events of a request that carries a delivery."""


def company_under(profile: Profile) -> Company:
    """The rule of a profile for the company of a delivery."""
    return partial(_by_outcome, profile) if profile.status.cut else by_attempts


def _by_outcome(profile: Profile, delivery: Delivery) -> int:
    """An endpoint that was away blames no event; after a refusal the request is smaller, after two the event is alone.

    So one event among a thousand that is refused costs some sixty requests, and no memory.
    """
    rules, last = profile.delayed_delivery, delivery.last_result
    if rules is not None and last is not None and rules.blames_endpoint(last):
        return limits.BATCH_EVENTS[1]
    if goes_alone(delivery.attempts):
        return 1
    return limits.CUT_EVENTS if delivery.last_status in profile.status.cut else limits.BATCH_EVENTS[1]


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
