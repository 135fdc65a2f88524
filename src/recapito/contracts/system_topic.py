"""The system topic over an Azure resource, as both roles look for it: there are few, so all are looked at."""

from recapito.contracts.store import Registry
from recapito.domain.resources.topic import Topic, TopicKind, topic_key

PAGE = 200
TAKEN_KIND, TAKEN = "notice", "taken"
"""The document with the number of the last notice of dispatch's that intake has taken over."""


async def system_topic_of(registry: Registry, source: str) -> Topic | None:
    """The system topic whose source is this resource, without regard to case."""
    prefix = key = topic_key(TopicKind.SYSTEM, "")
    while page := await registry.topics(key, PAGE):
        for topic in page:
            if not topic.key.startswith(prefix):
                return None
            if topic.source is not None and topic.source.resource_id.lower() == source.lower():
                return topic
        key = page[-1].key
    return None


async def has_subscription(registry: Registry, topic: Topic) -> bool:
    """Whether anybody is subscribed to a topic."""
    after = 0
    while page := await registry.subscriptions(topic.id, after, PAGE):
        if any(one.deleted_position is None for one in page):
            return True
        after = page[-1].id
    return False
