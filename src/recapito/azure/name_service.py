"""A name service as the way to Azure needs one: it answers in bounded time, and is its owner's to close."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Resolved(Protocol):
    """What a host name led to: addresses, or none and the reason."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, as texts."""

    @property
    def problem(self) -> str:
        """Why there are none."""


class NameService(Protocol):
    """A name service that answers in bounded time."""

    def known(self, host: str) -> Resolved | None:
        """What is known now."""

    def ask(self, host: str, answer: Callable[[Resolved], None]) -> None:
        """Have `answer` called, later."""


async def resolve(names: NameService, host: str) -> Resolved:
    """What a host's name leads to, asked for if it is not known."""
    known = names.known(host)
    if known is not None:
        return known
    told: asyncio.Future[Resolved] = asyncio.get_running_loop().create_future()

    def answer(resolved: Resolved) -> None:
        if not told.done():  # whoever asked may have gone
            told.set_result(resolved)

    names.ask(host, answer)
    return await told
