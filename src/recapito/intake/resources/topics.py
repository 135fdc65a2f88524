"""Topics, domains and system topics, with the groups, storage accounts and domain topics around them.

Resources change one at a time (`Changes`). A topic is refused a profile that lacks a feature one of its subscriptions
uses.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.contracts.registry import Registry, system_topic_of
from recapito.domain import limits
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.events.schema import InputSchema
from recapito.domain.profiles import profile
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind, topic_key
from recapito.errors import NotFound
from recapito.intake.resources.domain_topics import DomainTopic, DomainTopics
from recapito.intake.resources.drafts import ANY_KEYS, Keys, TopicChange, TopicDraft, topic_draft
from recapito.intake.resources.groups import Group, Groups
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.not_found import resource_missing
from recapito.intake.resources.sources import Sources, system_topic_exists
from recapito.intake.resources.storage_accounts import StorageAccount, StorageAccounts, implicit_topic
from recapito.intake.resources.validation import (
    DEFAULT_LOCATION,
    DEFAULT_QUOTA,
    UNCONDITIONAL,
    Precondition,
    Quota,
    check_mapping,
    check_profile,
    check_room,
    check_scope,
    check_source,
    check_topic_name,
    check_unmoved,
    profile_named_by,
)

KEY_BYTES = 32
NAME_BYTES = 8
PAGE = 200
_CHANGEABLE = ("tags", "local_auth", "public_access", "ip_rules", "domain", "kept")  # and the profile, by its tag


class Changes:
    """Keeps changes of resources apart: a change holds `lock`, and calls `announce` when it is stored."""

    def __init__(self, announce: Callable[[], None] = lambda: None) -> None:
        self.lock = asyncio.Lock()
        self.announce = announce


class TopicCache:
    """Topics by kind and name, for the hot path of publishing. Intake alone writes topics, so the cache is never stale.

    A write must `drop` its topic before it starts and after it ends.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._topics: dict[str, Topic] = {}
        self._drops = 0

    def cached(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        return self._topics.get(topic_key(kind, name))

    async def find(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""
        key = topic_key(kind, name)
        topic = self._topics.get(key)
        if topic is not None:
            return topic
        drops = self._drops
        topic = await self._registry.topic(name, kind)
        if topic is not None and drops == self._drops:  # otherwise it may have changed while it was read
            self._keep(key, topic)
        return topic

    def drop(self, key: str) -> None:
        """Forget a topic, and do not keep any topic that is being read at this moment."""
        self._drops += 1
        self._topics.pop(key, None)

    def _keep(self, key: str, topic: Topic) -> None:
        if len(self._topics) >= limits.TOPIC_CACHE:
            del self._topics[next(iter(self._topics))]
        self._topics[key] = topic


class Topics:
    """Creates, changes, finds and deletes topics of every kind.

    registry: the store of all resources.
    clock: the service's clock, for the times of creation and change.
    random_bytes: returns N random bytes, for access keys and names of implicit system topics.
    changes: the lock and the notice of changes, shared with `Subscriptions`.
    quota: how many topics, domains, system topics and domain topics may exist.
    default_profile: the name of the behaviour profile of topics that name none.
    handshakes: sends deletion notices to endpoints; None sends none.
    partition: the partition that these topics live in.
    sources: keeps the sources of system topics apart over all partitions; None if there is one.
    """

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        changes: Changes,
        quota: Quota = DEFAULT_QUOTA,
        default_profile: str = profile.DEFAULT,
        handshakes: Handshakes | None = None,
        partition: Partition = WHOLE,
        sources: Sources | None = None,
    ) -> None:
        self.groups = Groups(registry, clock)
        self.accounts = StorageAccounts(registry, clock)
        self.domain_topics = DomainTopics(registry, clock, quota.topics_per_domain)
        self._registry = registry
        self._clock = clock
        self._random_bytes = random_bytes
        self._default = profile.load(default_profile)
        self._changes = changes
        self._quota = quota
        self._handshakes = handshakes
        self._partition = partition
        self._sources = sources
        self._cache = TopicCache(registry)
        self._counts: dict[TopicKind, int] = {}  # number of topics, once counted

    def profile_of(self, topic: Topic) -> Profile:
        """The behaviour profile of a topic: its own, or the server's."""
        return profile.load(topic.profile) if topic.profile else self._default

    def cached(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name if the cache has it, without I/O."""
        return self._cache.cached(name, kind)

    async def find(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""
        return await self._cache.find(name, kind)

    async def get(
        self, azure_subscription: str, resource_group: str, name: str, kind: TopicKind = TopicKind.CUSTOM
    ) -> Topic:
        """The topic of that name in that group; NotFound names the group if that is missing."""
        topic = await self._cache.find(name, kind)
        if topic is None or not is_at(topic, azure_subscription, resource_group):
            await self.groups.get(azure_subscription, resource_group)
            raise resource_missing(f"Microsoft.EventGrid/{kind}", name, resource_group)
        return topic

    async def walk(self, kind: TopicKind, after: str = "") -> AsyncIterator[Topic]:
        """All topics of a kind in the order of their lower-cased names, after a name, page by page."""
        prefix = topic_key(kind, "")
        key = prefix + after.lower()
        while page := await self._registry.topics(key, PAGE):
            for topic in page:
                if not topic.key.startswith(prefix):
                    return
                yield topic
            key = page[-1].key

    async def system_topic_of(self, source: str) -> Topic | None:
        """The system topic of an Azure resource."""
        return await system_topic_of(self._registry, source)

    async def system_topic_for(self, account: StorageAccount, make: bool) -> Topic | None:
        """The system topic of a storage account. With `make` an account without one gets an implicit one."""
        topic = await self.system_topic_of(account.resource_id)
        if topic is not None or not make:
            return topic
        async with self._changes.lock:
            topic = await self.system_topic_of(account.resource_id)
            return topic or await self._put(None, self._implicit_topic(account))

    def _implicit_topic(self, account: StorageAccount) -> TopicDraft:
        """A system topic with a random name that lives in this partition."""
        while True:
            draft = implicit_topic(account, self._random_bytes(NAME_BYTES).hex())
            if self._partition.holds(draft.wanted.name):
                return draft

    async def tidy_system_topic(self, topic: Topic) -> None:
        """Delete an implicit system topic that has no subscription."""
        if topic.source is None or not topic.source.implicit:
            return
        async with self._changes.lock:
            if not await self._first_subscriptions(topic) and await self._registry.topic_by_id(topic.id) is not None:
                await self.remove(topic)
        self._changes.announce()

    async def put(self, draft: TopicDraft, precondition: Precondition = UNCONDITIONAL, keys: Keys = ANY_KEYS) -> Topic:
        """Create a topic, or change the existing one, which keeps its keys unless `keys` names others."""
        wanted = draft.wanted
        check_topic_name(wanted.name, wanted.kind)
        check_scope(wanted.azure_subscription, "subscriptionId")
        check_scope(wanted.resource_group, "resourceGroupName")
        async with self._changes.lock:
            old = await self._registry.topic(wanted.name, wanted.kind)
            precondition.check(None if old is None else old.version)
            return await self._put(old, draft, keys)

    async def change(self, topic: Topic, change: TopicChange, precondition: Precondition = UNCONDITIONAL) -> Topic:
        """Apply a PATCH: `change` makes the new draft from the draft of the topic as it is now."""
        async with self._changes.lock:
            current = await self.current(topic)
            precondition.check(current.version)
            return await self._put(current, change(topic_draft(current)))

    async def regenerate_key(self, topic: Topic, key_name: str) -> Topic:
        """Give a topic a new `key1` or `key2`; publishes with the old key are refused from now on."""
        async with self._changes.lock:
            current = await self.current(topic)
            key = self._new_key()
            return await self._store(replace(current, key1=key) if key_name == "key1" else replace(current, key2=key))

    async def delete(self, topic: Topic, precondition: Precondition = UNCONDITIONAL) -> None:
        """Delete a topic with its subscriptions, and a domain with its topics."""
        async with self._changes.lock:
            precondition.check((await self.current(topic)).version)
            await self.remove(topic)
        self._changes.announce()

    async def put_domain_topic(self, domain: Topic, name: str) -> DomainTopic:
        """Create a topic of a domain, or return the existing one."""
        async with self._changes.lock:
            return await self.domain_topics.put(await self.current(domain), name)

    async def delete_domain_topic(self, domain: Topic, name: str) -> None:
        """Delete a topic of a domain with its subscriptions."""
        async with self._changes.lock:
            while page := await self._registry.domain_topic_subscriptions(domain.id, name, "", PAGE):
                for subscription in page:
                    await self._registry.delete_subscription(subscription.id)
                self.announce_deletion(domain, page)
            await self.domain_topics.remove(domain, name)
        self._changes.announce()

    async def put_account(self, account: StorageAccount) -> StorageAccount:
        """Register a storage account, or change a registered one."""
        stored = await self.accounts.put(account)
        await self.groups.ensure(stored.azure_subscription, stored.resource_group, stored.location)
        return stored

    async def delete_account(self, account: StorageAccount) -> None:
        """Delete a storage account and its system topic."""
        await self.accounts.remove(account)
        topic = await self.system_topic_of(account.resource_id)
        if topic is not None:
            with suppress(NotFound):
                await self.delete(topic)

    async def delete_group(self, group: Group) -> None:
        """Delete a resource group with its topics and storage accounts."""
        path = group.azure_subscription, group.name
        for kind in TopicKind:
            async for topic in self.walk(kind):
                if is_at(topic, *path):
                    with suppress(NotFound):  # another request deleted it first
                        await self.delete(topic)
        after = ""
        while page := await self.accounts.page(after, PAGE):
            for account in page:
                if account.is_at(*path):
                    await self.delete_account(account)
            after = page[-1].name
        await self.groups.remove(group)

    async def current(self, topic: Topic) -> Topic:
        """The topic as it is now; NotFound if it was deleted while the caller waited for the lock."""
        current = await self._registry.topic_by_id(topic.id)
        if current is None:
            raise NotFound("ResourceNotFound", f"Topic '{topic.name}' was deleted.")
        return current

    async def remove(self, topic: Topic) -> None:
        """Delete a topic; the caller holds the lock, and announces the change."""
        informed = [] if self._handshakes is None else await self._first_subscriptions(topic)
        with self._changing(topic, -1):
            await self._registry.delete_topic(topic.id)
        if topic.kind is TopicKind.DOMAIN:
            await self.domain_topics.remove_all(topic)
        self.announce_deletion(topic, informed[: limits.DELETION_NOTICES])

    def announce_deletion(self, topic: Topic, subscriptions: Iterable[Subscription]) -> None:
        """Send a deletion notice to the endpoint of each subscription, if handshakes are on."""
        for subscription in subscriptions:
            if self._handshakes is not None:
                self._handshakes.announce_deletion(topic, subscription)

    def _new_key(self) -> str:
        return base64.b64encode(self._random_bytes(KEY_BYTES)).decode()

    async def _put(self, old: Topic | None, draft: TopicDraft, keys: Keys = ANY_KEYS) -> Topic:
        source = draft.wanted.source
        if old is not None or source is None or self._sources is None:
            return await self._put_here(old, draft, keys)
        async with self._sources.creating(source.resource_id, draft.wanted.name):
            return await self._put_here(old, draft, keys)

    async def _put_here(self, old: Topic | None, draft: TopicDraft, keys: Keys) -> Topic:
        topic = await self._new_topic(draft) if old is None else await self._changed_topic(old, draft)
        topic = replace(topic, mapping=check_mapping(topic.input_schema, draft.wanted.mapping))
        topic = replace(topic, key1=keys.key1 or topic.key1, key2=keys.key2 or topic.key2)
        await self.groups.ensure(topic.azure_subscription, topic.resource_group, topic.location)
        return await self._store(topic)

    async def _new_topic(self, draft: TopicDraft) -> Topic:
        wanted, now = draft.wanted, self._clock.now()
        if wanted.kind not in self._counts:
            self._counts[wanted.kind] = sum([1 async for _ in self.walk(wanted.kind)])
        check_room(self._counts[wanted.kind], self._quota.of_kind(wanted.kind), "topics")
        await self._check_source(wanted)
        return replace(
            wanted,
            location=draft.location or DEFAULT_LOCATION,
            profile=profile_named_by(wanted.tags),
            input_schema=draft.input_schema or InputSchema.EVENT_GRID,
            key1=self._new_key(),
            key2=self._new_key(),
            created_at=now,
            modified_at=now,
        )

    async def _changed_topic(self, old: Topic, draft: TopicDraft) -> Topic:
        check_unmoved(old, draft)
        values = {name: getattr(draft.wanted, name) for name in _CHANGEABLE}
        topic = replace(old, **values, profile=profile_named_by(draft.wanted.tags), modified_at=self._clock.now())
        if self.profile_of(topic) != self.profile_of(old):
            await self._check_subscriptions(topic)
        return topic

    async def _store(self, topic: Topic) -> Topic:
        with self._changing(topic, 1 if topic.id == 0 else 0):
            stored = await self._registry.put_topic(topic)
        self._changes.announce()
        return stored

    async def _first_subscriptions(self, topic: Topic) -> list[Subscription]:
        page = await self._registry.subscriptions(topic.id, 0, PAGE)
        return [subscription for subscription in page if subscription.deleted_position is None]

    @contextmanager
    def _changing(self, topic: Topic, more: int) -> Iterator[None]:
        """Drops the cached topic and the count before a write; the count comes back only if the write succeeds."""
        count = self._counts.pop(topic.kind, None)
        self._cache.drop(topic.key)
        try:
            yield
            if count is not None:
                self._counts[topic.kind] = count + more
        finally:
            self._cache.drop(topic.key)

    async def _check_source(self, wanted: Topic) -> None:
        """Raise unless a system topic has a source that has no other system topic."""
        if wanted.kind is not TopicKind.SYSTEM:
            return
        source = check_source(wanted.source)
        other = await self.system_topic_of(source.resource_id)
        if other is not None:
            raise system_topic_exists(other.name)

    async def _check_subscriptions(self, topic: Topic) -> None:
        """Raise unless a topic's new profile has every feature that its subscriptions use."""
        new_profile, after = self.profile_of(topic), 0
        while page := await self._registry.subscriptions(topic.id, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None:
                    check_profile(new_profile, subscription)
            after = page[-1].id


def is_at(topic: Topic, azure_subscription: str, resource_group: str | None) -> bool:
    """Whether a topic is in that Azure subscription, and in that group if one is named."""
    return topic.azure_subscription.lower() == azure_subscription.lower() and (
        resource_group is None or topic.resource_group.lower() == resource_group.lower()
    )
