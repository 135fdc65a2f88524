"""Names of topics and subscriptions in a query: a query that finds nothing may have a wrong name."""

from recapito.api.operate.lanes import WALKED
from recapito.contracts.registry import Registry
from recapito.domain.resources.topic import Topic, TopicKind


async def unknown_name(registry: Registry, topic: str | None, subscription: str | None) -> str | None:
    """The first of the fields `topic` and `subscription` whose name does not exist; None if all exist."""
    topics: list[Topic | None] = [None]
    if topic is not None:
        topics = [found for kind in TopicKind if (found := await registry.topic(topic, kind)) is not None]
        if not topics:
            return "topic"
    if subscription is None:
        return None
    for one in topics:
        if await _has(registry, one, subscription):
            return None
    return "subscription"


async def _has(registry: Registry, topic: Topic | None, name: str) -> bool:
    """Whether a topic has a subscription of that name, a domain also in one of its topics; None is any topic."""
    if topic is not None and topic.kind is not TopicKind.DOMAIN:
        return await registry.subscription(topic.id, name) is not None
    after = 0
    while page := await registry.subscriptions(None if topic is None else topic.id, after, WALKED):
        if any(one.deleted_position is None and one.name.lower() == name.lower() for one in page):
            return True
        after = page[-1].id
    return False
