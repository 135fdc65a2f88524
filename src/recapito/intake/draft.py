"""What a client asks for: a topic or a subscription as it should be, before it has an id, keys or a position."""

import msgspec

from recapito.domain.filter import TAKE_ALL, Filter
from recapito.domain.subscription import (
    Batching,
    DeadLetterDestination,
    Destination,
    RetryPolicy,
)


class TopicDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a client wants it. Without a location it keeps the one it has, or gets the default."""

    name: str
    azure_subscription: str
    resource_group: str
    location: str | None = None
    tags: dict[str, str] = {}


class SubscriptionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An event subscription as a client wants it; what is not given has Event Grid's default."""

    name: str
    destination: Destination
    batching: Batching = Batching()
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    filter: Filter = TAKE_ALL
    labels: tuple[str, ...] = ()
