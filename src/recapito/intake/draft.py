"""What a client asks for: a topic or a subscription as it should be, before it has an id, keys or a position."""

import msgspec

from recapito.domain.filter import TAKE_ALL, Filter
from recapito.domain.schema import DeliverySchema, InputMapping, InputSchema
from recapito.domain.subscription import (
    Batching,
    DeadLetterDestination,
    DeliveryAttribute,
    Destination,
    RetryPolicy,
)
from recapito.domain.topic import Domain, Source, TopicKind


class TopicDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a client wants it. Without a location it keeps the one it has, or gets the default."""

    kind: TopicKind = TopicKind.CUSTOM
    name: str
    azure_subscription: str
    resource_group: str
    location: str | None = None
    tags: dict[str, str] = {}
    input_schema: InputSchema = InputSchema.EVENT_GRID
    mapping: InputMapping | None = None
    local_auth: bool = True
    public_access: bool = True
    ip_rules: tuple[str, ...] = ()
    domain: Domain | None = None
    source: Source | None = None


class SubscriptionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An event subscription as a client wants it; what is not given has Event Grid's default.

    Without a delivery schema it gets the one that its topic's input schema suggests.
    """

    name: str
    domain_topic: str | None = None
    destination: Destination
    delivery_schema: DeliverySchema | None = None
    attributes: tuple[DeliveryAttribute, ...] = ()
    batching: Batching = Batching()
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    filter: Filter = TAKE_ALL
    labels: tuple[str, ...] = ()
    expires_at: int | None = None
