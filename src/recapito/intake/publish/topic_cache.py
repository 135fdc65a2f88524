"""Topics by kind and name, for the hot path. Intake alone writes them: what is here is never older than the store."""

from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.resources.topic import Topic, TopicKind, topic_key


class TopicCache:
    """Looks topics up by their keys; a write must `drop` its topic before it starts and after it ends."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._topics: dict[str, Topic] = {}
        self._drops = 0

    def known(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, if it is here."""
        return self._topics.get(topic_key(kind, name))

    async def find(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""
        key = topic_key(kind, name)
        topic = self._topics.get(key)
        if topic is not None:
            return topic
        drops = self._drops
        topic = await self._registry.topic(name, kind)
        if topic is not None and drops == self._drops:  # else it may have changed while it was read
            self._keep(key, topic)
        return topic

    def drop(self, key: str) -> None:
        """Forget a topic, and whatever is being read at this moment."""
        self._drops += 1
        self._topics.pop(key, None)

    def _keep(self, key: str, topic: Topic) -> None:
        if len(self._topics) >= limits.TOPIC_CACHE:
            del self._topics[next(iter(self._topics))]
        self._topics[key] = topic
