"""Wrong secrets are counted, slowed down and journalled, in bounded memory, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.clock import SECOND, ManualClock
from recapito.domain import limits
from recapito.domain.access.guess_budget import Budget
from recapito.errors import TooManyRequests
from recapito.identity.wrong_secrets import WrongSecrets

HERE = "192.0.2.1"


class Scene:
    """Wrong secrets with a budget of three, and what the journal heard."""

    def __init__(self) -> None:
        self.wall = ManualClock(1000 * SECOND)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.secrets = WrongSecrets(self.wall, lambda event, **fields: self.told.append((event, fields)), Budget(3))

    async def show(self, address: str = HERE, whose: str | None = None) -> asyncio.Task[None]:
        """Show a wrong secret; what becomes of it."""
        shown = asyncio.create_task(self.secrets.refused("token", address, whose))
        for _ in range(3):
            await asyncio.sleep(0)
        return shown

    async def spend(self, address: str = HERE, whose: str | None = None) -> None:
        """Use up the budget."""
        for _ in range(3):
            assert (await self.show(address, whose)).exception() is None


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    async def whole() -> None:
        await test(Scene())

    asyncio.run(whole())


def test_a_wrong_secret_over_the_budget_is_held_back_and_answered_429() -> None:
    """The fourth waits its moment and says when to come again; a second later one more is refused at once."""

    async def test(scene: Scene) -> None:
        await scene.spend()
        slow = await scene.show()
        assert not slow.done()
        scene.wall.move_to(scene.wall.now() + limits.HELD_REFUSAL_NS)
        with pytest.raises(TooManyRequests) as refused:
            await slow
        assert refused.value.retry_after_s == 1
        assert scene.secrets.counts == {("token", "refused"): 3, ("token", "slowed"): 1}
        scene.wall.move_to(scene.wall.now() + 2 * SECOND)
        assert (await scene.show()).exception() is None

    run(test)


@pytest.mark.parametrize(("address", "whose"), [("192.0.2.2", "orders"), (HERE, "bills")])
def test_the_address_and_the_one_it_is_tried_on_have_budgets_of_their_own(address: str, whose: str) -> None:
    """Many addresses that try one principal are slowed down, and one address that tries many."""

    async def test(scene: Scene) -> None:
        await scene.spend(HERE, "orders")
        slow = await scene.show(address, whose)
        assert not slow.done()
        slow.cancel()
        assert (await scene.show("192.0.2.3", "others")).exception() is None

    run(test)


def test_held_back_are_so_many_of_one_address() -> None:
    """Beyond it they are answered at once, and where `check` is asked none is looked at; elsewhere nothing changes."""

    async def test(scene: Scene) -> None:
        await scene.spend()
        held = [await scene.show() for _ in range(limits.HELD_REFUSALS)]
        assert not any(one.done() for one in held)
        assert isinstance((await scene.show()).exception(), TooManyRequests)
        with pytest.raises(TooManyRequests):
            scene.secrets.check("token", HERE)
        scene.secrets.check("token", "192.0.2.2")
        scene.wall.move_to(scene.wall.now() + limits.HELD_REFUSAL_NS)
        await asyncio.gather(*held, return_exceptions=True)
        scene.secrets.check("token", HERE)

    run(test)


def test_the_journal_hears_of_it_now_and_then() -> None:
    """One line in ten seconds, with the address and whose secret was tried."""

    async def test(scene: Scene) -> None:
        await scene.spend(whose="orders")
        tasks = [await scene.show(whose="orders") for _ in range(5)]
        assert scene.told == [("secret.guessed", {"door": "token", "address": HERE, "whose": "orders", "slowed": 1})]
        scene.wall.move_to(scene.wall.now() + limits.GUESSING_TOLD_NS)
        tasks += [await scene.show(whose="orders") for _ in range(5)]
        assert [fields["slowed"] for _, fields in scene.told] == [1, 6]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test)


def test_memory_is_bounded() -> None:
    """More addresses than are counted push out those counted longest ago."""

    async def test(scene: Scene) -> None:
        await scene.spend()
        for n in range(limits.GUESSERS):
            await scene.secrets.refused("token", f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
        assert repr(scene.secrets) == f"<WrongSecrets of {limits.GUESSERS}, 0 held back>"
        assert (await scene.show()).exception() is None

    run(test)
