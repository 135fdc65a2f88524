"""Drafts: a topic or a subscription as a client wants it, before it has an id, keys or a position."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
    """A topic as a client wants it. Without a location or an input schema it keeps its own, or gets the default.

    `kept` holds settings that have no effect here and are returned as they came.
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
    """An event subscription as a client wants it, with Event Grid's defaults.

    Without a delivery schema it gets the default of its topic's input schema.
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


class Keys(NamedTuple):
    """Access keys that a topic shall have. None leaves the key that it has, or makes one."""

    key1: str | None = None
    key2: str | None = None

    def __repr__(self) -> str:
        return "<Keys>"


ANY_KEYS = Keys()

# The change that a PATCH makes: from the draft of the stored resource to the draft of the wanted one.
TopicChange = Callable[[TopicDraft], TopicDraft]
SubscriptionChange = Callable[[SubscriptionDraft], SubscriptionDraft]


def topic_draft(topic: Topic) -> TopicDraft:
    """The draft that would make a topic what it is."""
    return TopicDraft(**_values_of(TopicDraft, topic))


def subscription_draft(subscription: Subscription) -> SubscriptionDraft:
    """The draft that would make a subscription what it is, or will be once its endpoint has consented."""
    return SubscriptionDraft(**_values_of(SubscriptionDraft, subscription.proposed or subscription))


def draft_values(draft: TopicDraft | SubscriptionDraft) -> dict[str, Any]:
    """The values of a draft by field. Fields have the same names in a draft and in its resource."""
    return _values_of(type(draft), draft)


def _values_of(fields_of: type[msgspec.Struct], source: object) -> dict[str, Any]:
    return {name: getattr(source, name) for name in fields_of.__struct_fields__}
