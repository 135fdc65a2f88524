"""The rules of resources: preconditions, quotas, names, and the settings of topics and subscriptions.

Everything here is pure: a function returns, or raises the error that the caller sees.
"""

import re
from typing import NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge_endpoint, parse_endpoint
from recapito.domain.delivery.forwarding import check_forward
from recapito.domain.events.input_mapping import InputMapping
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.filters.filter import Filter
from recapito.domain.handshake.consent import shown
from recapito.domain.profiles import profile
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.destination import EventGrid, WebHook, profile_for
from recapito.domain.resources.subscription import Batching, DeliveryAttribute, FilterSince, Subscription
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.domain.resources.topic_type import TOPIC_TYPES, topic_type
from recapito.errors import Conflict, InvalidInput, PreconditionFailed
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft

ANY = "*"
DEFAULT_LOCATION = "local"
PROFILE_TAG = "recapito-profile"

_NAME = re.compile(r"[A-Za-z0-9-]+")
_SCOPE = re.compile(r"[A-Za-z0-9._()-]+")
_RESERVED = ("microsoft", "eventgrid", "system")


class Precondition(NamedTuple):
    """The `If-Match` and `If-None-Match` of a request; a resource's ETag is its version. No tags always hold."""

    match: tuple[str, ...] = ()
    none_match: tuple[str, ...] = ()

    def check(self, version: int | None) -> None:
        """Raise PreconditionFailed unless the version fits; None is the version of a resource that does not exist."""
        if self.match and not _is_among(version, self.match):
            raise PreconditionFailed(
                "PreconditionFailed", "The resource does not exist, or changed since it was read.", "If-Match"
            )
        if self.none_match and _is_among(version, self.none_match):
            raise PreconditionFailed("PreconditionFailed", "The resource exists already.", "If-None-Match")


UNCONDITIONAL = Precondition()


def _is_among(version: int | None, tags: tuple[str, ...]) -> bool:
    return version is not None and (ANY in tags or str(version) in tags)


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many resources one server may have (spec §10). Beyond it a create is a conflict; a change is always possible.

    `subscriptions_per_domain` counts the subscriptions to the domain itself.
    """

    topics: int = limits.TOPICS
    domains: int = limits.TOPICS
    system_topics: int = limits.TOPICS
    topics_per_domain: int = limits.TOPICS_PER_DOMAIN
    subscriptions_per_topic: int = limits.SUBSCRIPTIONS_PER_TOPIC
    subscriptions_per_domain: int = limits.SUBSCRIPTIONS_PER_DOMAIN

    def of_kind(self, kind: TopicKind) -> int:
        """The number of topics of a kind that may exist."""
        return {
            TopicKind.CUSTOM: self.topics,
            TopicKind.DOMAIN: self.domains,
            TopicKind.SYSTEM: self.system_topics,
        }[kind]


DEFAULT_QUOTA = Quota()


def check_room(count: int, allowed: int, what: str) -> None:
    """Raise Conflict unless one more fits."""
    if count >= allowed:
        raise Conflict("QuotaExceeded", f"There are {count} {what} already; no more are allowed.")


def check_topic_name(name: str, kind: TopicKind = TopicKind.CUSTOM) -> None:
    """3 to 50 letters, digits and hyphens, not starting with a word that Event Grid keeps for itself (spec §7)."""
    if kind is TopicKind.SYSTEM:
        _check_name(name, limits.SYSTEM_TOPIC_NAME_CHARS, "system topic")
        return
    _check_name(name, limits.TOPIC_NAME_CHARS, "topic" if kind is TopicKind.CUSTOM else "domain")
    if name.lower().startswith(_RESERVED):
        raise InvalidInput(
            "InvalidRequest", "A topic name must not start with 'Microsoft', 'EventGrid' or 'System'.", "name"
        )


def check_unmoved(old: Topic, draft: TopicDraft) -> None:
    """Raise if a draft moves an existing topic, or changes its input schema or source."""
    wanted = draft.wanted
    groups = (old.azure_subscription, old.resource_group), (wanted.azure_subscription, wanted.resource_group)
    if [part.lower() for part in groups[0]] != [part.lower() for part in groups[1]]:
        raise Conflict("ResourceNameInUse", f"A topic named '{old.name}' exists in another resource group.", "name")
    if draft.location is not None and draft.location.lower() != old.location.lower():
        raise Conflict("InvalidResourceLocation", f"The topic is in '{old.location}' and cannot move.", "location")
    if draft.input_schema is not None and draft.input_schema is not old.input_schema:
        raise InvalidInput(
            "InvalidRequest",
            f"The inputSchema is {old.input_schema} and cannot change once the topic exists.",
            "inputSchema",
        )
    if wanted.source is not None and old.source is not None:
        for name, new, current in (
            ("source", wanted.source.resource_id, old.source.resource_id),
            ("topicType", wanted.source.topic_type, old.source.topic_type),
        ):
            if new.lower() != current.lower():
                raise InvalidInput("InvalidRequest", f"The {name} of a system topic cannot change.", name)


def check_source(source: Source | None) -> Source:
    """A system topic names an Azure resource of a type that publishes events."""
    if source is None:
        raise InvalidInput("InvalidRequest", "'source' and 'topicType' are required.", "source")
    kind = topic_type(source.topic_type)
    if kind is None:
        raise InvalidInput(
            "NotSupported",
            f"There is no topic type '{source.topic_type[:100]}'; `recapito topic-type list` has all"
            f" {len(TOPIC_TYPES)}.",
            "topicType",
        )
    if not kind.may_have(source.resource_id):
        raise InvalidInput("InvalidRequest", f"'source' must be the resource id of a {kind.resource_type}.", "source")
    return source


def check_domain_topic_name(name: str) -> None:
    """3 to 128 letters, digits and hyphens."""
    _check_name(name, limits.DOMAIN_TOPIC_NAME_CHARS, "domain topic")


def check_subscription_name(name: str) -> None:
    """3 to 64 letters, digits and hyphens (spec A24)."""
    _check_name(name, limits.SUBSCRIPTION_NAME_CHARS, "event subscription")


def check_scope(name: str, target: str) -> None:
    """The name of an Azure subscription or a resource group, which becomes a part of the ids that events carry."""
    least, most = limits.SCOPE_CHARS
    if not (least <= len(name) <= most and _SCOPE.fullmatch(name)):
        raise InvalidInput(
            "InvalidRequest",
            f"'{target}' must be {least} to {most} letters, digits and the characters - . _ ( ).",
            target,
        )


def profile_named_by(tags: dict[str, str]) -> str | None:
    """The profile that a topic's tags name, if any; tag names compare without case, as Azure's do."""
    named = next((value for tag, value in tags.items() if tag.lower() == PROFILE_TAG), None)
    return None if named is None else profile.load(named).name


def check_batching(batching: Batching, profile: Profile) -> None:
    """Refuse batching where the profile has none. One event per batch is allowed: the SDKs always send that default."""
    if batching.event_limit > 1 and not profile.batching:
        field = "maxEventsPerBatch" if batching.max_events is not None else "preferredBatchSizeInKilobytes"
        raise InvalidInput(
            "InvalidRequest", f"'{field}' cannot be set: profile '{profile.name}' has no output batching.", field
        )


def check_attributes(attributes: tuple[DeliveryAttribute, ...], profile: Profile) -> None:
    """Refuse delivery attributes where the profile has no custom headers."""
    if attributes and not profile.custom_headers:
        raise InvalidInput(
            "InvalidRequest",
            f"'deliveryAttributeMappings' cannot be set: profile '{profile.name}' has no custom headers.",
            "deliveryAttributeMappings",
        )


def check_mapping(schema: InputSchema, mapping: InputMapping | None) -> InputMapping | None:
    """The mapping of a topic: only the custom schema has one, by default an empty one."""
    if INPUT_SCHEMAS[schema].mapped:
        return mapping or InputMapping()
    if mapping is not None:
        raise InvalidInput(
            "InvalidRequest",
            f"'inputSchemaMapping' belongs to {InputSchema.CUSTOM}; the inputSchema is {schema}.",
            "inputSchemaMapping",
        )
    return None


def delivery_schema(wanted: DeliverySchema | None, topic: Topic) -> DeliverySchema:
    """The schema that a subscription asks for, if its topic's events convert to it, or the default one (spec §2.4)."""
    possible = tuple(INPUT_SCHEMAS[topic.input_schema].conversions)
    if wanted is None:
        return possible[0]
    if wanted not in possible:
        raise InvalidInput(
            "InvalidRequest",
            f"The eventDeliverySchema {wanted} cannot be made from the topic's inputSchema {topic.input_schema}. "
            f"Possible: {', '.join(possible)}.",
            "eventDeliverySchema",
        )
    return wanted


def check_event_types(filter: Filter, topic: Topic) -> None:
    """Raise if a filter names an event type that the system topic does not have (spec §5)."""
    kind = None if topic.source is None else topic_type(topic.source.topic_type)
    if kind is None or filter.event_types is None:
        return
    names = {event.name.lower() for event in kind.events}
    for name in filter.event_types:
        if name.lower() not in names:
            raise InvalidInput("InvalidRequest", f"{kind.name} has no event type '{name[:100]}'.", "includedEventTypes")


def check_expiry(expires_at: int | None, now: int) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("InvalidRequest", "Invalid expiration time. It must lie in the future.", "expirationTimeUtc")


def check_endpoint(url: str, egress: Egress) -> None:
    """Refuse a URL that this server never dials. Host names are judged again at every dial."""
    endpoint = parse_endpoint(url)
    objection = judge_endpoint(endpoint, egress)
    if objection is not None:
        closed = judge_endpoint(endpoint, Egress.LOCAL) is not None
        allow = "" if closed else ", or serve with --egress local (setting delivery.egress)"
        message = f"The endpoint is {objection}; this server does not deliver there. Choose another endpoint{allow}."
        raise InvalidInput("InvalidEndpoint", message, "endpointUrl")


def check_protection(hook: WebHook, signs_tokens: bool) -> None:
    """Refuse a webhook that an application protects if this server gets no tokens for it."""
    if hook.application is not None and not signs_tokens:
        raise InvalidInput(
            "NotSupported",
            "This server has no token issuer of its own, so it cannot authenticate to a protected webhook. Set"
            " delivery.webhook_tokens = 'entra' to use tokens of Microsoft Entra.",
            "azureActiveDirectoryApplicationIdOrUri",
        )


def check_profile(profile: Profile, subscription: Subscription) -> None:
    """Raise if a topic's new profile lacks a feature that this subscription of it uses, or will use after consent."""
    feature, subscription = None, shown(subscription)
    profile = profile_for(subscription.destination, profile)
    if subscription.batching.event_limit > 1 and not profile.batching:
        feature = "output batching"
    elif subscription.attributes and not profile.custom_headers:
        feature = "custom headers"
    if feature is not None:
        raise InvalidInput(
            "InvalidRequest",
            f"Profile '{profile.name}' has no {feature}, which event subscription "
            f"'{subscription.name}' of this topic uses.",
            "profile",
        )


def build_subscription(
    topic: Topic, profile: Profile, old: Subscription | None, draft: SubscriptionDraft, now: int
) -> Subscription:
    """Check a draft under the topic's schema and profile, and make it a new subscription, or the successor of `old`.

    A successor keeps the id, version, name, options and time of creation. An expiration time is checked only if it
    changes.
    """
    wanted, schema = draft.wanted, delivery_schema(draft.delivery_schema, topic)
    profile = profile_for(wanted.destination, profile)
    if isinstance(wanted.destination, EventGrid):
        check_forward(wanted.destination, schema, topic)
    check_batching(wanted.batching, profile)
    check_attributes(wanted.attributes, profile)
    check_event_types(wanted.filter, topic)
    if old is None or wanted.expires_at != shown(old).expires_at:
        check_expiry(wanted.expires_at, now)
    named = wanted if old is None else old
    return replace(
        wanted,
        id=0 if old is None else old.id,
        version=0 if old is None else old.version,
        topic=topic.id,
        name=named.name,
        domain_topic=named.domain_topic,
        delivery_schema=schema,
        filters=(FilterSince(0, replace(wanted.filter, domain_topic=named.domain_topic)),),
        own_options=UNSET if old is None else old.own_options,
        handshake=None,
        proposed=None,
        created_position=0,
        deleted_position=None,
        created_at=now if old is None else old.created_at,
        modified_at=now,
    )


def _check_name(name: str, chars: tuple[int, int], what: str) -> None:
    least, most = chars
    if not (least <= len(name) <= most and _NAME.fullmatch(name)):
        raise InvalidInput(
            "InvalidRequest", f"The {what} name must be {least} to {most} letters, digits and hyphens.", "name"
        )
