"""An event subscription: which events of a topic go where, how they are batched, retried and buried."""

from typing import Any

import msgspec

from recapito.domain import limits
from recapito.domain.filter import Filter
from recapito.domain.instant import MINUTE
from recapito.domain.profile import EndpointKind


class WebHook(msgspec.Struct, frozen=True, kw_only=True, tag="WebHook", tag_field="endpoint_type"):
    """A webhook. The URL's query may be a secret: show `base_url`, never `url`."""

    url: str

    @property
    def base_url(self) -> str:
        """The URL without its query."""
        return self.url.partition("?")[0]

    @property
    def endpoint_kind(self) -> EndpointKind:
        """Under which of the profile's tables this destination falls."""
        return EndpointKind.WEBHOOK

    def __repr__(self) -> str:
        return f"<WebHook {self.base_url}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("base_url", self.base_url)]  # msgspec's own would show the query in a pretty traceback


Destination = WebHook


class Batching(msgspec.Struct, frozen=True):
    """Output batching as the subscriber asked for it; off unless one of the two is given."""

    max_events: int | None = None
    preferred_kilobytes: int | None = None

    @property
    def on(self) -> bool:
        """True when the subscriber asked for batches."""
        return self.max_events is not None or self.preferred_kilobytes is not None

    @property
    def event_limit(self) -> int:
        """How many events a batch may hold. Only the size given: as many as fit (spec A8)."""
        if self.max_events is not None:
            return self.max_events
        return limits.BATCH_EVENTS[1] if self.on else limits.BATCH_EVENTS_DEFAULT

    @property
    def byte_limit(self) -> int:
        """How large a request body should be at most, unless a single event is larger."""
        return (self.preferred_kilobytes or limits.BATCH_KILOBYTES_DEFAULT) * limits.KB


class RetryPolicy(msgspec.Struct, frozen=True):
    """When delivery of an event is given up: after so many attempts or so many minutes, whichever is first."""

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
        """The name by which a vault knows the place."""
        return self.name


DeadLetterDestination = DeadLetterDirectory


class FilterSince(msgspec.Struct, frozen=True, array_like=True):
    """A filter and the log position from which on it is in force."""

    position: int
    filter: Filter


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One event subscription. `id` is never reused, the name may be; the lane has the same id.

    A segment is matched by the filter in force at its position (`filters`, ascending); destination, batching
    and policy are those of now. A deleted subscription stays until its lane has ended, with `deleted_position`.
    """

    id: int = 0
    version: int = 0
    topic: int
    name: str
    destination: Destination
    batching: Batching = Batching()
    retry_policy: RetryPolicy = RetryPolicy()
    dead_letter: DeadLetterDestination | None = None
    filters: tuple[FilterSince, ...]
    labels: tuple[str, ...] = ()
    created_position: int = 0
    deleted_position: int | None = None
    created_at: int
    modified_at: int

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
