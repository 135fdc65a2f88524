"""A topic: where events are published to, and what has a log. Custom, domain and system topics are all topics."""

from enum import StrEnum
from typing import Any

import msgspec

from recapito.domain.events.input_mapping import InputMapping
from recapito.domain.events.schema import InputSchema


class TopicKind(StrEnum):
    """The kinds of topics, by the names of their collections in ARM."""

    CUSTOM = "topics"
    DOMAIN = "domains"
    SYSTEM = "systemTopics"


KIND_NAMES = {TopicKind.CUSTOM: "custom", TopicKind.DOMAIN: "domain", TopicKind.SYSTEM: "system"}
"""The kinds as our own routes name them."""


class Domain(msgspec.Struct, frozen=True):
    """The properties of a domain alone: its topics may be created and deleted with their subscriptions."""

    auto_create: bool = True
    auto_delete: bool = True


class Source(msgspec.Struct, frozen=True):
    """The properties of a system topic alone: the Azure resource whose events it carries, and its type.

    An implicit one was made with the first subscription of its source, and goes with the last.
    """

    resource_id: str
    topic_type: str
    implicit: bool = False


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `id` is ours and never reused; `name` is unique in its kind, without regard to case, while it lives.

    `profile` names the topic's own behaviour profile, None is the server's; it comes from the tag
    `recapito-profile`. `version` changes with every put and is the ETag. `ip_rules` are the networks that may
    publish, none means all. `kept` is what a client asked for that has no effect here; it is shown back as it came.
    """

    id: int = 0
    version: int = 0
    kind: TopicKind = TopicKind.CUSTOM
    name: str
    azure_subscription: str
    resource_group: str
    location: str
    tags: dict[str, str] = {}
    profile: str | None = None
    input_schema: InputSchema = InputSchema.EVENT_GRID
    mapping: InputMapping | None = None
    key1: str
    key2: str
    local_auth: bool = True
    public_access: bool = True
    ip_rules: tuple[str, ...] = ()
    domain: Domain | None = None
    source: Source | None = None
    kept: dict[str, Any] = {}
    created_at: int
    modified_at: int

    @property
    def key(self) -> str:
        """By which it is found: its kind and its name, in lower case."""
        return topic_key(self.kind, self.name)

    @property
    def resource_id(self) -> str:
        """The ARM id, which begins the `topic` of every event in a domain."""
        return (
            f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.EventGrid/{self.kind}/{self.name}"
        )

    @property
    def event_topic(self) -> str:
        """The `topic` of its events outside a domain: that of system events is their source."""
        return self.resource_id if self.source is None else self.source.resource_id

    def __repr__(self) -> str:
        return f"<Topic {self.id} {self.kind}/{self.name}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("id", self.id), ("name", self.name)]  # msgspec's own would show the keys in a pretty traceback


def topic_key(kind: TopicKind, name: str) -> str:
    """By which a topic of that kind and name is found."""
    return f"{kind}/{name}".lower()
