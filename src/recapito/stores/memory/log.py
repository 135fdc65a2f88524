"""The Log and the Registry in memory: plain dicts and lists, the reference model.

They are one class, as on SQLite, for each change of the registry leaves a mark in the log. A verb checks everything
before it changes anything.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.log import Entry, EntryKind, News, NewSegment, SearchPage
from recapito.contracts.registry import Document
from recapito.domain import limits
from recapito.domain.resources.subscription import Subscription, subscription_key
from recapito.domain.resources.topic import Topic, TopicKind, topic_key
from recapito.errors import RecordDamaged
from recapito.stores import revision
from recapito.stores.memory.disk import TOPIC_ITSELF, MemoryDisk, StoredTopic

T = TypeVar("T")


class MemoryLog:
    """Log and Registry on a MemoryDisk; another one on the same disk sees exactly what was committed."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self._disk = disk or MemoryDisk()
        self.changes = 0

    def __repr__(self) -> str:
        return f"<MemoryLog {self.id[:8]}, {len(self._disk.topics)} topics, mark {self._disk.mark}>"

    @property
    def id(self) -> str:
        return self._disk.log_id

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        topics = [self._living(segment.topic) for segment in segments]
        if segments:
            self._disk.mark += 1
        return [self._append(topic, segment) for topic, segment in zip(topics, segments, strict=True)]

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        positions = await self.append(segments)
        for mark in marks:
            await self.put_document(kind, mark.key, mark.content)
        return positions

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        stored = self._disk.topics[topic]
        if not stored.first <= position <= stored.end + 1:
            raise LookupError(f"topic {topic} has positions {stored.first} to {stored.end}, not {position}")
        found: list[Entry] = []
        size = 0
        for index in range(position - stored.first, len(stored.entries)):
            entry = stored.entries[index]
            size += len(entry.columns) + len(entry.body)
            if found and size > limit_bytes:
                break
            found.append(entry)
        return found

    async def news(self, mark: int) -> News:
        disk = self._disk
        if mark > disk.mark:
            raise LookupError(f"mark {mark} is not of this log, which is at {disk.mark}")
        if mark == disk.mark:
            return News(mark, {}, frozenset(), frozenset())
        ends = {id: stored.end for id, stored in disk.topics.items() if stored.grown_in > mark}
        if mark == 0:
            return News(disk.mark, ends, frozenset(disk.topics), frozenset(disk.subscriptions))
        changes = disk.changes[bisect_left(disk.changes, (mark + 1, 0, 0)) :]
        topics = frozenset(topic for _, topic, subscription in changes if subscription == TOPIC_ITSELF)
        return News(disk.mark, ends, topics, frozenset(id for *_, id in changes if id != TOPIC_ITSELF))

    async def end(self, topic: int) -> int:
        stored = self._disk.topics.get(topic)
        return stored.end if stored else 0

    async def first(self, topic: int) -> int:
        stored = self._disk.topics.get(topic)
        return stored.first if stored else 1

    async def search(self, topic: int, text: bytes, below: int, count: int) -> SearchPage:
        stored = self._disk.topics.get(topic)
        entries = [] if stored is None else stored.entries[: max(below - stored.first, 0)][-count:]
        positions = [entry.position for entry in reversed(entries) if text in entry.columns]
        return SearchPage(positions, entries[0].position if len(entries) == count else None)

    async def size(self, topic: int, first: int, below: int) -> int:
        stored = self._disk.topics.get(topic)
        if stored is None:
            return 0
        entries = stored.entries[max(first - stored.first, 0) : max(below - stored.first, 0)]
        return sum(len(entry.columns) + len(entry.body) for entry in entries)

    async def events(self, topic: int, first: int, below: int) -> int:
        stored = self._disk.topics.get(topic)
        if stored is None:
            return 0
        entries = stored.entries[max(first - stored.first, 0) : max(below - stored.first, 0)]
        return sum(entry.events for entry in entries[: limits.COUNTED_ENTRIES])

    async def trim(self, topic: int, below: int) -> int:
        stored = self._disk.topics.get(topic)
        if stored is None:
            return 0
        count = min(max(below - stored.first, 0), len(stored.entries), limits.TRIM_SLICE)
        del stored.entries[:count]
        stored.first += count
        return count

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        id = self._disk.topic_keys.get(topic_key(kind, name))
        return None if id is None else await self.topic_by_id(id)

    async def topic_by_id(self, id: int) -> Topic | None:
        stored = self._disk.topics.get(id)
        return None if stored is None or stored.deleted else self._sound("topic", id, stored.topic)

    async def topics(self, after: str, limit: int) -> list[Topic]:
        rotten = self._disk.rotten
        sound = (key for key, id in self._disk.topic_keys.items() if ("topic", id) not in rotten)
        keys = nsmallest(limit, (key for key in sound if key > after.lower()))
        return [self._disk.topics[self._disk.topic_keys[key]].topic for key in keys]

    async def put_topic(self, topic: Topic) -> Topic:
        self.changes += 1
        stored = self._sound("topic", topic.id, self._living(topic.id)) if topic.id else None
        if self._disk.topic_keys.get(topic.key, topic.id) != topic.id:
            raise revision.name_taken("topic", topic.name)
        if stored is None:
            stored = StoredTopic(revision.create_topic(topic, self._disk.topic_ids + 1))
            self._disk.topic_ids += 1
            self._disk.topics[stored.topic.id] = stored
        else:
            changed = revision.replace_topic(stored.topic, topic)
            del self._disk.topic_keys[stored.topic.key]
            stored.topic = changed
        self._disk.topic_keys[topic.key] = stored.topic.id
        self._mark(stored, [TOPIC_ITSELF])
        return stored.topic

    async def delete_topic(self, id: int) -> None:
        self.changes += 1
        stored = self._sound("topic", id, self._living(id))
        living = [s for s in self._disk.subscriptions.values() if s.topic == id and s.deleted_position is None]
        for subscription in living:
            self._sound("subscription", subscription.id, subscription)
        del self._disk.topic_keys[stored.topic.key]
        stored.deleted = True
        position = self._mark(stored, [TOPIC_ITSELF, *(subscription.id for subscription in living)])
        for subscription in living:
            self._mark_deleted(subscription, position)
        self._remove_if_empty(stored)

    async def subscription(self, topic: int, name: str, domain_topic: str | None = None) -> Subscription | None:
        id = self._disk.subscription_keys.get((topic, subscription_key(name, domain_topic)))
        return None if id is None else await self.subscription_by_id(id)

    async def subscription_by_id(self, id: int) -> Subscription | None:
        return self._sound("subscription", id, self._disk.subscriptions.get(id))

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        rotten = self._disk.rotten
        sound = (s for s in self._disk.subscriptions.values() if ("subscription", s.id) not in rotten)
        in_order = (s for s in sound if s.id > after and topic in (None, s.topic))
        return list(islice(in_order, limit))  # ids only grow, so a dict has them in order

    async def subscription_counts(self, topics: Sequence[int]) -> dict[int, int]:
        wanted = set(topics)
        return dict(Counter(topic for topic, _ in self._disk.subscription_keys if topic in wanted))

    async def domain_topic_subscriptions(
        self, topic: int, domain_topic: str, after: str, limit: int
    ) -> list[Subscription]:
        prefix, start = subscription_key("", domain_topic), subscription_key(after, domain_topic)
        keys = self._disk.subscription_keys
        names = nsmallest(limit, (key for of, key in keys if of == topic and key.startswith(prefix) and key > start))
        ids = [keys[topic, key] for key in names]
        return [self._disk.subscriptions[id] for id in ids if ("subscription", id) not in self._disk.rotten]

    async def put_subscription(self, subscription: Subscription) -> Subscription:
        self.changes += 1
        topic = self._sound("topic", subscription.topic, self._living(subscription.topic))
        key = (subscription.topic, subscription.key)
        stored = self._living_subscription(subscription.id, subscription.topic) if subscription.id else None
        if self._disk.subscription_keys.get(key, subscription.id) != subscription.id:
            raise revision.name_taken("event subscription", subscription.name)
        position = topic.end + 1
        if stored is None:
            put = revision.create_subscription(subscription, self._disk.subscription_ids + 1, position)
            self._disk.subscription_ids += 1
        else:
            put = revision.replace_subscription(stored, subscription, position, topic.first)
            del self._disk.subscription_keys[stored.topic, stored.key]
        self._disk.subscriptions[put.id] = put
        self._disk.subscription_keys[key] = put.id
        self._mark(topic, [put.id])
        return put

    async def delete_subscription(self, id: int) -> None:
        self.changes += 1
        stored = self._disk.subscriptions[id]
        living = self._living_subscription(id, stored.topic)
        self._mark_deleted(living, self._mark(self._disk.topics[living.topic], [id]))

    async def forget(self, id: int) -> None:
        self.changes += 1
        subscription = self._sound("subscription", id, self._disk.subscriptions[id])
        if subscription.deleted_position is None:
            raise revision.not_deleted(subscription)
        topic = self._disk.topics[subscription.topic]
        del self._disk.subscriptions[id]
        self._mark(topic, [id])
        self._remove_if_empty(topic)

    async def document(self, kind: str, key: str) -> bytes | None:
        return self._sound("document", (kind, key), self._disk.documents.get((kind, key)))

    async def documents(self, kind: str, after: str, limit: int) -> list[Document]:
        rotten = self._disk.rotten
        sound = (key for of, key in self._disk.documents if of == kind and ("document", (of, key)) not in rotten)
        keys = nsmallest(limit, (key for key in sound if key > after))
        return [Document(key, self._disk.documents[kind, key]) for key in keys]

    async def put_document(self, kind: str, key: str, content: bytes) -> None:
        self.changes += 1
        self._disk.documents[kind, key] = content
        self._disk.rotten.pop(("document", (kind, key)), None)

    async def delete_document(self, kind: str, key: str) -> bool:
        self.changes += 1
        self._disk.rotten.pop(("document", (kind, key)), None)
        return self._disk.documents.pop((kind, key), None) is not None

    async def damaged_records(self) -> list[Damage]:
        return list(self._disk.rotten.values())

    def free_bytes(self) -> int:
        """The free room of the simulated disk."""
        return self._disk.free

    def _append(self, stored: StoredTopic, segment: NewSegment) -> int:
        stored.entries.append(Entry(stored.end + 1, EntryKind.SEGMENT, *segment[2:], segment.events))
        stored.grown_in = self._disk.mark
        return stored.end

    def _sound(self, table: str, id: object, record: T) -> T:
        if (table, id) in self._disk.rotten:
            raise RecordDamaged(f"The record of {table} {id} is damaged.")
        return record

    def _living(self, id: int) -> StoredTopic:
        stored = self._disk.topics[id]
        if stored.deleted:
            raise KeyError(id)
        return stored

    def _living_subscription(self, id: int, topic: int) -> Subscription:
        stored = self._sound("subscription", id, self._disk.subscriptions[id])
        if stored.deleted_position is not None or stored.topic != topic:
            raise KeyError(id)
        return stored

    def _mark_deleted(self, subscription: Subscription, position: int) -> None:
        self._disk.subscriptions[subscription.id] = replace(subscription, deleted_position=position)
        del self._disk.subscription_keys[subscription.topic, subscription.key]

    def _remove_if_empty(self, stored: StoredTopic) -> None:
        id = stored.topic.id
        if stored.deleted and not any(s.topic == id for s in self._disk.subscriptions.values()):
            del self._disk.topics[id]

    def _mark(self, stored: StoredTopic, changed: list[int]) -> int:
        """Leave a change mark in the topic's log, about these subscriptions and perhaps the topic itself."""
        self._disk.mark += 1
        self._disk.changes += [(self._disk.mark, stored.topic.id, id) for id in changed]
        stored.entries.append(Entry(stored.end + 1, EntryKind.CHANGE, b"", b""))
        stored.grown_in = self._disk.mark
        return stored.end
