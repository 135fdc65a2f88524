"""Topics and their subscriptions: made, changed, listed and deleted, under Event Grid's rules for names and quotas.

Changes go one after the other. A setting that the topic's behaviour profile lacks is refused, from either side: when
a subscription asks for it, and when the topic is given a profile that lacks what a subscription uses.
"""

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from recapito.clock import Clock
from recapito.domain import limits, profile
from recapito.domain.consent import shown, with_consent
from recapito.domain.egress import Egress
from recapito.domain.handshake import Place, is_code
from recapito.domain.profile import Profile
from recapito.domain.schema import DELIVERABLE
from recapito.domain.subscription import FilterSince, Subscription
from recapito.domain.topic import Topic
from recapito.errors import Conflict, Gone, InvalidInput, NotFound
from recapito.intake import rules
from recapito.intake.draft import SubscriptionDraft, TopicDraft
from recapito.intake.handshake import Asked, Attempt, Handshakes, Unasked
from recapito.intake.topic_cache import TopicCache
from recapito.store import Registry

DEFAULT_LOCATION = "local"
KEY_BYTES = 32
PAGE = 1000


class Provisioner:
    """Keeps the resources. `random_bytes` is where keys come from; `on_change` wakes whoever must know."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        default_profile: str = profile.DEFAULT,
        egress: Egress = Egress.LOCAL,
        on_change: Callable[[], None] = lambda: None,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._random_bytes = random_bytes
        self._default = profile.load(default_profile)
        self._egress = egress
        self._on_change = on_change
        self._handshakes = handshakes
        self._cache = TopicCache(registry)
        self._one_change = asyncio.Lock()
        self._topics: int | None = None  # how many there are, once counted

    def profile_of(self, topic: Topic) -> Profile:
        """The behaviour profile of a topic: its own, or the server's."""
        return profile.load(topic.profile) if topic.profile else self._default

    def known_topic(self, name: str) -> Topic | None:
        """The topic of that name, if it was looked up before and has not changed since."""
        return self._cache.known(name)

    async def find_topic(self, name: str) -> Topic | None:
        """The topic of that name, without regard to case."""
        return await self._cache.find(name)

    async def topic(self, azure_subscription: str, resource_group: str, name: str) -> Topic:
        """The topic at that place; anywhere else it is not found."""
        found = await self._cache.find(name)
        if found is None or not _is_at(found, azure_subscription, resource_group):
            raise NotFound("ResourceNotFound", f"Topic '{name[:100]}' was not found in this resource group.")
        return found

    async def topics(
        self, azure_subscription: str, resource_group: str | None, after: str, limit: int
    ) -> tuple[list[Topic], str | None]:
        """A page of topics in the order of their names, and the name after which the next page starts, if any."""
        found: list[Topic] = []
        while page := await self._registry.topics(after, PAGE):
            for topic in page:
                after = topic.key
                if _is_at(topic, azure_subscription, resource_group):
                    if len(found) == limit:
                        return found, found[-1].key
                    found.append(topic)
        return found, None

    async def put_topic(self, draft: TopicDraft) -> Topic:
        """Create a topic, or change the one that is there; its keys stay."""
        rules.check_topic_name(draft.name)
        rules.check_scope(draft.azure_subscription, "subscriptionId")
        rules.check_scope(draft.resource_group, "resourceGroupName")
        async with self._one_change:
            old = await self._registry.topic(draft.name)
            topic = await self._new_topic(draft) if old is None else await self._changed_topic(old, draft)
            return await self._store_topic(topic)

    async def regenerate_key(self, topic: Topic, key_name: str) -> Topic:
        """Give a topic a new `key1` or `key2`; the old one is refused from now on."""
        async with self._one_change:
            current = await self._living(topic)
            fresh = self._new_key()
            return await self._store_topic(
                replace(current, key1=fresh) if key_name == "key1" else replace(current, key2=fresh)
            )

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic with its subscriptions."""
        async with self._one_change:
            await self._living(topic)
            with self._changing(topic.name, -1):
                await self._registry.delete_topic(topic.id)
        self._on_change()

    async def subscription(self, topic: Topic, name: str) -> Subscription:
        """The subscription of that name."""
        found = await self._registry.subscription(topic.id, name)
        if found is None:
            raise NotFound("ResourceNotFound", f"Event subscription '{name[:100]}' was not found on this topic.")
        return found

    async def subscriptions(self, topic: Topic, after: int, limit: int) -> tuple[list[Subscription], int | None]:
        """A page of a topic's living subscriptions, and the id after which the next page starts, if any."""
        found: list[Subscription] = []
        while page := await self._registry.subscriptions(topic.id, after, PAGE):
            for subscription in page:
                after = subscription.id
                if subscription.deleted_position is None:
                    if len(found) == limit:
                        return found, found[-1].id
                    found.append(subscription)
        return found, None

    async def put_subscription(self, topic: Topic, draft: SubscriptionDraft) -> Subscription:
        """Create a subscription, or change the one that is there. It sees what is published after this returns."""
        rules.check_subscription_name(draft.name)
        rules.check_endpoint(draft.destination.url, self._egress)

        async def attempt(asked: Asked | None) -> Subscription | Unasked:
            async with self._one_change:
                current = await self._living(topic)
                rules.check_batching(draft.batching, self.profile_of(current))
                old = await self._registry.subscription(current.id, draft.name, draft.domain_topic)
                if old is None:
                    await self._check_room(current)
                return await self._store_subscription(current, old, self._subscription(current, old, draft), asked)

        stored = await self._after_handshake(attempt)
        self._on_change()
        return stored

    async def _store_subscription(
        self, topic: Topic, old: Subscription | None, wanted: Subscription, asked: Asked | None
    ) -> Subscription | Unasked:
        ready = wanted if self._handshakes is None else self._handshakes.admit(topic, old, wanted, asked)
        return ready if isinstance(ready, Unasked) else await self._registry.put_subscription(ready)

    async def _after_handshake(self, attempt: Attempt) -> Subscription:
        """Store at once what needs no handshake, and all else when its endpoint was asked; others go on meanwhile."""
        stored = await attempt(None)
        if isinstance(stored, Unasked):
            assert self._handshakes is not None
            async with self._handshakes.asking(stored) as asked:
                stored = await attempt(asked)
        assert isinstance(stored, Subscription)
        return stored

    async def give_consent(self, place: Place, name: str, code: str) -> None:
        """An endpoint consents, by the URL that its handshake gave it: what is wanted is in force from now on."""
        async with self._one_change:
            found = await self._registry.subscription(place.topic, name, place.domain_topic)
            handshake = None if found is None else found.handshake
            if found is None or handshake is None or not is_code(handshake.code, code):
                if self._handshakes is not None and self._handshakes.hear(code):
                    return
                raise NotFound("HandshakeNotFound", "Nobody waits for this consent: it was given, replaced or deleted.")
            now = self._clock.now()
            if now > handshake.until:
                raise Gone("HandshakeExpired", "The ten minutes for consent are over. Create the subscription again.")
            await self._registry.put_subscription(with_consent(found, now))
        self._on_change()

    async def delete_subscription(self, topic: Topic, name: str) -> None:
        """Delete a subscription; what it has pending is dropped, counted as canceled."""
        async with self._one_change:
            found = await self.subscription(topic, name)
            await self._registry.delete_subscription(found.id)
        self._on_change()
        if self._handshakes is not None:
            self._handshakes.tell_deletion(topic, found)

    def _new_key(self) -> str:
        return base64.b64encode(self._random_bytes(KEY_BYTES)).decode()

    async def _living(self, topic: Topic) -> Topic:
        """The topic as it is now: it may have changed or gone while somebody waited for the turn."""
        current = await self._registry.topic_by_id(topic.id)
        if current is None:
            raise NotFound("ResourceNotFound", f"Topic '{topic.name}' was deleted.")
        return current

    async def _new_topic(self, draft: TopicDraft) -> Topic:
        if self._topics is None:
            self._topics = await self._count_topics()
        if self._topics >= limits.TOPICS:
            raise Conflict("QuotaExceeded", f"There are {limits.TOPICS} topics already; no more are allowed.")
        now = self._clock.now()
        return Topic(
            name=draft.name,
            azure_subscription=draft.azure_subscription,
            resource_group=draft.resource_group,
            location=draft.location or DEFAULT_LOCATION,
            tags=draft.tags,
            profile=rules.profile_named_by(draft.tags),
            key1=self._new_key(),
            key2=self._new_key(),
            created_at=now,
            modified_at=now,
        )

    async def _changed_topic(self, old: Topic, draft: TopicDraft) -> Topic:
        if not _is_at(old, draft.azure_subscription, draft.resource_group):
            raise Conflict("ResourceNameInUse", f"A topic named '{old.name}' exists in another resource group.", "name")
        if draft.location is not None and draft.location.lower() != old.location.lower():
            raise Conflict("InvalidResourceLocation", f"The topic is in '{old.location}' and can not move.", "location")
        topic = replace(old, tags=draft.tags, profile=rules.profile_named_by(draft.tags), modified_at=self._clock.now())
        if not self.profile_of(topic).batching:
            await self._check_nobody_batches(topic)
        return topic

    async def _store_topic(self, topic: Topic) -> Topic:
        with self._changing(topic.name, 1 if topic.id == 0 else 0):
            stored = await self._registry.put_topic(topic)
        self._on_change()
        return stored

    @contextmanager
    def _changing(self, name: str, more: int) -> Iterator[None]:
        """Around a write of a topic: what is remembered about it is dropped, and stays so if the write fails."""
        count, self._topics = self._topics, None
        self._cache.drop(name)
        try:
            yield
            self._topics = None if count is None else count + more
        finally:
            self._cache.drop(name)

    def _subscription(self, topic: Topic, old: Subscription | None, draft: SubscriptionDraft) -> Subscription:
        now = self._clock.now()
        return Subscription(
            id=old.id if old else 0,
            version=old.version if old else 0,
            topic=topic.id,
            name=old.name if old else draft.name,
            destination=draft.destination,
            delivery_schema=draft.delivery_schema or DELIVERABLE[topic.input_schema][0],
            batching=draft.batching,
            retry_policy=draft.retry_policy,
            dead_letter=draft.dead_letter,
            filters=(FilterSince(0, draft.filter),),
            labels=draft.labels,
            created_at=old.created_at if old else now,
            modified_at=now,
        )

    async def _count_topics(self) -> int:
        count, after = 0, ""
        while page := await self._registry.topics(after, PAGE):
            count += len(page)
            after = page[-1].key
        return count

    async def _check_room(self, topic: Topic) -> None:
        living, _ = await self.subscriptions(topic, 0, limits.SUBSCRIPTIONS_PER_TOPIC)
        if len(living) >= limits.SUBSCRIPTIONS_PER_TOPIC:
            raise Conflict(
                "QuotaExceeded", f"The topic has {limits.SUBSCRIPTIONS_PER_TOPIC} subscriptions; no more are allowed."
            )

    async def _check_nobody_batches(self, topic: Topic) -> None:
        living, _ = await self.subscriptions(topic, 0, limits.SUBSCRIPTIONS_PER_TOPIC)
        for subscription in living:
            if shown(subscription).batching.event_limit > 1:
                raise InvalidInput(
                    "InvalidRequest",
                    f"Profile '{self.profile_of(topic).name}' has no output batching, which event subscription "
                    f"'{subscription.name}' of this topic uses.",
                    "profile",
                )


def _is_at(topic: Topic, azure_subscription: str, resource_group: str | None) -> bool:
    return topic.azure_subscription.lower() == azure_subscription.lower() and (
        resource_group is None or topic.resource_group.lower() == resource_group.lower()
    )
