"""What a client asks for: a topic or a subscription as it should be, before it has an id, keys or a position."""

from collections.abc import Callable
from typing import Any

import msgspec

from recapito.domain.events.schema import DeliverySchema, InputMapping, InputSchema
from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.resources.destination import Destination
from recapito.domain.resources.subscription import (
    Batching,
    DeadLetterDestination,
    DeliveryAttribute,
    RetryPolicy,
    Subscription,
)
from recapito.domain.resources.topic import Domain, Source, Topic, TopicKind


class TopicDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as a client wants it. Without a location or an input schema it keeps what it has, or gets the default.

    `kept` has no effect here and is shown back.
    """

    kind: TopicKind = TopicKind.CUSTOM
    name: str
    azure_subscription: str
    resource_group: str
    location: str | None = None
    tags: dict[str, str] = {}
    input_schema: InputSchema | None = None
    mapping: InputMapping | None = None
    local_auth: bool = True
    public_access: bool = True
    ip_rules: tuple[str, ...] = ()
    domain: Domain | None = None
    source: Source | None = None
    kept: dict[str, Any] = {}


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
    kept: dict[str, Any] = {}


# What a PATCH asks for: from the draft of what is there to the draft of what should be.
TopicChange = Callable[[TopicDraft], TopicDraft]
SubscriptionChange = Callable[[SubscriptionDraft], SubscriptionDraft]


def topic_draft(topic: Topic) -> TopicDraft:
    """The draft that would make a topic what it is."""
    return TopicDraft(
        kind=topic.kind,
        name=topic.name,
        azure_subscription=topic.azure_subscription,
        resource_group=topic.resource_group,
        location=topic.location,
        tags=topic.tags,
        input_schema=topic.input_schema,
        mapping=topic.mapping,
        local_auth=topic.local_auth,
        public_access=topic.public_access,
        ip_rules=topic.ip_rules,
        domain=topic.domain,
        source=topic.source,
        kept=topic.kept,
    )


def subscription_draft(subscription: Subscription) -> SubscriptionDraft:
    """The draft that would make a subscription what it is, or will be once its endpoint has consented."""
    wanted = subscription.proposed or subscription
    return SubscriptionDraft(
        name=subscription.name,
        domain_topic=subscription.domain_topic,
        destination=wanted.destination,
        delivery_schema=wanted.delivery_schema,
        attributes=wanted.attributes,
        batching=wanted.batching,
        retry_policy=wanted.retry_policy,
        dead_letter=wanted.dead_letter,
        filter=wanted.filter,
        labels=wanted.labels,
        expires_at=wanted.expires_at,
        kept=wanted.kept,
    )
