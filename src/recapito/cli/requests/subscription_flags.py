"""The flags of event subscriptions as two values: of what (the scope), and what is wanted of it (the wish)."""

from dataclasses import dataclass
from typing import Any

import typer

from recapito.cli.requests import subscription_options as flag
from recapito.cli.requests.subscription_body import Wire, dead_letter, destination, filter_change
from recapito.cli.requests.topic_body import given
from recapito.cli.toolkit import common_flags
from recapito.cli.toolkit.az_flags import flatten
from recapito.cli.toolkit.session import PROVIDER, Session, part


@dataclass(frozen=True)
class Scope:
    """Of what an event subscription is."""

    group: common_flags.Group = None
    source: flag.Source = None
    topic_name: flag.TopicName = None
    domain_name: flag.DomainName = None
    domain_topic: flag.DomainTopic = None
    system_topic: flag.SystemTopic = None

    @property
    def is_named(self) -> bool:
        """Whether it is said at all."""
        return any((self.source, self.topic_name, self.domain_name, self.system_topic))

    def of(self, session: Session) -> str:
        """The id of what is subscribed to; said in one way only."""
        ways = (self.source, self.topic_name, self.domain_name, self.system_topic)
        named = [way for way in ways if way is not None]
        if len(named) != 1 or (self.domain_topic is not None and self.domain_name is None):
            text = "say of what, once: --source-resource-id, --topic-name, --domain-name (--domain-topic-name), "
            raise typer.BadParameter(f"{text}or --system-topic-name", param_hint="--source-resource-id")
        if self.domain_name is not None:
            path = session.path("domains", self.domain_name, self.group)
            return path if self.domain_topic is None else f"{path}/topics/{part(self.domain_topic)}"
        if self.system_topic is not None:
            return session.path("systemTopics", self.system_topic, self.group)
        return session.path("topics", named[0], self.group)  # a bare name after --source-resource-id is a topic's

    def path(self, session: Session, name: str | None) -> str:
        """Where an event subscription of this name is."""
        return f"{self.of(session).rstrip('/')}{PROVIDER}/eventSubscriptions/{part(name or '')}"


@dataclass(frozen=True)
class SubscriptionFlags:
    """What `create` and `update` can say of an event subscription."""

    endpoint: flag.Endpoint = None
    endpoint_type: flag.EndpointType = None
    event_types: flag.EventTypes = None
    begins_with: flag.BeginsWith = None
    ends_with: flag.EndsWith = None
    case_sensitive: flag.CaseSensitive = None
    advanced: flag.Advanced = None
    arrays: flag.Arrays = None
    max_events: flag.MaxEvents = None
    kilobytes: flag.Kilobytes = None
    attempts: flag.Attempts = None
    ttl: flag.Ttl = None
    dead_letters: flag.DeadLetter = None
    attributes: flag.Attributes = None
    expiration: flag.Expiration = None
    labels: flag.Labels = None
    schema: flag.Schema = None
    queue_ttl: flag.QueueTtl = None

    def destination(self, kind: str | None, tenant: str | None = None, application: str | None = None) -> Wire:
        """Where events go, in batches of which size, with which headers."""
        size = (self.max_events, self.kilobytes)
        return destination(self.endpoint, kind, *size, self.attributes, tenant, application, self.queue_ttl)

    @property
    def filter(self) -> Wire:
        """The members of the filter that are named."""
        subject = (self.begins_with, self.ends_with, self.case_sensitive)
        return filter_change(self.event_types, *subject, self.advanced, self.arrays)

    @property
    def retry_policy(self) -> Wire:
        """The members of the retry policy that are named."""
        return given({"maxDeliveryAttempts": self.attempts, "eventTimeToLiveInMinutes": self.ttl})

    @property
    def other(self) -> dict[str, Any]:
        """The rest, None for what is not named."""
        return {
            "deadLetterDestination": dead_letter(self.dead_letters),
            "labels": flatten(self.labels),
            "expirationTimeUtc": self.expiration,
            "eventDeliverySchema": self.schema,
        }
