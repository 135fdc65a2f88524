"""An event subscription: its filter, destination, batching, retry policy and dead-letter destination."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from recapito.domain import limits
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.filters.filter import Filter
from recapito.domain.instant import MINUTE
from recapito.domain.resources.delivery_options import NO_OPTIONS, DeliveryOptions
from recapito.domain.resources.destination import Destination
from recapito.domain.resources.resource_id import container_id


class Batching(msgspec.Struct, frozen=True):
    """Output batching as the subscriber asked for it; off unless more than one event may go into a request."""

    max_events: int | None = None
    preferred_kilobytes: int | None = None

    @property
    def on(self) -> bool:
        """True when the subscriber asked for batches. Microsoft's SDKs always send 1 and 64, which is no batching."""
        return self.event_limit > 1

    @property
    def event_limit(self) -> int:
        """The most events of a batch. If only the size is given, as many as fit (spec A8)."""
        if self.max_events is not None:
            return self.max_events
        return limits.BATCH_EVENTS_DEFAULT if self.preferred_kilobytes is None else limits.BATCH_EVENTS[1]

    @property
    def byte_limit(self) -> int:
        """The most bytes of a request body, unless a single event is larger."""
        return (self.preferred_kilobytes or limits.BATCH_KILOBYTES_DEFAULT) * limits.KB


class RetryPolicy(msgspec.Struct, frozen=True):
    """The end of delivery: after `max_attempts` attempts or `ttl_minutes` minutes, whichever is first."""

    max_attempts: int = limits.ATTEMPTS_DEFAULT
    ttl_minutes: int = limits.TTL_MINUTES_DEFAULT

    @property
    def ttl_ns(self) -> int:
        """The time to live as a duration."""
        return self.ttl_minutes * MINUTE

    @property
    def is_default(self) -> bool:
        """Only under the default policy may a retry be skipped: any other asks for determined behaviour."""
        return self == RetryPolicy()


class DeadLetterDirectory(msgspec.Struct, frozen=True, tag="Directory", tag_field="endpoint_type"):
    """Dead letters go to `deadletters/<name>/` of the data directory."""

    name: str

    @property
    def container(self) -> str:
        """The name of the container for a vault."""
        return self.name


class DeadLetterBlobs(msgspec.Struct, frozen=True, tag="StorageBlob", tag_field="endpoint_type"):
    """Dead letters go to a blob container of a storage account, which is named by its ARM id."""

    account: str
    container_name: str

    @property
    def container(self) -> str:
        """The name of the container for a vault."""
        return container_id(self.account, self.container_name).lower()


DeadLetterDestination = DeadLetterDirectory | DeadLetterBlobs


class StaticAttribute(msgspec.Struct, frozen=True, tag="Static", tag_field="type"):
    """A header of every delivery with a fixed value; a secret value is shown on demand only."""

    name: str
    value: str
    secret: bool = False

    def __repr__(self) -> str:
        return f"<StaticAttribute {self.name}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name)]


class DynamicAttribute(msgspec.Struct, frozen=True, tag="Dynamic", tag_field="type"):
    """A header of every delivery, with a value from the event: a path into it as it was published."""

    name: str
    source: str


DeliveryAttribute = StaticAttribute | DynamicAttribute


class Handshake(msgspec.Struct, frozen=True):
    """The consent of an endpoint that is still missing: a request with this code before `until` gives it.

    `note` is the reason for people, without a secret.
    """

    code: str
    until: int
    note: str = ""

    def __repr__(self) -> str:
        return f"<Handshake until {self.until}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("until", self.until)]


class FilterSince(msgspec.Struct, frozen=True, array_like=True):
    """A filter and the log position from which on it is in force."""

    position: int
    filter: Filter


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One event subscription. `id` is never reused, the name may be; the lane has the same id.

    A segment is matched by the filter in force at its position (`filters`, ascending); destination, batching
    and policy are those of now. A deleted subscription stays until its lane has ended, with `deleted_position`.
    In a domain `domain_topic` is the topic that it belongs to; None is all of them.

    While an endpoint has not consented, `handshake` holds the code and `proposed` is the subscription as it will be
    afterwards. Lanes ignore both: until then the former subscription is in force, or one that takes no events.
    `kept` are properties from clients that have no effect here; they are shown back unchanged. `own_options` are ours,
    and stored only where they are set: read `options`.
    """

    id: int = 0
    version: int = 0
    topic: int
    name: str
    domain_topic: str | None = None
    destination: Destination
    delivery_schema: DeliverySchema = DeliverySchema.EVENT_GRID
    attributes: tuple[DeliveryAttribute, ...] = ()
    batching: Batching = Batching()
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    filters: tuple[FilterSince, ...]
    labels: tuple[str, ...] = ()
    expires_at: int | None = None
    handshake: Handshake | None = None
    proposed: "Subscription | None" = None
    kept: dict[str, Any] = {}
    own_options: DeliveryOptions | UnsetType = UNSET
    created_position: int = 0
    deleted_position: int | None = None
    created_at: int
    modified_at: int

    @property
    def key(self) -> str:
        """Its key on its topic, in lower case; each domain topic has its own names."""
        return subscription_key(self.name, self.domain_topic)

    @property
    def options(self) -> DeliveryOptions:
        """Its options that Event Grid does not have."""
        return NO_OPTIONS if self.own_options is UNSET else self.own_options

    @property
    def filter(self) -> Filter:
        """The filter in force now."""
        return self.filters[-1].filter

    def filter_at(self, position: int) -> Filter:
        """The filter in force at a position of the topic's log."""
        if len(self.filters) == 1:
            return self.filters[0].filter
        for since in reversed(self.filters):
            if since.position <= position:
                return since.filter
        return self.filters[0].filter

    def __repr__(self) -> str:
        return f"<Subscription {self.id} {self.name} of topic {self.topic}>"


def subscription_key(name: str, domain_topic: str | None) -> str:
    """The key of a subscription on its topic."""
    return (name if domain_topic is None else f"{domain_topic}/{name}").lower()
