"""What the tests of intake share: a scripted Log at our contract, a clock that stands still, and small values."""

import asyncio
from collections.abc import Sequence

from recapito.contracts.log import NewSegment
from recapito.domain.events.segment import Segment, StampedEvent
from recapito.domain.resources.topic import Topic
from recapito.stores.memory import MemoryLog


class StillClock:
    """A clock that shows one instant until it is set."""

    def __init__(self, now: int = 1_700_000_000_000_000_000) -> None:
        self.instant = now

    def now(self) -> int:
        return self.instant

    async def sleep_until(self, when: int) -> None:
        await asyncio.get_running_loop().create_future()


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
