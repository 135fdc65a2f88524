"""A provisioner on memory stores, and drafts for it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from recapito.domain.resources.subscription import WebHook
from recapito.domain.resources.topic import Topic
from recapito.errors import CallerError
from recapito.intake.resources.drafts import SubscriptionDraft, TopicDraft
from recapito.intake.resources.provisioner import Provisioner
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import StillClock


def tokens() -> Callable[[int], bytes]:
    numbers: Iterator[int] = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


class Bench:
    """A provisioner on a registry in memory."""

    def __init__(self, registry: MemoryLog | None = None, **options: Any) -> None:
        self.registry = registry or MemoryLog()
        self.clock = StillClock()
        self.changes = 0
        self.provisioner = Provisioner(self.registry, self.clock, tokens(), on_change=self._changed, **options)

    def _changed(self) -> None:
        self.changes += 1

    async def topic(self, name: str = "orders", group: str = "group", **more: Any) -> Topic:
        return await self.provisioner.put_topic(
            TopicDraft(name=name, azure_subscription="sub", resource_group=group, **more)
        )


def draft(name: str = "mine", **more: Any) -> SubscriptionDraft:
    return SubscriptionDraft(name=name, destination=WebHook(url="https://example.com/hook?code=secret"), **more)


def run(test: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        await test(Bench(**options))

    asyncio.run(whole())


async def refused(call: Awaitable[object], kind: type[CallerError], target: str | None = None) -> str:
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.target == target
    return caught.value.message
