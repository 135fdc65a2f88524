"""Drafts: a topic or a subscription as a client wants it, before it has an id, keys or a position.

A draft wraps the struct of its resource, so that a field is stated once. Beside it are only the fields that a client
may leave to us: None in a draft, never None in a resource. Fields that the service writes have no meaning in `wanted`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from msgspec.structs import replace

from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.filters.filter import TAKE_ALL, Filter
from recapito.domain.handshake.consent import shown
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic


class TopicDraft(NamedTuple):
    """A topic as a client wants it. Without a location or an input schema it keeps its own, or gets the default."""

    wanted: Topic
    location: str | None
    input_schema: InputSchema | None

    @classmethod
    def of(cls, *, location: str | None = None, input_schema: InputSchema | None = None, **fields: Any) -> Self:
        """A draft with these fields of a topic, and its defaults."""
        wanted = Topic(**fields, location="", key1="", key2="", created_at=0, modified_at=0)
        return cls(wanted, location, input_schema)

    def changed(self, **fields: Any) -> Self:
        location = fields.pop("location", self.location)
        input_schema = fields.pop("input_schema", self.input_schema)
        return self._replace(wanted=replace(self.wanted, **fields), location=location, input_schema=input_schema)


class SubscriptionDraft(NamedTuple):
    """An event subscription as a client wants it, with Event Grid's defaults.

    Without a delivery schema it gets the default of its topic's input schema.
    """

    wanted: Subscription
    delivery_schema: DeliverySchema | None

    @classmethod
    def of(cls, *, filter: Filter = TAKE_ALL, delivery_schema: DeliverySchema | None = None, **fields: Any) -> Self:
        """A draft with these fields of a subscription, and its defaults."""
        wanted = Subscription(**fields, topic=0, filters=_since_ever(filter), created_at=0, modified_at=0)
        return cls(wanted, delivery_schema)

    def changed(self, **fields: Any) -> Self:
        delivery_schema = fields.pop("delivery_schema", self.delivery_schema)
        if "filter" in fields:
            fields["filters"] = _since_ever(fields.pop("filter"))
        return self._replace(wanted=replace(self.wanted, **fields), delivery_schema=delivery_schema)


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
    return TopicDraft(topic, topic.location, topic.input_schema)


def subscription_draft(subscription: Subscription) -> SubscriptionDraft:
    """The draft that would make a subscription what it is, or will be once its endpoint has consented."""
    wanted = shown(subscription)
    return SubscriptionDraft(wanted, wanted.delivery_schema)


def _since_ever(filter: Filter) -> tuple[FilterSince, ...]:
    return (FilterSince(0, filter),)
