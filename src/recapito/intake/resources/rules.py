"""What a topic or a subscription may be called and may ask for, apart from what else exists."""

import re

from recapito.domain import limits
from recapito.domain.access.egress import Egress, judge_endpoint, parse_endpoint
from recapito.domain.events.schema import DELIVERABLE, DeliverySchema, InputMapping, InputSchema
from recapito.domain.filters.filter import Filter
from recapito.domain.profiles import profile
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Batching, DeliveryAttribute
from recapito.domain.resources.topic import Source, Topic, TopicKind
from recapito.domain.resources.topic_type import TOPIC_TYPES, topic_type
from recapito.errors import Conflict, InvalidInput
from recapito.intake.resources.drafts import TopicDraft

DEFAULT_LOCATION = "local"
PROFILE_TAG = "recapito-profile"

_NAME = re.compile(r"[A-Za-z0-9-]+")
_SCOPE = re.compile(r"[A-Za-z0-9._()-]+")
_RESERVED = ("microsoft", "eventgrid", "system")


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
    """What a topic can not change once it is there: its place, its input schema, its source."""
    places = (old.azure_subscription, old.resource_group), (draft.azure_subscription, draft.resource_group)
    if [part.lower() for part in places[0]] != [part.lower() for part in places[1]]:
        raise Conflict("ResourceNameInUse", f"A topic named '{old.name}' exists in another resource group.", "name")
    if draft.location is not None and draft.location.lower() != old.location.lower():
        raise Conflict("InvalidResourceLocation", f"The topic is in '{old.location}' and can not move.", "location")
    if draft.input_schema is not None and draft.input_schema is not old.input_schema:
        raise InvalidInput(
            "InvalidRequest",
            f"The inputSchema is {old.input_schema} and can not change once the topic exists.",
            "inputSchema",
        )
    if draft.source is not None and old.source is not None:
        wanted, there = draft.source, old.source
        for name, new, now in (
            ("source", wanted.resource_id, there.resource_id),
            ("topicType", wanted.topic_type, there.topic_type),
        ):
            if new.lower() != now.lower():
                raise InvalidInput("InvalidRequest", f"The {name} of a system topic can not change.", name)


def check_source(source: Source | None) -> Source:
    """A system topic names an Azure resource of a type that publishes events."""
    if source is None:
        raise InvalidInput("InvalidRequest", "'source' and 'topicType' are required.", "source")
    kind = topic_type(source.topic_type)
    if kind is None:
        known = ", ".join(one.name for one in TOPIC_TYPES)
        raise InvalidInput("NotSupported", f"'topicType' must be one of {known}.", "topicType")
    if f"/providers/{kind.resource_type}/".lower() not in source.resource_id.lower():
        raise InvalidInput("InvalidRequest", f"'source' must be the resource id of a {kind.resource_type}.", "source")
    return source


def check_domain_topic_name(name: str) -> None:
    """3 to 128 letters, digits and hyphens."""
    _check_name(name, limits.DOMAIN_TOPIC_NAME_CHARS, "domain topic")


def check_subscription_name(name: str) -> None:
    """3 to 64 letters, digits and hyphens (spec A24)."""
    _check_name(name, limits.SUBSCRIPTION_NAME_CHARS, "event subscription")


def check_scope(name: str, target: str) -> None:
    """An Azure subscription or a resource group: it becomes a part of the ids that events carry."""
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
    """Batching is refused where the profile has none. One event a batch is none: the SDKs always send that default."""
    if batching.event_limit > 1 and not profile.batching:
        field = "maxEventsPerBatch" if batching.max_events is not None else "preferredBatchSizeInKilobytes"
        raise InvalidInput(
            "InvalidRequest", f"'{field}' can not be set: profile '{profile.name}' has no output batching.", field
        )


def check_attributes(attributes: tuple[DeliveryAttribute, ...], profile: Profile) -> None:
    """Delivery attributes are refused where the profile has no custom headers."""
    if attributes and not profile.custom_headers:
        raise InvalidInput(
            "InvalidRequest",
            f"'deliveryAttributeMappings' can not be set: profile '{profile.name}' has no custom headers.",
            "deliveryAttributeMappings",
        )


def check_mapping(schema: InputSchema, mapping: InputMapping | None) -> InputMapping | None:
    """The mapping of a topic: only the custom schema has one, and may do with an empty one."""
    if schema is InputSchema.CUSTOM:
        return mapping or InputMapping()
    if mapping is not None:
        raise InvalidInput(
            "InvalidRequest",
            f"'inputSchemaMapping' belongs to {InputSchema.CUSTOM}; the inputSchema is {schema}.",
            "inputSchemaMapping",
        )
    return None


def delivery_schema(wanted: DeliverySchema | None, topic: Topic) -> DeliverySchema:
    """What a subscription gets: what it asks for, if its topic's events can be turned into that (spec §2.4)."""
    possible = DELIVERABLE[topic.input_schema]
    if wanted is None:
        return possible[0]
    if wanted not in possible:
        raise InvalidInput(
            "InvalidRequest",
            f"The eventDeliverySchema {wanted} can not be made from the topic's inputSchema {topic.input_schema}. "
            f"Possible: {', '.join(possible)}.",
            "eventDeliverySchema",
        )
    return wanted


def check_event_types(filter: Filter, topic: Topic) -> None:
    """A system topic's event types are known, so a filter can not name others (spec §5)."""
    kind = None if topic.source is None else topic_type(topic.source.topic_type)
    if kind is None or filter.event_types is None:
        return
    known = {event.name.lower() for event in kind.events}
    for name in filter.event_types:
        if name.lower() not in known:
            raise InvalidInput("InvalidRequest", f"{kind.name} has no event type '{name[:100]}'.", "includedEventTypes")


def check_expiry(expires_at: int | None, now: int) -> None:
    """An expiration time lies ahead."""
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("InvalidRequest", "Invalid expiration time. It must lie in the future.", "expirationTimeUtc")


def check_endpoint(url: str, egress: Egress) -> None:
    """A webhook's URL must be one that could be dialled; names are judged again at every dial."""
    endpoint = parse_endpoint(url)
    refused = judge_endpoint(endpoint, egress)
    if refused is not None:
        closed = judge_endpoint(endpoint, Egress.LOCAL) is not None
        allow = "" if closed else ", or serve with --egress local (setting delivery.egress)"
        message = f"The endpoint is {refused}; this server does not deliver there. Choose another endpoint{allow}."
        raise InvalidInput("InvalidEndpoint", message, "endpointUrl")


def check_protection(hook: WebHook, signs_tokens: bool) -> None:
    """A webhook that an application protects needs a token, of an issuer of our own or of Microsoft Entra."""
    if hook.application is not None and not signs_tokens:
        raise InvalidInput(
            "NotSupported",
            "This server has no token issuer of its own, so it can not authenticate to a protected webhook; with the"
            " setting delivery.webhook_tokens = 'entra' it could, by tokens of Microsoft Entra.",
            "azureActiveDirectoryApplicationIdOrUri",
        )


def _check_name(name: str, chars: tuple[int, int], what: str) -> None:
    least, most = chars
    if not (least <= len(name) <= most and _NAME.fullmatch(name)):
        raise InvalidInput(
            "InvalidRequest", f"The {what} name must be {least} to {most} letters, digits and hyphens.", "name"
        )
