"""A rehearsal: the resources that a document touches, copied to stores in memory, where the document is tried first.

The rules run there as they are. Endpoints are not asked, and quotas count the copied resources alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from recapito.api.estate.address import Stage
from recapito.api.estate.kinds import Kinds, Parts, Wish
from recapito.contracts.registry import Registry
from recapito.domain.resources.subscription import FilterSince
from recapito.domain.resources.topic import Topic


class Rehearsal(NamedTuple):
    """The services on an empty store."""

    parts: Parts
    registry: Registry


async def copy_touched(real: Kinds, rehearsal: Rehearsal, wishes: Sequence[Wish]) -> None:
    """Copy the groups, accounts, topics and subscriptions that these resources are, or are in."""
    copier = _Copier(real, rehearsal)
    for wish in wishes:
        await copier.copy(wish)


class _Copier:
    def __init__(self, real: Kinds, rehearsal: Rehearsal) -> None:
        self._real = real
        self._topics = real.parts.topics
        self._rehearsal = rehearsal
        self._copied: dict[int, Topic] = {}
        self._groups: set[tuple[str, str]] = set()

    async def copy(self, wish: Wish) -> None:
        address = wish.address
        await self._copy_group(address.azure_subscription, address.group)
        match address.stage:
            case Stage.ACCOUNT:
                await self._copy_account(address.name)
            case Stage.TOPIC:
                await self._copy_topic(await self._topics.find(address.name, address.kind))
                source = wish.draft.draft.wanted.source
                if source is not None:
                    await self._copy_topic(await self._topics.system_topic_of(source.resource_id))
            case Stage.DOMAIN_TOPIC:
                await self._copy_topic(await self._topics.find(address.topic, address.kind))
            case Stage.SUBSCRIPTION:
                await self._copy_subscription(wish)

    async def _copy_group(self, azure_subscription: str, name: str) -> None:
        key = azure_subscription.lower(), name.lower()
        if not name or key in self._groups:
            return
        self._groups.add(key)
        group = await self._topics.groups.find(azure_subscription, name)
        if group is not None:
            groups = self._rehearsal.parts.topics.groups
            await groups.put(group.azure_subscription, group.name, group.location, group.tags, group.managed_by)

    async def _copy_account(self, name: str) -> None:
        account = await self._topics.accounts.find(name)
        if account is not None:
            await self._rehearsal.parts.topics.put_account(account)

    async def _copy_topic(self, topic: Topic | None) -> Topic | None:
        if topic is None:
            return None
        if topic.id not in self._copied:
            self._copied[topic.id] = await self._rehearsal.registry.put_topic(replace(topic, id=0, version=0))
        return self._copied[topic.id]

    async def _copy_subscription(self, wish: Wish) -> None:
        address = wish.address
        if address.account:
            await self._copy_account(address.account.rpartition("/")[2])
            topic = await self._topics.system_topic_of(address.account)
        else:
            topic = await self._topics.find(address.topic, address.kind)
        copied = await self._copy_topic(topic)
        if topic is None or copied is None:
            return
        if address.domain_topic is not None:
            found = await self._topics.domain_topics.find(topic, address.domain_topic)
            if found is not None:
                await self._rehearsal.parts.topics.domain_topics.put(copied, found.name)
        subscription = await self._real.find_subscription(topic, address)
        if subscription is not None:
            bare = replace(
                subscription.proposed or subscription,
                id=0,
                version=0,
                topic=copied.id,
                proposed=None,
                handshake=None,
                filters=(FilterSince(0, (subscription.proposed or subscription).filter),),
            )
            await self._rehearsal.registry.put_subscription(bare)
