"""Topics and subscriptions on a registry in memory, and drafts for them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.domain.resources.destination import WebHook
from recapito.domain.resources.topic import Topic
from recapito.errors import CallerError
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import StillClock, make_resources


class Bench:
    """Topics and subscriptions on a registry in memory."""

    def __init__(self, registry: MemoryLog | None = None, **options: Any) -> None:
        self.registry = registry or MemoryLog()
        self.clock = StillClock()
        self.changes = 0
        self.topics, self.subscriptions = make_resources(self.registry, self.clock, self._changed, **options)

    def _changed(self) -> None:
        self.changes += 1

    async def topic(self, name: str = "orders", group: str = "group", **more: Any) -> Topic:
        return await self.topics.put(TopicDraft.of(name=name, azure_subscription="sub", resource_group=group, **more))


def draft(name: str = "mine", **more: Any) -> SubscriptionDraft:
    return SubscriptionDraft.of(name=name, destination=WebHook(url="https://example.com/hook?code=secret"), **more)


def run(test: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        await test(Bench(**options))

    asyncio.run(whole())


async def refused(call: Awaitable[object], kind: type[CallerError], target: str | None = None) -> str:
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.target == target
    return caught.value.message
