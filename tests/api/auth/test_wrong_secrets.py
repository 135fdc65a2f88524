"""Wrong secrets over HTTP: wherever one is shown, too many are slowed down, and a right one is not."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import pytest

from recapito.domain import limits
from recapito.domain.access.guess_budget import Budget
from tests.api.client import EVENTS, Answer, World, event, run
from tests.api.known import MANAGEMENT, SECRET, TENANT, Known, bearer

BUDGET = Budget(5)
Show = Callable[[World, Known, bool], Awaitable[Answer]]


async def show_key(world: World, known: Known, right: bool) -> Answer:
    topic = await world.log.topic("orders") or await world.topic()
    return await world.publish([event()], topic.key1 if right else "wrong")


async def show_sas(world: World, known: Known, right: bool) -> Answer:
    if right:
        return await show_key(world, known, right)
    headers = {"aeg-sas-token": "r=x&e=1&s=y"}
    return await world.call("POST", EVENTS, [event()], headers=headers)


async def show_secret(world: World, known: Known, right: bool) -> Answer:
    form = {
        "grant_type": "client_credentials",
        "client_id": "reader",
        "client_secret": SECRET if right else "wrong",
        "resource": MANAGEMENT,
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return await world.call("POST", f"/{TENANT}/oauth2/token", urlencode(form).encode(), headers=headers)


async def show_token(world: World, known: Known, right: bool) -> Answer:
    token = known.token("everything") if right else known.token("everything")[:-8] + "AAAAAAAA"
    return await world.arm("GET", "/subscriptions", headers=bearer(token))


@pytest.mark.parametrize(
    ("at", "show"),
    [("publish", show_key), ("publish", show_sas), ("token", show_secret), ("management", show_token)],
    ids=["key", "SAS", "secret", "bearer"],
)
def test_too_many_wrong_secrets_are_slowed_down(at: str, show: Show) -> None:
    """Within the budget 401 at once; over it 429 after a moment. The right secret is taken at once all the while."""
    known = Known()

    async def test(world: World) -> None:
        known.clock = world.clock
        assert (await show(world, known, True)).status == 200
        for _ in range(BUDGET.wrong):
            assert (await show(world, known, False)).status == 401
        slow = asyncio.create_task(show(world, known, False))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not slow.done()
        assert (await show(world, known, True)).status == 200
        world.patience.move_to(limits.HELD_REFUSAL_NS)
        answer = await slow
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert [name for name, _ in world.told] == ["secret.guessed"]
        shown = (await world.call("GET", "/metrics")).body.decode()
        assert f'recapito_wrong_secrets_total{{at="{at}",answer="refused"}} {BUDGET.wrong}\n' in shown
        assert f'recapito_wrong_secrets_total{{at="{at}",answer="slowed"}} 1\n' in shown

    run(test, access=known.access, budget=BUDGET)


def test_a_secret_in_the_wrong_field_is_nowhere() -> None:
    """The journal has no unknown client ids: one may be a secret."""
    known = Known()

    async def test(world: World) -> None:
        form = {"grant_type": "client_credentials", "client_id": SECRET, "client_secret": "x", "resource": MANAGEMENT}
        tasks = [
            asyncio.create_task(world.call("POST", f"/{TENANT}/oauth2/token", urlencode(form).encode()))
            for _ in range(BUDGET.wrong + 1)
        ]
        for _ in range(100):
            await asyncio.sleep(0)
        world.patience.move_to(limits.HELD_REFUSAL_NS)
        assert sorted(answer.status for answer in await asyncio.gather(*tasks)) == [401] * BUDGET.wrong + [429]
        ((name, fields),) = world.told
        assert name == "secret.guessed" and SECRET not in str(fields)

    run(test, access=known.access, budget=BUDGET)
