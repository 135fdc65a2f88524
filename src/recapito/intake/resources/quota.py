"""How many resources there may be (spec §10). Over it a create is a conflict; a change is always possible."""

import msgspec

from recapito.domain import limits
from recapito.domain.resources.topic import TopicKind
from recapito.errors import Conflict


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one server; `subscriptions_per_domain` counts those of the domain itself."""

    topics: int = limits.TOPICS
    domains: int = limits.TOPICS
    system_topics: int = limits.TOPICS
    topics_per_domain: int = limits.TOPICS_PER_DOMAIN
    subscriptions_per_topic: int = limits.SUBSCRIPTIONS_PER_TOPIC
    subscriptions_per_domain: int = limits.SUBSCRIPTIONS_PER_DOMAIN

    def of_kind(self, kind: TopicKind) -> int:
        """How many topics of a kind there may be."""
        return {
            TopicKind.CUSTOM: self.topics,
            TopicKind.DOMAIN: self.domains,
            TopicKind.SYSTEM: self.system_topics,
        }[kind]


DEFAULT = Quota()


def check_room(there: int, allowed: int, what: str) -> None:
    """Raise Conflict if there is no room for one more."""
    if there >= allowed:
        raise Conflict("QuotaExceeded", f"There are {there} {what} already; no more are allowed.")
