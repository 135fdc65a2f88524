"""A batch: the events of one request to one endpoint.

It is filled with what is there and never waits; it holds at most `event_limit` events, and more than `byte_limit`
bytes of request body only when a single event is larger, which then goes alone.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import islice

import msgspec

from recapito.domain import limits
from recapito.domain.delivery.attributes import Header
from recapito.domain.events.schema import DeliverySchema


class Form(StrEnum):
    """What a request holds, by its content type: events in an array, a CloudEvent, or CloudEvents in an array."""

    EVENTS = "application/json; charset=utf-8"
    CLOUD_EVENT = "application/cloudevents+json; charset=utf-8"
    CLOUD_EVENTS = "application/cloudevents-batch+json; charset=utf-8"


def form_of(schema: DeliverySchema, batching: bool) -> Form:
    """The form of a subscription's requests: only CloudEvents go without an array, where batching is off (A9)."""
    if schema is not DeliverySchema.CLOUD_EVENT:
        return Form.EVENTS
    return Form.CLOUD_EVENTS if batching else Form.CLOUD_EVENT


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One request's content, with what the headers say about it.

    `attempts_before` is the least number of attempts that any of its events has behind it; `data_version` is None
    when the events differ or their schema has none; `output_id` is None when there are several; `headers` are the
    subscriber's own. `traces` are the traceparents of those events that are traced, `traceparent` is the one to send.
    """

    subscription: str
    body: bytes
    events: int
    attempts_before: int
    data_version: str | None
    output_id: str | None
    form: Form = Form.EVENTS
    headers: tuple[Header, ...] = ()
    traces: tuple[str, ...] = ()
    traceparent: str = ""

    def __repr__(self) -> str:
        return f"<Batch of {self.events} events, {len(self.body)} bytes, for {self.subscription}>"


def goes_alone(attempts: int) -> bool:
    """Whether an event with so many attempts behind it is tried without company.

    A batch succeeds or fails as a whole: with one event that is refused every time, the others would never arrive.
    """
    return attempts >= limits.ATTEMPTS_IN_COMPANY


def fill(sizes: Iterable[int], event_limit: int, byte_limit: int) -> int:
    """How many of the first events, of these sizes, go into one batch: at least one, if there is one.

    The body of n events is their sizes plus n + 1 bytes: brackets and commas.
    """
    total, count = 1, 0
    for size in islice(sizes, event_limit):
        total += size + 1
        if total > byte_limit:
            return max(count, 1)
        count += 1
    return count
