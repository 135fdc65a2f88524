"""Shared by the tests of intake: a scripted Log at our contract, a clock that stands still, and small values."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from recapito.clock import Clock
from recapito.contracts.log import NewSegment
from recapito.domain.events.segment import Segment, StampedEvent
from recapito.domain.profiles import profile
from recapito.domain.resources.topic import Topic
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Changes, Topics
from recapito.intake.resources.validation import DEFAULT_QUOTA, Quota
from recapito.stores.memory import MemoryLog


class StillClock:
    """A clock that shows one instant until it is set."""

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        self.instant = now

    def now(self) -> int:
        return self.instant

    async def sleep_until(self, when: int) -> None:
        await asyncio.get_running_loop().create_future()


def tokens() -> Callable[[int], bytes]:
    """Random bytes that count from 1."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


class Resources(NamedTuple):
    """Topics and their subscriptions, with one lock between them."""

    topics: Topics
    subscriptions: Subscriptions


def make_resources(
    registry: MemoryLog,
    clock: Clock,
    on_change: Callable[[], None] = lambda: None,
    quota: Quota = DEFAULT_QUOTA,
    default_profile: str = profile.DEFAULT,
    handshakes: Handshakes | None = None,
    **options: Any,
) -> Resources:
    """The keepers of resources on one registry; `options` are those of `Subscriptions` alone."""
    changes = Changes(on_change)
    topics = Topics(registry, clock, tokens(), changes, quota, default_profile, handshakes)
    return Resources(topics, Subscriptions(registry, clock, topics, changes, quota, handshakes=handshakes, **options))


class ScriptedLog(MemoryLog):
    """A Log whose commits wait until the test lets them go, or fail as the script says."""

    def __init__(self, script: Sequence[Exception | None] = (), held: bool = False) -> None:
        super().__init__()
        self.commits: list[list[NewSegment]] = []
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()
        self._script = list(script)

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        self.commits.append(list(segments))
        await self.gate.wait()
        error = self._script.pop(0) if self._script else None
        if error is not None:
            raise error
        return await super().append(segments)


def topic_named(name: str, id: int = 0) -> Topic:
    return Topic(
        id=id,
        name=name,
        azure_subscription="sub",
        resource_group="group",
        location="local",
        key1="k1",
        key2="k2",
        created_at=1,
        modified_at=1,
    )


def events(*bodies: bytes) -> list[StampedEvent]:
    return [StampedEvent(body, "type", "subject", "1") for body in bodies]


def bodies(segment: NewSegment) -> list[bytes]:
    decoded = Segment(segment.columns, segment.body)
    return [decoded.event(i) for i in range(len(decoded))]
