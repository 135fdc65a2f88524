"""Who sees names: metrics, the description of the API and the details of readiness."""

from typing import Any

import pytest

from recapito.api.auth.access import Access
from tests.api.client import Answer, World, run
from tests.api.known import Known, bearer

TOKEN = "a-scrape-token-of-some-length"
NAMED = ("/metrics", "/openapi.json")
ELSEWHERE = "192.0.2.1"


def access(known: Known, **changes: Any) -> Access:
    """The access of a server that other machines reach."""
    return known.access._replace(**{"open_to_loopback": False, "scrape_token": TOKEN, **changes})


async def get(world: World, path: str, token: str | None = None, peer: str = ELSEWHERE) -> Answer:
    headers = {"host": "events.example"} | ({} if token is None else bearer(token))
    return await world.call("GET", path, headers=headers, peer=peer)


@pytest.mark.parametrize("peer", [ELSEWHERE, "127.0.0.1"])
def test_off_loopback_names_need_a_token(peer: str) -> None:
    """Nothing, a wrong token, and one that ends earlier do not do; the scrape token and that of a reader do."""
    known = Known()

    async def test(world: World) -> None:
        known.clock = world.clock
        for path in NAMED:
            for token in (None, "", "wrong", TOKEN[:-1], TOKEN + "x", known.token("nothing")):
                assert (await get(world, path, token, peer)).status in (401, 403), token
            for token in (TOKEN, known.token("reader")):
                assert (await get(world, path, token, peer)).status == 200

    run(test, access=access(known))


@pytest.mark.parametrize(("reason", "status"), [(None, 200), ("The store of orders fails.", 503)])
def test_readiness_names_nothing_to_strangers(reason: str | None, status: int) -> None:
    """Every caller gets the status; the checks are for readers."""
    known = Known()

    async def test(world: World) -> None:
        known.clock = world.clock
        for token in (None, "wrong"):
            answer = await get(world, "/readyz", token)
            assert (answer.status, list(answer.json)) == (status, ["status"])
        answer = await get(world, "/readyz", TOKEN)
        assert (answer.status, answer.json["checks"]) == (status, {"store": reason or "ok", "damage": "ok"})
        assert (await get(world, "/healthz")).status == 200

    run(test, access=access(known), readiness={"store": reason})


def test_the_scrape_token_reads_nothing_else() -> None:
    """It is no token of management."""

    async def test(world: World) -> None:
        for path in ("/lanes", "/counts", "/deliveries", "/clock", "/subscriptions?api-version=2022-06-15"):
            assert (await get(world, path, TOKEN)).status == 401, path

    run(test, access=access(Known()))


def test_the_setting_opens_it() -> None:
    """Where authentication is off, anybody reads."""

    async def test(world: World) -> None:
        for path in (*NAMED, "/readyz"):
            assert (await get(world, path)).status == 200
        assert "checks" in (await get(world, "/readyz")).json

    run(test, access=access(Known(), scrape_token="", status_authenticated=False))


def test_on_loopback_this_machine_reads_and_no_page_from_elsewhere() -> None:
    """A name that is bent to loopback, and a proxy that passes on the name it was asked by, get no names."""

    async def test(world: World) -> None:
        for path in NAMED:
            assert (await world.call("GET", path)).status == 200
            assert (await get(world, path, peer="127.0.0.1")).status == 403
        assert "checks" in (await world.call("GET", "/readyz")).json
        assert "checks" not in (await get(world, "/readyz", peer="127.0.0.1")).json

    run(test)


def test_wrong_scrape_tokens_are_counted() -> None:
    """They are wrong secrets like others."""

    async def test(world: World) -> None:
        await get(world, "/metrics", "wrong")
        await get(world, "/readyz", "wrong")
        shown = (await get(world, "/metrics", TOKEN)).body.decode()
        assert 'recapito_wrong_secrets_total{at="management",answer="refused"} 2\n' in shown

    run(test, access=access(Known()))


def test_no_secret_is_in_a_repr() -> None:
    """A traceback may show it."""
    assert TOKEN not in repr(access(Known()))
