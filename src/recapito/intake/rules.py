"""What a topic or a subscription may be called and may ask for, apart from what else exists."""

import re

from recapito.domain import limits, profile
from recapito.domain.egress import Egress, judge_endpoint, parse_endpoint
from recapito.domain.profile import Profile
from recapito.domain.subscription import Batching
from recapito.errors import InvalidInput

PROFILE_TAG = "recapito-profile"

_NAME = re.compile(r"[A-Za-z0-9-]+")
_SCOPE = re.compile(r"[A-Za-z0-9._()-]+")
_RESERVED = ("microsoft", "eventgrid", "system")


def check_topic_name(name: str) -> None:
    """3 to 50 letters, digits and hyphens, not starting with a word that Event Grid keeps for itself (spec §7)."""
    _check_name(name, limits.TOPIC_NAME_CHARS, "topic")
    if name.lower().startswith(_RESERVED):
        raise InvalidInput(
            "InvalidRequest", "A topic name must not start with 'Microsoft', 'EventGrid' or 'System'.", "name"
        )


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


def check_endpoint(url: str, egress: Egress) -> None:
    """A webhook's URL must be one that could be dialled; names are judged again at every dial."""
    refused = judge_endpoint(parse_endpoint(url), egress)
    if refused is not None:
        raise InvalidInput(
            "InvalidEndpoint", f"The endpoint is {refused}; this server does not deliver there.", "endpointUrl"
        )


def _check_name(name: str, chars: tuple[int, int], what: str) -> None:
    least, most = chars
    if not (least <= len(name) <= most and _NAME.fullmatch(name)):
        raise InvalidInput(
            "InvalidRequest", f"The {what} name must be {least} to {most} letters, digits and hyphens.", "name"
        )
