"""Topics of a test: published to by the test or by the program under test, and subscribed to by receivers."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from recapito.domain.delivery.headers import SAS_KEY
from recapito.domain.events.schema import EventParts, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.testing.client import LocalClient
from recapito.testing.clock import ServerClock
from recapito.testing.receiver import Receiver
from recapito.testing.subscription import Subscription


class Topic:
    """A topic. `endpoint` and `key` are for the Event Grid client of the program under test."""

    def __init__(
        self, client: LocalClient, clock: ServerClock, published: dict[str, datetime], shown: Mapping[str, Any]
    ) -> None:
        self.name: str = shown["name"]
        self.id: str = shown["id"]
        self.endpoint: str = shown["properties"]["endpoint"]
        self.input_schema: str = shown["properties"]["inputSchema"]
        self._schema = INPUT_SCHEMAS[InputSchema(self.input_schema)]
        self.key: str = client.arm("POST", f"{self.id}/listKeys")["key1"]
        self._client = client
        self._clock = clock
        self._published = published
        self._subscriptions = 0

    def __repr__(self) -> str:
        return f"<Topic {self.name} at {self.endpoint}>"

    def publish(self, type: str, data: Any = None, *, subject: str = "test", id: str | None = None, **more: Any) -> str:
        """Publish one event, made from its type and data in the topic's schema; its id. `more` are other fields."""
        compose = self._schema.compose
        if compose is None:
            raise ValueError("A custom schema has fields that only the test knows: use publish_events.")
        now = self._clock.now.isoformat()
        event = compose(EventParts(id or str(uuid.uuid4()), type, subject, now, data, "/test", "1"))
        return self.publish_events({**event, **more})[0]

    def publish_events(self, *events: Mapping[str, Any]) -> list[str]:
        """Publish events as they are, in one request; the ids of those that have one."""
        path = "/" + self.endpoint.split("/", 3)[3]
        ids = [str(event["id"]) for event in events if "id" in event]
        now = self._clock.now
        self._client.call("POST", path, events, {SAS_KEY: self.key, "Content-Type": self._schema.array_type})
        self._published.update(dict.fromkeys(ids, now))
        return ids

    def subscribe(
        self,
        endpoint: Receiver | str,
        *,
        name: str | None = None,
        max_delivery_attempts: int | None = None,
        event_ttl: int | None = None,
        dead_letter: bool = False,
        included_event_types: Sequence[str] | None = None,
        subject_begins_with: str | None = None,
        subject_ends_with: str | None = None,
        advanced_filters: Sequence[Mapping[str, Any]] | None = None,
        event_delivery_schema: str | None = None,
        max_events_per_batch: int | None = None,
        preferred_batch_size_in_kilobytes: int | None = None,
        delivery_attributes: Mapping[str, str] | None = None,
    ) -> Subscription:
        """Subscribe a receiver, or a URL. The names are those of az's flags; `event_ttl` is in minutes.

        `advanced_filters` are written as ARM has them, `delivery_attributes` are fixed headers.
        """
        self._subscriptions += 1
        name = name or f"test-{self._subscriptions}"
        hook = {
            "endpointUrl": endpoint if isinstance(endpoint, str) else endpoint.url,
            "maxEventsPerBatch": max_events_per_batch,
            "preferredBatchSizeInKilobytes": preferred_batch_size_in_kilobytes,
            "deliveryAttributeMappings": [_attribute(*pair) for pair in (delivery_attributes or {}).items()] or None,
        }
        filter = {
            "includedEventTypes": None if included_event_types is None else list(included_event_types),
            "subjectBeginsWith": subject_begins_with,
            "subjectEndsWith": subject_ends_with,
            "advancedFilters": None if advanced_filters is None else list(advanced_filters),
        }
        retry = {"maxDeliveryAttempts": max_delivery_attempts, "eventTimeToLiveInMinutes": event_ttl}
        container = f"letters-{uuid.uuid4().hex}"  # never one of another test
        letters = {"endpointType": "Directory", "properties": {"name": container}}
        properties = {
            "destination": {"endpointType": "WebHook", "properties": _given(hook)},
            "filter": _given(filter),
            "retryPolicy": _given(retry) or None,
            "deadLetterDestination": letters if dead_letter else None,
            "eventDeliverySchema": event_delivery_schema,
        }
        path = f"{self.id}/eventSubscriptions/{name}"
        self._client.arm("PUT", path, {"properties": _given(properties)})
        return Subscription(self._client, self._clock, self.name, name, path, dead_letter)


def topic_body(
    input_schema: str, profile: str | None, input_schema_mapping: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The body of a topic, as ARM takes it."""
    properties = {"inputSchema": input_schema, "inputSchemaMapping": input_schema_mapping}
    tags = {} if profile is None else {"recapito-profile": profile}
    return {"location": "local", "tags": tags, "properties": _given(properties)}


def _attribute(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "type": "Static", "properties": {"value": value, "isSecret": False}}


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
