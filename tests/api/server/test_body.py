"""Reading bodies: bounded each, bounded together, and bounded in time."""

import asyncio
import selectors
from typing import Any

import pytest
from starlette.types import Message

from recapito.api.body import BodyReader, ClientGone
from recapito.api.errors import TooSlow
from recapito.domain import limits
from recapito.errors import Busy, TooLarge


class Sender:
    """A caller who sends pieces and then waits, until told to go on."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.go_on = asyncio.Event()

    async def receive(self) -> Message:
        if not self._pieces:
            await self.go_on.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._pieces.pop(0), "more_body": True}


def test_incomplete_bodies_are_bounded_together() -> None:
    """When many bodies are half read, a further one is refused; when they end, there is room again."""

    async def test() -> None:
        bodies = BodyReader()
        many = limits.READING_BYTES // limits.MB
        senders = [Sender(bytes(limits.MB)) for _ in range(many + 1)]
        reading = [asyncio.create_task(bodies.read({}, sender.receive, 2 * limits.MB)) for sender in senders]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await reading[-1]
        for sender in senders:
            sender.go_on.set()
        ends = await asyncio.gather(*reading, return_exceptions=True)
        assert [type(end) for end in ends[:-1]] == [ClientGone] * many
        again = Sender(bytes(limits.MB), b"x")
        again.go_on.set()
        with pytest.raises(ClientGone):
            await bodies.read({}, again.receive, 2 * limits.MB)

    asyncio.run(test())


class SkippingSelector(selectors.SelectSelector):
    """Waits for nothing, and notes how long it should have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.skipped += timeout or 0
        return super().select(0)


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop on which waiting takes no time."""

    def __init__(self) -> None:
        self._skipping = SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return super().time() + self._skipping.skipped


@pytest.mark.parametrize("pieces", [(b"[",), ()])
def test_a_body_that_does_not_arrive_is_given_up(pieces: tuple[bytes, ...]) -> None:
    """A caller who stops in the middle of a body, or before it, is not waited for forever."""

    async def test() -> None:
        with pytest.raises(TooSlow):
            await BodyReader().read({}, Sender(*pieces).receive, 100)

    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        runner.run(test())


@pytest.mark.parametrize(("length", "fits"), [(b"10", True), (b"11", False), (b"junk", True), (b"", True)])
def test_the_announced_length_is_judged_first(length: bytes, fits: bool) -> None:
    """A length over the limit is refused before anything is read; what is no number is left to the server."""

    async def test() -> None:
        sender = Sender(b"[]")
        sender.go_on.set()
        with pytest.raises(ClientGone if fits else TooLarge):
            await BodyReader().read({b"content-length": length}, sender.receive, 10)

    asyncio.run(test())
