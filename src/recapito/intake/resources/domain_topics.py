"""The topics of a domain: documents of the registry. Lanes do not know them; events and subscriptions name them."""

import msgspec

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.domain.resources.topic import Topic
from recapito.intake.resources.validation import check_domain_topic_name, check_room

KIND = "domainTopic"
PAGE = 1000


class DomainTopic(msgspec.Struct, frozen=True):
    name: str
    created_at: int


_decode = msgspec.json.Decoder(DomainTopic).decode


class DomainTopics:
    """Keeps the topics of domains, at most `allowed` in each."""

    def __init__(self, registry: Registry, clock: Clock, allowed: int) -> None:
        self._registry = registry
        self._clock = clock
        self._allowed = allowed
        self._counts: dict[int, int] = {}  # by domain id, once counted

    async def find(self, domain: Topic, name: str) -> DomainTopic | None:
        """The topic of that name, without regard to case; None if it does not exist."""
        content = await self._registry.document(KIND, _key(domain, name))
        return None if content is None else _decode(content)

    async def put(self, domain: Topic, name: str) -> DomainTopic:
        """Create a topic, or return the existing one."""
        check_domain_topic_name(name)
        existing = await self.find(domain, name)
        if existing is not None:
            return existing
        count = await self._count(domain)
        check_room(count, self._allowed, "topics in this domain")
        topic = DomainTopic(name, self._clock.now())
        self._counts.pop(domain.id, None)
        await self._registry.put_document(KIND, _key(domain, name), msgspec.json.encode(topic))
        self._counts[domain.id] = count + 1
        return topic

    async def page(self, domain: Topic, after: str, limit: int) -> list[DomainTopic]:
        """Topics of a domain in the order of their lower-cased names, after a name."""
        prefix = _key(domain, "")
        documents = await self._registry.documents(KIND, prefix + after.lower(), limit)
        return [_decode(document.content) for document in documents if document.key.startswith(prefix)]

    async def remove(self, domain: Topic, name: str) -> None:
        """Remove a topic after its subscriptions."""
        self._counts.pop(domain.id, None)
        await self._registry.delete_document(KIND, _key(domain, name))

    async def remove_all(self, domain: Topic) -> None:
        """Remove all topics of a deleted domain."""
        while page := await self.page(domain, "", PAGE):
            for topic in page:
                await self.remove(domain, topic.name)

    async def _count(self, domain: Topic) -> int:
        if domain.id not in self._counts:
            count, after = 0, ""
            while page := await self.page(domain, after, PAGE):
                count += len(page)
                after = page[-1].name
            self._counts[domain.id] = count
        return self._counts[domain.id]


def _key(domain: Topic, name: str) -> str:
    return f"{domain.id}/{name.lower()}"
