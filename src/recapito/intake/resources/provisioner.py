"""Topics and their subscriptions: made, changed, listed and deleted, under Event Grid's rules for names and quotas.

Changes go one after the other. A setting that the topic's behaviour profile lacks is refused, from either side: when
a subscription asks for it, and when the topic is given a profile that lacks what a subscription uses.
"""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from recapito.clock import SystemClock
from recapito.domain.handshake.consent import with_consent
from recapito.domain.handshake.handshake import ConsentTarget, is_code
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import Gone, NotFound
from recapito.intake.resources import rules
from recapito.intake.resources.build_subscription import build_subscription
from recapito.intake.resources.connection_required import check_connected, check_dead_letters_connected
from recapito.intake.resources.domain_topics import DomainTopic
from recapito.intake.resources.drafts import SubscriptionChange, SubscriptionDraft, subscription_draft
from recapito.intake.resources.handshakes import Attempt, ConsentAnswer, NeedsConsent
from recapito.intake.resources.not_found import parent_missing, subscription_missing
from recapito.intake.resources.precondition import UNCONDITIONAL, Precondition
from recapito.intake.resources.quota import check_room
from recapito.intake.resources.topic_provisioner import PAGE, TopicProvisioner


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
        self, topic: Topic, draft: SubscriptionDraft, precondition: Precondition = UNCONDITIONAL
    ) -> Subscription:
        """Create a subscription, or change the one that is there. It sees what is published after this returns."""
        rules.check_subscription_name(draft.name)

        async def attempt(asked: ConsentAnswer | None) -> Subscription | NeedsConsent:
            async with self._one_change:
                current = await self._living(topic)
                old = await self._registry.subscription(current.id, draft.name, draft.domain_topic)
                if old is not None and self.has_expired(old):
                    await self._registry.delete_subscription(old.id)
                    old = None
                precondition.check(None if old is None else old.version)
                return await self._put_subscription(current, old, draft, asked)

        return await self._after_handshake(attempt)

    async def change_subscription(
        self,
        topic: Topic,
        name: str,
        domain_topic: str | None,
        change: SubscriptionChange,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Subscription:
        """Change what a client names, and nothing else."""

        async def attempt(asked: ConsentAnswer | None) -> Subscription | NeedsConsent:
            async with self._one_change:
                current = await self._living(topic)
                old = await self.subscription(current, name, domain_topic)
                precondition.check(old.version)
                return await self._put_subscription(current, old, change(subscription_draft(old)), asked)

        return await self._after_handshake(attempt)

    async def _after_handshake(self, attempt: Attempt) -> Subscription:
        """Store at once what needs no handshake, and all else when its endpoint was asked; others go on meanwhile."""
        stored = await attempt(None)
        if isinstance(stored, NeedsConsent):
            assert self._handshakes is not None
            async with self._handshakes.asking(stored) as asked:
                stored = await attempt(asked)
        assert isinstance(stored, Subscription)
        self._on_change()
        return stored

    async def give_consent(self, place: ConsentTarget, name: str, code: str) -> None:
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
            stored = await self._registry.put_subscription(with_consent(found, now))
            if stored.expires_at is not None:
                self._on_expiry(stored)
        self._on_change()

    async def delete_subscription(
        self, topic: Topic, name: str, domain_topic: str | None = None, precondition: Precondition = UNCONDITIONAL
    ) -> None:
        """Delete a subscription; what it has pending is dropped, counted as canceled."""
        async with self._one_change:
            found = await self.subscription(topic, name, domain_topic)
            precondition.check(found.version)
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
                self._tell_deletion(domain, page)
            await self.domain_topics.remove(domain, name)
        self._on_change()

    async def _put_subscription(
        self, topic: Topic, old: Subscription | None, draft: SubscriptionDraft, asked: ConsentAnswer | None
    ) -> Subscription | NeedsConsent:
        if isinstance(draft.destination, WebHook):
            rules.check_endpoint(draft.destination.url, self._egress)
            rules.check_protection(draft.destination, self._signs_tokens)
        else:
            await check_connected(self._find_connection, draft.destination, SystemClock().now())
        await check_dead_letters_connected(self._find_connection, draft.dead_letter, SystemClock().now())
        if old is None and draft.domain_topic is not None:
            draft = replace(draft, domain_topic=await self._domain_topic_name(topic, draft.domain_topic))
        wanted = build_subscription(topic, self.profile_of(topic), old, draft, self._clock.now())
        if old is None:
            await self._check_room(topic, draft.domain_topic)
        ready = wanted if self._handshakes is None else self._handshakes.admit(topic, old, wanted, asked)
        if isinstance(ready, NeedsConsent):
            return ready
        if old is None and draft.domain_topic is not None and _makes_topics(topic):
            await self.domain_topics.put(topic, draft.domain_topic)
        stored = await self._registry.put_subscription(ready)
        if stored.expires_at is not None:
            self._on_expiry(stored)
        return stored

    async def _domain_topic_name(self, domain: Topic, name: str) -> str:
        """A domain topic's name as it was first spelled. It must be there, unless its first subscription makes it."""
        rules.check_domain_topic_name(name)
        found = await self.domain_topics.find(domain, name)
        if found is None and not _makes_topics(domain):
            raise parent_missing("Microsoft.EventGrid/eventSubscriptions", f"{domain.resource_id}/topics/{name}")
        return name if found is None else found.name

    async def _delete_subscription(self, subscription: Subscription) -> None:
        await self._registry.delete_subscription(subscription.id)
        topic = await self._registry.topic_by_id(subscription.topic)
        name = subscription.domain_topic
        if topic is None:
            return
        self._tell_deletion(topic, [subscription])
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


def _makes_topics(domain: Topic) -> bool:
    return domain.domain is not None and domain.domain.auto_create
