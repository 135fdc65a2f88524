"""Names of topics and subscriptions in a query: a query that finds nothing may have a wrong name."""

from recapito.api.operate.lanes import WALKED
from recapito.contracts.registry import Registry
from recapito.domain.resources.topic import TopicKind


async def unknown_name(registry: Registry, topic: str | None, subscription: str | None) -> str | None:
    """The first of the fields `topic` and `subscription` whose name does not exist; None if all exist."""
    topics: list[int | None] = [None]
    if topic is not None:
        named = [await registry.topic(topic, kind) for kind in TopicKind]
        topics = [found.id for found in named if found is not None]
        if not topics:
            return "topic"
    if subscription is None:
        return None
    for id in topics:
        after = 0
        while page := await registry.subscriptions(id, after, WALKED):
            names = [each.name.lower() for each in page if each.deleted_position is None]
            if subscription.lower() in names:
                return None
            after = page[-1].id
    return "subscription"
