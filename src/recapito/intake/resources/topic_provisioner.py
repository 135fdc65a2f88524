"""The half of the Provisioner that keeps topics, domains and system topics, and the groups that they are in."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.contracts.registry import Registry, system_topic_of
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.events.schema import InputSchema
from recapito.domain.profiles import profile
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind, topic_key
from recapito.errors import Conflict, NotFound
from recapito.intake.publish.topic_cache import TopicCache
from recapito.intake.resources import rules
from recapito.intake.resources.build_subscription import check_profile
from recapito.intake.resources.connection_required import Find, nowhere
from recapito.intake.resources.domain_topics import DomainTopics
from recapito.intake.resources.drafts import TopicChange, TopicDraft, topic_draft
from recapito.intake.resources.groups import Group, Groups
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.not_found import resource_missing
from recapito.intake.resources.precondition import UNCONDITIONAL, Precondition
from recapito.intake.resources.quota import DEFAULT as DEFAULT_QUOTA
from recapito.intake.resources.quota import Quota, check_room
from recapito.intake.resources.storage_accounts import StorageAccount, StorageAccounts, implicit_topic

KEY_BYTES = 32
NAME_BYTES = 8
PAGE = 200


class TopicProvisioner:
    """Keeps the topics. `random_bytes` is where keys come from; `on_change` wakes whoever must know.

    `on_expiry` is told of every subscription that has an expiration time. `signs_tokens` says whether webhooks that an
    application protects can be served; `find_connection` how a resource is reached that is named by its id.
    """

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        default_profile: str = profile.DEFAULT,
        egress: Egress = Egress.LOCAL,
        on_change: Callable[[], None] = lambda: None,
        quota: Quota = DEFAULT_QUOTA,
        on_expiry: Callable[[Subscription], None] = lambda _: None,
        handshakes: Handshakes | None = None,
        signs_tokens: bool = True,
        find_connection: Find = nowhere,
    ) -> None:
        self.groups = Groups(registry, clock)
        self.accounts = StorageAccounts(registry, clock)
        self.domain_topics = DomainTopics(registry, clock, quota.topics_per_domain)
        self._registry = registry
        self._clock = clock
        self._random_bytes = random_bytes
        self._default = profile.load(default_profile)
        self._egress = egress
        self._on_change = on_change
        self._quota = quota
        self._on_expiry = on_expiry
        self._handshakes = handshakes
        self._signs_tokens = signs_tokens
        self._find_connection = find_connection
        self._cache = TopicCache(registry)
        self._one_change = asyncio.Lock()
        self._counts: dict[TopicKind, int] = {}  # how many there are, once counted

    def profile_of(self, topic: Topic) -> Profile:
        """The behaviour profile of a topic: its own, or the server's."""
        return profile.load(topic.profile) if topic.profile else self._default

    def known_topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, if it was looked up before and has not changed since."""
        return self._cache.known(name, kind)

    async def find_topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        """The topic of that kind and name, without regard to case."""
        return await self._cache.find(name, kind)

    async def topic(
        self, azure_subscription: str, resource_group: str, name: str, kind: TopicKind = TopicKind.CUSTOM
    ) -> Topic:
        """The topic at that place; anywhere else it is not found."""
        found = await self._cache.find(name, kind)
        if found is None or not is_at(found, azure_subscription, resource_group):
            await self.groups.get(azure_subscription, resource_group)
            raise resource_missing(f"Microsoft.EventGrid/{kind}", name, resource_group)
        return found

    async def walk_topics(self, kind: TopicKind, after: str = "") -> AsyncIterator[Topic]:
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
        """The system topic of a storage account; if it has none, one is made on demand."""
        found = await self.system_topic_of(account.resource_id)
        if found is not None or not make:
            return found
        async with self._one_change:
            found = await self.system_topic_of(account.resource_id)
            return found or await self._put_topic(None, implicit_topic(account, self._random_bytes(NAME_BYTES).hex()))

    async def tidy_system_topic(self, topic: Topic) -> None:
        """Delete a system topic that was made on demand, if it has no subscription."""
        if topic.source is None or not topic.source.implicit:
            return
        async with self._one_change:
            living = [one for one in await self._registry.subscriptions(topic.id, 0, PAGE) if not one.deleted_position]
            if not living and await self._registry.topic_by_id(topic.id) is not None:
                await self._delete_topic(topic)
        self._on_change()

    async def put_topic(self, draft: TopicDraft, precondition: Precondition = UNCONDITIONAL) -> Topic:
        """Create a topic, or change the one that is there; its keys stay."""
        rules.check_topic_name(draft.name, draft.kind)
        rules.check_scope(draft.azure_subscription, "subscriptionId")
        rules.check_scope(draft.resource_group, "resourceGroupName")
        async with self._one_change:
            old = await self._registry.topic(draft.name, draft.kind)
            precondition.check(None if old is None else old.version)
            return await self._put_topic(old, draft)

    async def change_topic(
        self, topic: Topic, change: TopicChange, precondition: Precondition = UNCONDITIONAL
    ) -> Topic:
        """Change what a client names, and nothing else."""
        async with self._one_change:
            current = await self._living(topic)
            precondition.check(current.version)
            return await self._put_topic(current, change(topic_draft(current)))

    async def regenerate_key(self, topic: Topic, key_name: str) -> Topic:
        """Give a topic a new `key1` or `key2`; the old one is refused from now on."""
        async with self._one_change:
            current = await self._living(topic)
            fresh = self._new_key()
            return await self._store_topic(
                replace(current, key1=fresh) if key_name == "key1" else replace(current, key2=fresh)
            )

    async def delete_topic(self, topic: Topic, precondition: Precondition = UNCONDITIONAL) -> None:
        """Delete a topic with its subscriptions, and a domain with its topics."""
        async with self._one_change:
            precondition.check((await self._living(topic)).version)
            await self._delete_topic(topic)
        self._on_change()

    async def put_account(self, account: StorageAccount) -> StorageAccount:
        """Register a storage account, or change the one that is there."""
        stored = await self.accounts.put(account)
        await self.groups.ensure(stored.azure_subscription, stored.resource_group, stored.location)
        return stored

    async def delete_account(self, account: StorageAccount) -> None:
        """Forget a storage account, and its system topic with it."""
        await self.accounts.remove(account)
        topic = await self.system_topic_of(account.resource_id)
        if topic is not None:
            with suppress(NotFound):
                await self.delete_topic(topic)

    async def delete_group(self, group: Group) -> None:
        """Delete a resource group with all that is in it."""
        place = group.azure_subscription, group.name
        for kind in TopicKind:
            async for topic in self.walk_topics(kind):
                if is_at(topic, *place):
                    with suppress(NotFound):  # somebody else was faster
                        await self.delete_topic(topic)
        after = ""
        while page := await self.accounts.page(after, PAGE):
            for account in page:
                if account.is_at(*place):
                    await self.delete_account(account)
            after = page[-1].name
        await self.groups.remove(group)

    def _new_key(self) -> str:
        return base64.b64encode(self._random_bytes(KEY_BYTES)).decode()

    async def _living(self, topic: Topic) -> Topic:
        """The topic as it is now: it may have changed or gone while somebody waited for the turn."""
        current = await self._registry.topic_by_id(topic.id)
        if current is None:
            raise NotFound("ResourceNotFound", f"Topic '{topic.name}' was deleted.")
        return current

    async def _put_topic(self, old: Topic | None, draft: TopicDraft) -> Topic:
        topic = await self._new_topic(draft) if old is None else await self._changed_topic(old, draft)
        topic = replace(topic, mapping=rules.check_mapping(topic.input_schema, draft.mapping))
        await self.groups.ensure(topic.azure_subscription, topic.resource_group, topic.location)
        return await self._store_topic(topic)

    async def _new_topic(self, draft: TopicDraft) -> Topic:
        if draft.kind not in self._counts:
            self._counts[draft.kind] = sum([1 async for _ in self.walk_topics(draft.kind)])
        check_room(self._counts[draft.kind], self._quota.of_kind(draft.kind), "topics")
        await self._check_source(draft)
        now = self._clock.now()
        return Topic(
            kind=draft.kind,
            name=draft.name,
            azure_subscription=draft.azure_subscription,
            resource_group=draft.resource_group,
            location=draft.location or rules.DEFAULT_LOCATION,
            tags=draft.tags,
            profile=rules.profile_named_by(draft.tags),
            input_schema=draft.input_schema or InputSchema.EVENT_GRID,
            key1=self._new_key(),
            key2=self._new_key(),
            local_auth=draft.local_auth,
            public_access=draft.public_access,
            ip_rules=draft.ip_rules,
            domain=draft.domain,
            source=draft.source,
            kept=draft.kept,
            created_at=now,
            modified_at=now,
        )

    async def _changed_topic(self, old: Topic, draft: TopicDraft) -> Topic:
        rules.check_unmoved(old, draft)
        topic = replace(
            old,
            tags=draft.tags,
            profile=rules.profile_named_by(draft.tags),
            local_auth=draft.local_auth,
            public_access=draft.public_access,
            ip_rules=draft.ip_rules,
            domain=draft.domain,
            kept=draft.kept,
            modified_at=self._clock.now(),
        )
        if self.profile_of(topic) != self.profile_of(old):
            await self._check_subscriptions(topic)
        return topic

    async def _store_topic(self, topic: Topic) -> Topic:
        with self._changing(topic, 1 if topic.id == 0 else 0):
            stored = await self._registry.put_topic(topic)
        self._on_change()
        return stored

    async def _delete_topic(self, topic: Topic) -> None:
        told = await self._to_be_told(topic)
        with self._changing(topic, -1):
            await self._registry.delete_topic(topic.id)
        if topic.kind is TopicKind.DOMAIN:
            await self.domain_topics.remove_all(topic)
        self._tell_deletion(topic, told)

    async def _to_be_told(self, topic: Topic) -> list[Subscription]:
        """The living subscriptions whose endpoints hear that their topic is gone: as many as are told at once."""
        if self._handshakes is None:
            return []
        found = await self._registry.subscriptions(topic.id, 0, PAGE)
        return [each for each in found if each.deleted_position is None][: limits.DELETION_NOTICES]

    def _tell_deletion(self, topic: Topic, subscriptions: Iterable[Subscription]) -> None:
        for subscription in subscriptions:
            if self._handshakes is not None:
                self._handshakes.tell_deletion(topic, subscription)

    @contextmanager
    def _changing(self, topic: Topic, more: int) -> Iterator[None]:
        """Around a write of a topic: what is remembered about it is dropped, and stays so if the write fails."""
        count = self._counts.pop(topic.kind, None)
        self._cache.drop(topic.key)
        try:
            yield
            if count is not None:
                self._counts[topic.kind] = count + more
        finally:
            self._cache.drop(topic.key)

    async def _check_source(self, draft: TopicDraft) -> None:
        """A system topic has a source, and a source one system topic."""
        if draft.kind is not TopicKind.SYSTEM:
            return
        source = rules.check_source(draft.source)
        taken = await self.system_topic_of(source.resource_id)
        if taken is not None:
            raise Conflict("SystemTopicExists", f"The source has the system topic '{taken.name}' already.", "source")

    async def _check_subscriptions(self, topic: Topic) -> None:
        """Raise unless a topic's new profile has what its subscriptions use."""
        chosen, after = self.profile_of(topic), 0
        while page := await self._registry.subscriptions(topic.id, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None:
                    check_profile(chosen, subscription)
            after = page[-1].id


def is_at(topic: Topic, azure_subscription: str, resource_group: str | None) -> bool:
    """Whether a topic is in that Azure subscription, and in that group if one is named."""
    return topic.azure_subscription.lower() == azure_subscription.lower() and (
        resource_group is None or topic.resource_group.lower() == resource_group.lower()
    )
