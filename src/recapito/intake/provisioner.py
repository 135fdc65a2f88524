"""Topics and their subscriptions: made, changed, listed and deleted, under Event Grid's rules for names and quotas.

Changes go one after the other. A setting that the topic's behaviour profile lacks is refused, from either side: when
a subscription asks for it, and when the topic is given a profile that lacks what a subscription uses.
"""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from recapito.domain.subscription import Subscription
from recapito.domain.topic import Topic, TopicKind
from recapito.intake import rules
from recapito.intake.domain_topics import DomainTopic
from recapito.intake.draft import SubscriptionChange, SubscriptionDraft, subscription_draft
from recapito.intake.missing import parent_missing, subscription_missing
from recapito.intake.precondition import UNCONDITIONAL, Precondition
from recapito.intake.quota import check_room
from recapito.intake.subscribing import subscribe
from recapito.intake.topic_provisioner import PAGE, TopicProvisioner


class Provisioner(TopicProvisioner):
    """Keeps the resources: to the topics it adds their subscriptions."""

    async def subscription(self, topic: Topic, name: str, domain_topic: str | None = None) -> Subscription:
        """The subscription of that name; one that has expired is not there any more."""
        found = await self._registry.subscription(topic.id, name, domain_topic)
        if found is None or self.has_expired(found):
            raise subscription_missing(name)
        return found

    def has_expired(self, subscription: Subscription) -> bool:
        """Whether a subscription's time is over, be it deleted yet or not."""
        return subscription.expires_at is not None and subscription.expires_at <= self._clock.now()

    async def walk_subscriptions(self, topic: Topic | None = None, after: int = 0) -> AsyncIterator[Subscription]:
        """The living subscriptions of a topic, or of all, in the order of their ids, page by page."""
        while page := await self._registry.subscriptions(None if topic is None else topic.id, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None and not self.has_expired(subscription):
                    yield subscription
            after = page[-1].id

    async def walk_domain_topic(self, domain: Topic, name: str, after: str = "") -> AsyncIterator[Subscription]:
        """The living subscriptions of a domain topic in the order of their lower-cased names, page by page."""
        while page := await self._registry.domain_topic_subscriptions(domain.id, name, after, PAGE):
            for subscription in page:
                if not self.has_expired(subscription):
                    yield subscription
            after = page[-1].name

    async def put_subscription(
        self, topic: Topic, draft: SubscriptionDraft, demand: Precondition = UNCONDITIONAL
    ) -> Subscription:
        """Create a subscription, or change the one that is there. It sees what is published after this returns."""
        rules.check_subscription_name(draft.name)
        async with self._one_change:
            topic = await self._living(topic)
            old = await self._registry.subscription(topic.id, draft.name, draft.domain_topic)
            if old is not None and self.has_expired(old):
                await self._registry.delete_subscription(old.id)
                old = None
            demand.check(None if old is None else old.version)
            stored = await self._put_subscription(topic, old, draft)
        self._on_change()
        return stored

    async def change_subscription(
        self,
        topic: Topic,
        name: str,
        domain_topic: str | None,
        change: SubscriptionChange,
        demand: Precondition = UNCONDITIONAL,
    ) -> Subscription:
        """Change what a client names, and nothing else."""
        async with self._one_change:
            topic = await self._living(topic)
            old = await self.subscription(topic, name, domain_topic)
            demand.check(old.version)
            stored = await self._put_subscription(topic, old, change(subscription_draft(old)))
        self._on_change()
        return stored

    async def delete_subscription(
        self, topic: Topic, name: str, domain_topic: str | None = None, demand: Precondition = UNCONDITIONAL
    ) -> None:
        """Delete a subscription; what it has pending is dropped, counted as canceled."""
        async with self._one_change:
            found = await self.subscription(topic, name, domain_topic)
            demand.check(found.version)
            await self._delete_subscription(found)
        self._on_change()

    async def expire(self, id: int) -> None:
        """Delete a subscription whose time is over."""
        async with self._one_change:
            found = await self._registry.subscription_by_id(id)
            if found is None or found.deleted_position is not None or not self.has_expired(found):
                return
            await self._delete_subscription(found)
        self._on_change()

    async def put_domain_topic(self, domain: Topic, name: str) -> DomainTopic:
        """Create a topic of a domain, unless it is there."""
        async with self._one_change:
            return await self.domain_topics.put(await self._living(domain), name)

    async def delete_domain_topic(self, domain: Topic, name: str) -> None:
        """Delete a topic of a domain with its subscriptions."""
        async with self._one_change:
            while page := await self._registry.domain_topic_subscriptions(domain.id, name, "", PAGE):
                for subscription in page:
                    await self._registry.delete_subscription(subscription.id)
            await self.domain_topics.remove(domain, name)
        self._on_change()

    async def _put_subscription(self, topic: Topic, old: Subscription | None, draft: SubscriptionDraft) -> Subscription:
        rules.check_endpoint(draft.destination.url, self._egress)
        wanted = subscribe(topic, self.profile_of(topic), old, draft, self._clock.now())
        if old is None:
            await self._check_room(topic, draft.domain_topic)
            if draft.domain_topic is not None:
                name = await self._enter_domain_topic(topic, draft.domain_topic)
                draft = replace(draft, domain_topic=name)
                wanted = subscribe(topic, self.profile_of(topic), old, draft, self._clock.now())
        stored = await self._registry.put_subscription(wanted)
        if stored.expires_at is not None:
            self._on_expiry(stored)
        return stored

    async def _enter_domain_topic(self, domain: Topic, name: str) -> str:
        """The name of a domain topic as it was first spelled; it is made here, where the domain wants that."""
        if domain.domain is not None and domain.domain.auto_create:
            return (await self.domain_topics.put(domain, name)).name
        found = await self.domain_topics.find(domain, name)
        if found is None:
            raise parent_missing("Microsoft.EventGrid/eventSubscriptions", f"{domain.resource_id}/topics/{name}")
        return found.name

    async def _delete_subscription(self, subscription: Subscription) -> None:
        await self._registry.delete_subscription(subscription.id)
        topic = await self._registry.topic_by_id(subscription.topic)
        name = subscription.domain_topic
        if topic is None:
            return
        if topic.domain is not None and topic.domain.auto_delete and name is not None:
            if not await self._registry.domain_topic_subscriptions(topic.id, name, "", 1):
                await self.domain_topics.remove(topic, name)
        elif topic.source is not None and topic.source.implicit and not await self._count(topic, None, 1):
            await self._delete_topic(topic)  # it was made with the first subscription, and goes with the last

    async def _check_room(self, topic: Topic, domain_topic: str | None) -> None:
        allowed = self._quota.subscriptions_per_topic
        if topic.kind is TopicKind.DOMAIN and domain_topic is None:
            allowed = self._quota.subscriptions_per_domain
        check_room(await self._count(topic, domain_topic, allowed), allowed, "subscriptions")

    async def _count(self, topic: Topic, domain_topic: str | None, enough: int) -> int:
        """How many living subscriptions there are, counted up to what is enough to know."""
        if domain_topic is not None:
            return len(await self._registry.domain_topic_subscriptions(topic.id, domain_topic, "", enough))
        count, walk = 0, self.walk_subscriptions(topic)
        async for subscription in walk:
            count += subscription.domain_topic is None
            if count >= enough:
                break
        return count
