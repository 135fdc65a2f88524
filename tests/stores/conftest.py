"""The fixtures of the tests of the embedded store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def run() -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """Wait for something on an event loop that lasts as long as the test."""
    with asyncio.Runner() as runner:
        yield lambda awaitable: runner.run(_wait(awaitable))


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@pytest.fixture
def journal() -> "Notes":
    """A journal that can be looked at."""
    return Notes()


class Notes(list[tuple[str, dict[str, object]]]):
    """A journal that keeps what it is told."""

    def __call__(self, event: str, **fields: object) -> None:
        self.append((event, fields))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self]
