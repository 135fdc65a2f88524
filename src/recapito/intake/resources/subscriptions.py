"""Event subscriptions: planned, agreed with their endpoints, stored, listed and deleted.

The law: nothing is stored that was not checked under the same lock. A webhook is asked for its consent outside the
lock, so everything is planned again after its answer.
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from recapito.clock import Clock, SystemClock
from recapito.contracts.registry import Registry
from recapito.domain.access.egress import Egress
from recapito.domain.filters.filter import TAKE_NONE
from recapito.domain.handshake.consent import needs_consent, with_consent
from recapito.domain.handshake.handshake import ConsentTarget, is_code
from recapito.domain.resources.delivery_options import NO_OPTIONS, DeliveryOptions
from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import Gone, NotFound
from recapito.intake.resources.connection_required import Find, check_connected, check_dead_letters_connected, nowhere
from recapito.intake.resources.drafts import SubscriptionChange, SubscriptionDraft, subscription_draft
from recapito.intake.resources.handshakes import Handshakes, NeedsConsent, Ready
from recapito.intake.resources.not_found import parent_missing, subscription_missing
from recapito.intake.resources.topics import PAGE, Changes, Topics
from recapito.intake.resources.validation import (
    DEFAULT_QUOTA,
    UNCONDITIONAL,
    Precondition,
    Quota,
    build_subscription,
    check_domain_topic_name,
    check_endpoint,
    check_protection,
    check_room,
    check_subscription_name,
)

OptionsChange = Callable[[Subscription], DeliveryOptions]
"""Returns the new options of a subscription. It may be called more than once."""


class _SubscriptionRequest(NamedTuple):
    """A PUT, with the draft of a whole subscription, or a PATCH, with a change of an existing one."""

    topic: Topic
    name: str
    domain_topic: str | None
    wanted: SubscriptionDraft | SubscriptionChange
    precondition: Precondition
    options: OptionsChange | None = None


class Subscriptions:
    """Creates, changes, finds and deletes event subscriptions.

    registry: the store of all resources.
    clock: the service's clock, for expiration, consent and the times of creation and change.
    topics: the topics to subscribe to.
    changes: the lock and the notice of changes, shared with `topics`.
    quota: how many subscriptions a topic, a domain and a domain topic may have.
    egress: the endpoints that this server may deliver to.
    on_expiry: called with every stored subscription that has an expiration time.
    handshakes: asks webhooks for their consent; None stores subscriptions without asking.
    signs_tokens: whether this server gets tokens for webhooks that an application protects.
    find_connection: finds the connection to a resource that is named by its id.
    """

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        topics: Topics,
        changes: Changes,
        quota: Quota = DEFAULT_QUOTA,
        egress: Egress = Egress.LOCAL,
        on_expiry: Callable[[Subscription], None] = lambda _: None,
        handshakes: Handshakes | None = None,
        signs_tokens: bool = True,
        find_connection: Find = nowhere,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._topics = topics
        self._changes = changes
        self._quota = quota
        self._egress = egress
        self._on_expiry = on_expiry
        self._handshakes = handshakes
        self.signs_tokens = signs_tokens
        self._find_connection = find_connection

    async def get(self, topic: Topic, name: str, domain_topic: str | None = None) -> Subscription:
        """The subscription of that name; NotFound also for one that has expired."""
        subscription = await self._registry.subscription(topic.id, name, domain_topic)
        if subscription is None or self._has_expired(subscription):
            raise subscription_missing(name)
        return subscription

    async def walk(self, topic: Topic | None = None, after: int = 0) -> AsyncIterator[Subscription]:
        """The subscriptions of a topic, or of all topics, in the order of their ids, page by page."""
        while page := await self._registry.subscriptions(None if topic is None else topic.id, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None and not self._has_expired(subscription):
                    yield subscription
            after = page[-1].id

    async def walk_domain_topic(self, domain: Topic, name: str, after: str = "") -> AsyncIterator[Subscription]:
        """The subscriptions of a domain topic in the order of their lower-cased names, page by page."""
        while page := await self._registry.domain_topic_subscriptions(domain.id, name, after, PAGE):
            for subscription in page:
                if not self._has_expired(subscription):
                    yield subscription
            after = page[-1].name

    async def put(
        self,
        topic: Topic,
        draft: SubscriptionDraft,
        precondition: Precondition = UNCONDITIONAL,
        options: OptionsChange | None = None,
    ) -> Subscription:
        """Create a subscription, or change the existing one. It sees every event published after this returns.

        With `options` its options change too, before it takes an event; without, they stay.
        """
        name, domain_topic = draft.wanted.name, draft.wanted.domain_topic
        check_subscription_name(name)
        return await self._write(_SubscriptionRequest(topic, name, domain_topic, draft, precondition, options))

    async def change(
        self,
        topic: Topic,
        name: str,
        domain_topic: str | None,
        change: SubscriptionChange,
        precondition: Precondition = UNCONDITIONAL,
    ) -> Subscription:
        """Apply a PATCH: `change` makes the new draft from the draft of the subscription as it is then."""
        return await self._write(_SubscriptionRequest(topic, name, domain_topic, change, precondition))

    async def _write(self, request: _SubscriptionRequest) -> Subscription:
        """Plan and store; between the two ask an endpoint whose consent is needed, while others make their changes."""
        async with self._changes.lock:
            plan = await self._plan(request)
            if isinstance(plan, Ready):
                stored = await self._store(plan, request.options)
        if isinstance(plan, NeedsConsent):
            assert self._handshakes is not None
            async with self._handshakes.asking(plan) as answer, self._changes.lock:
                plan = await self._plan(request)  # anew: topic, subscription or quota may have changed meanwhile
                if isinstance(plan, NeedsConsent):
                    plan = self._handshakes.admit(plan, answer)
                stored = await self._store(plan, request.options)
        self._changes.announce()
        return stored

    async def _plan(self, request: _SubscriptionRequest) -> Ready | NeedsConsent:
        """Check a request against everything that is stored now; the caller holds the lock."""
        topic = await self._topics.current(request.topic)
        if isinstance(request.wanted, SubscriptionDraft):
            old = await self._replaced(topic, request.name, request.domain_topic)
            request.precondition.check(None if old is None else old.version)
            draft = request.wanted
        else:
            old = await self.get(topic, request.name, request.domain_topic)
            request.precondition.check(old.version)
            draft = request.wanted(subscription_draft(old))
        await self._check_destinations(draft.wanted)
        domain_topic = draft.wanted.domain_topic
        if old is None and domain_topic is not None:
            domain_topic = await self._domain_topic_name(topic, domain_topic)
            draft = draft.changed(domain_topic=domain_topic)
        wanted = build_subscription(topic, self._topics.profile_of(topic), old, draft, self._clock.now())
        if old is None:
            await self._check_room(topic, domain_topic)
        if self._handshakes is not None and needs_consent(old, wanted):
            return NeedsConsent(topic, old, wanted)
        return Ready(topic, wanted)

    async def _store(self, plan: Ready, options: OptionsChange | None) -> Subscription:
        """Store a subscription, and with a new one its domain topic; the caller holds the lock since the plan."""
        topic, subscription = plan
        given = None if options is None else options(subscription)  # it may raise, so before anything is stored
        if subscription.id == 0 and subscription.domain_topic is not None and _creates_topics(topic):
            await self._topics.domain_topics.put(topic, subscription.domain_topic)
        if options is not None and given is not None:
            if subscription.id == 0 and given.signing:  # secrets are encrypted for the id, which it gets here
                bare = replace(subscription, filters=(FilterSince(0, TAKE_NONE),))
                made = await self._registry.put_subscription(bare)
                subscription = replace(subscription, id=made.id, version=made.version)
                given = options(subscription)
            subscription = replace(subscription, own_options=UNSET if given == NO_OPTIONS else given)
        stored = await self._registry.put_subscription(subscription)
        if stored.expires_at is not None:
            self._on_expiry(stored)
        return stored

    async def _replaced(self, topic: Topic, name: str, domain_topic: str | None) -> Subscription | None:
        """The subscription that a draft replaces. An expired one is deleted here, and the draft makes a new one."""
        old = await self._registry.subscription(topic.id, name, domain_topic)
        if old is not None and self._has_expired(old):
            await self._registry.delete_subscription(old.id)
            return None
        return old

    async def _check_destinations(self, wanted: Subscription) -> None:
        if isinstance(wanted.destination, WebHook):
            check_endpoint(wanted.destination.url, self._egress)
            check_protection(wanted.destination, self.signs_tokens)
        else:
            await check_connected(self._find_connection, wanted.destination, SystemClock().now())
        await check_dead_letters_connected(self._find_connection, wanted.dead_letter, SystemClock().now())

    async def give_consent(self, target: ConsentTarget, name: str, code: str) -> None:
        """Take an endpoint's consent by the URL that its handshake sent: the proposed subscription is now in force."""
        async with self._changes.lock:
            subscription = await self._registry.subscription(target.topic, name, target.domain_topic)
            handshake = None if subscription is None else subscription.handshake
            if subscription is None or handshake is None or not is_code(handshake.code, code):
                if self._handshakes is not None and self._handshakes.take_consent(code):
                    return
                raise NotFound(
                    "HandshakeNotFound", "No subscription waits for this consent: it was given, replaced or deleted."
                )
            now = self._clock.now()
            if now > handshake.until:
                raise Gone("HandshakeExpired", "The ten minutes for consent are over. Create the subscription again.")
            stored = await self._registry.put_subscription(with_consent(subscription, now))
            if stored.expires_at is not None:
                self._on_expiry(stored)
        self._changes.announce()

    async def change_options(self, id: int, change: OptionsChange) -> Subscription:
        """Give a subscription the options that `change` makes. Nothing else changes, and no endpoint is asked."""
        async with self._changes.lock:
            subscription = await self._registry.subscription_by_id(id)
            if subscription is None or subscription.deleted_position is not None or self._has_expired(subscription):
                raise subscription_missing(str(id))
            stored = await self._registry.put_subscription(replace(subscription, own_options=change(subscription)))
        self._changes.announce()
        return stored

    async def delete(
        self, topic: Topic, name: str, domain_topic: str | None = None, precondition: Precondition = UNCONDITIONAL
    ) -> None:
        """Delete a subscription; its pending deliveries are dropped, counted as canceled."""
        async with self._changes.lock:
            subscription = await self.get(topic, name, domain_topic)
            precondition.check(subscription.version)
            await self._delete(subscription)
        self._changes.announce()

    async def expire(self, id: int) -> None:
        """Delete a subscription if its expiration time has passed."""
        async with self._changes.lock:
            subscription = await self._registry.subscription_by_id(id)
            if subscription is None or subscription.deleted_position is not None or not self._has_expired(subscription):
                return
            await self._delete(subscription)
        self._changes.announce()

    def _has_expired(self, subscription: Subscription) -> bool:
        return subscription.expires_at is not None and subscription.expires_at <= self._clock.now()

    async def _domain_topic_name(self, domain: Topic, name: str) -> str:
        """A domain topic's name as it was first spelled. It must exist, unless its first subscription creates it."""
        check_domain_topic_name(name)
        domain_topic = await self._topics.domain_topics.find(domain, name)
        if domain_topic is None and not _creates_topics(domain):
            raise parent_missing("Microsoft.EventGrid/eventSubscriptions", f"{domain.resource_id}/topics/{name}")
        return name if domain_topic is None else domain_topic.name

    async def _delete(self, subscription: Subscription) -> None:
        await self._registry.delete_subscription(subscription.id)
        topic = await self._registry.topic_by_id(subscription.topic)
        name = subscription.domain_topic
        if topic is None:
            return
        self._topics.announce_deletion(topic, [subscription])
        if topic.domain is not None and topic.domain.auto_delete and name is not None:
            if not await self._registry.domain_topic_subscriptions(topic.id, name, "", 1):
                await self._topics.domain_topics.remove(topic, name)
        elif topic.source is not None and topic.source.implicit and not await self._count(topic, None, 1):
            await self._topics.remove(topic)  # it was created with the first subscription, and goes with the last

    async def _check_room(self, topic: Topic, domain_topic: str | None) -> None:
        allowed = self._quota.subscriptions_per_topic
        if topic.kind is TopicKind.DOMAIN and domain_topic is None:
            allowed = self._quota.subscriptions_per_domain
        check_room(await self._count(topic, domain_topic, allowed), allowed, "subscriptions")

    async def _count(self, topic: Topic, domain_topic: str | None, enough: int) -> int:
        """The number of subscriptions, counted no further than `enough`."""
        if domain_topic is not None:
            return len(await self._registry.domain_topic_subscriptions(topic.id, domain_topic, "", enough))
        count = 0
        async for subscription in self.walk(topic):
            count += subscription.domain_topic is None
            if count >= enough:
                break
        return count


def _creates_topics(domain: Topic) -> bool:
    return domain.domain is not None and domain.domain.auto_create
