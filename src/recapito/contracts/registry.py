"""The contract of the Registry: topics, subscriptions and all other resources. Intake writes it.

At the end are three queries that both roles make of it, and the document by which intake acknowledges notices.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from recapito.contracts.damage import Damage
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind, topic_key


class Document(NamedTuple):
    """A resource that no lane depends on. The registry stores its content without reading it."""

    key: str
    content: bytes


class Registry(Protocol):
    """Topics, subscriptions and documents.

    Each put, delete and forget of a topic or a subscription leaves a change mark in the topic's log, in the same
    commit. Documents are all other resources; they leave no mark. Lists leave out damaged records. A verb that needs a
    damaged record, or would change it, raises RecordDamaged; an append needs the record of where its topic's log ends.
    """

    @property
    def changes(self) -> int:
        """The number of puts, deletes and forgets that were begun on this object; an `append_marked` counts too.

        Intake writes through one object: while its number is the same, everything that intake has read is still true.
        """

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""

    async def topic_by_id(self, id: int) -> Topic | None:
        """The topic of that id; None if it was deleted."""

    async def topics(self, after: str, limit: int) -> list[Topic]:
        """Topics of all kinds in the order of their keys, from the first key after `after` on."""

    async def put_topic(self, topic: Topic) -> Topic:
        """Create a topic (id 0: the registry gives it a new id) or replace one; `version` grows by one.

        Creating under a name that is taken, or replacing with another `version` than the stored one: Conflict.
        """

    async def delete_topic(self, id: int) -> None:
        """Delete a topic and mark its subscriptions deleted. Its log stays readable until they are forgotten."""

    async def subscription(self, topic: int, name: str, domain_topic: str | None = None) -> Subscription | None:
        """The subscription of that name, without regard to case; None if it was deleted."""

    async def subscription_by_id(self, id: int) -> Subscription | None:
        """The subscription of that id, a deleted one included, a forgotten one not."""

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        """Subscriptions in the order of their ids, from the first id after `after` on, deleted ones included."""

    async def subscription_counts(self, topics: Sequence[int]) -> dict[int, int]:
        """The number of subscriptions of each topic, those of domain topics included, deleted ones not.

        A topic without any has no entry.
        """

    async def domain_topic_subscriptions(
        self, topic: int, domain_topic: str, after: str, limit: int
    ) -> list[Subscription]:
        """Subscriptions of one domain topic, without deleted ones, in the order of their lower-cased names."""

    async def put_subscription(self, subscription: Subscription) -> Subscription:
        """Create (id 0) or replace a subscription; its position in the log is that of the change mark.

        Creating gives a new id and sets `created_position` and the position of its one filter. Replacing keeps both
        and, if `filters[-1].filter` of the argument differs from the stored one, adds it in force from the mark on. A
        taken name or another `version` than the stored one: Conflict. A topic that does not exist: KeyError.
        """

    async def delete_subscription(self, id: int) -> None:
        """Mark a subscription deleted at the position of its change mark; its name is free again."""

    async def forget(self, id: int) -> None:
        """Remove a deleted subscription for good. A deleted topic goes, with its log, after its last subscription."""

    async def document(self, kind: str, key: str) -> bytes | None:
        """The content of a document."""

    async def documents(self, kind: str, after: str, limit: int) -> list[Document]:
        """Documents of a kind in the order of their keys, from the first key after `after` on."""

    async def put_document(self, kind: str, key: str, content: bytes) -> None:
        """Create or replace a document."""

    async def delete_document(self, kind: str, key: str) -> bool:
        """Remove a document and return whether it existed."""

    async def damaged_records(self) -> list[Damage]:
        """Topics, subscriptions and documents that a read found damaged and that are damaged still.

        `topic` is the id of a topic, or of the topic of a subscription; `lane` is the id of a subscription. These
        records stay where they are.
        """


TAKEN_KIND, TAKEN = "notice", "taken"
"""Kind and key of the document by which intake acknowledges the notices of dispatch.

Its content is a decimal number. Dispatch keeps a notice in the ledger for each dead-letter blob of an account whose
system topic has a subscription, or of any account if the topic may be in another partition; notices have growing
numbers. Intake appends the events of some notices and puts the
number of the last one here, in one commit. Dispatch reads the document and passes the number to `Ledger.written`, which
removes the notices up to it. So a notice is removed only after its event is stored, and is published once; if this
document is damaged, intake puts 0 and publishes the kept notices once more. Of several partitions, intake puts a number
here when every partition has taken the notices up to it; each has a document of this kind for each partition that it
takes notices from.
"""

_PAGE = 200


async def system_topics(registry: Registry) -> AsyncIterator[tuple[Topic, str]]:
    """All system topics, of which there are few, each with the resource id of its source."""
    prefix = key = topic_key(TopicKind.SYSTEM, "")
    while page := await registry.topics(key, _PAGE):
        for topic in page:
            if not topic.key.startswith(prefix):
                return
            if topic.source is not None:
                yield topic, topic.source.resource_id
        key = page[-1].key


async def system_topic_of(registry: Registry, source: str) -> Topic | None:
    """The system topic whose source is this Azure resource, without regard to case."""
    async for topic, resource_id in system_topics(registry):
        if resource_id.lower() == source.lower():
            return topic
    return None


async def has_subscription(registry: Registry, topic: Topic) -> bool:
    """Whether a topic has a subscription that is not deleted."""
    after = 0
    while page := await registry.subscriptions(topic.id, after, _PAGE):
        if any(subscription.deleted_position is None for subscription in page):
            return True
        after = page[-1].id
    return False
