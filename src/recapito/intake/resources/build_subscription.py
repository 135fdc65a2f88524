"""What a draft makes of a subscription on a topic, under the rules of the topic's schema and profile. Pure."""

from msgspec.structs import replace

from recapito.domain.handshake.consent import shown
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic
from recapito.errors import InvalidInput
from recapito.intake.resources import rules
from recapito.intake.resources.drafts import SubscriptionDraft


def build_subscription(
    topic: Topic, profile: Profile, old: Subscription | None, draft: SubscriptionDraft, now: int
) -> Subscription:
    """The subscription as the draft wants it: new, or in place of the old one."""
    rules.check_batching(draft.batching, profile)
    rules.check_attributes(draft.attributes, profile)
    rules.check_event_types(draft.filter, topic)
    if old is None or draft.expires_at != (old.proposed or old).expires_at:
        rules.check_expiry(draft.expires_at, now)
    domain_topic = old.domain_topic if old else draft.domain_topic
    return Subscription(
        id=old.id if old else 0,
        version=old.version if old else 0,
        topic=topic.id,
        name=old.name if old else draft.name,
        domain_topic=domain_topic,
        destination=draft.destination,
        delivery_schema=rules.delivery_schema(draft.delivery_schema, topic),
        attributes=draft.attributes,
        batching=draft.batching,
        retry_policy=draft.retry_policy,
        dead_letter=draft.dead_letter,
        filters=(FilterSince(0, replace(draft.filter, domain_topic=domain_topic)),),
        labels=draft.labels,
        expires_at=draft.expires_at,
        kept=draft.kept,
        created_at=old.created_at if old else now,
        modified_at=now,
    )


def check_profile(profile: Profile, subscription: Subscription) -> None:
    """A topic can not be given a profile that lacks what one of its subscriptions uses."""
    lacks, subscription = None, shown(subscription)
    if subscription.batching.event_limit > 1 and not profile.batching:
        lacks = "output batching"
    elif subscription.attributes and not profile.custom_headers:
        lacks = "custom headers"
    if lacks is not None:
        raise InvalidInput(
            "InvalidRequest",
            f"Profile '{profile.name}' has no {lacks}, which event subscription "
            f"'{subscription.name}' of this topic uses.",
            "profile",
        )
