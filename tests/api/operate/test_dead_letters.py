"""Dead letters over HTTP: listed page by page, shown, redriven, purged; by who may manage, with errors by field."""

import json
from typing import Any

import pytest

from recapito.domain.dead_letter.record import array, path
from recapito.domain.instant import HOUR, SECOND
from recapito.domain.resources.subscription import Subscription
from tests.api.client import World, run
from tests.intake.letters import letter
from tests.kit.arm_errors import refused

NOON = 1_900_000_000 * SECOND // HOUR * HOUR
BOX = {"endpointType": "Directory", "properties": {"name": "box"}}
CANARY = "canary-payload"


async def prepare(world: World) -> Subscription:
    """Five letters in two files of one subscription."""
    topic = await world.topic()
    mine = await world.subscription(deadLetterDestination=BOX)
    events = [{"id": str(n), "subject": f"orders/{n}", "eventType": "AB"[n % 2], "data": CANARY} for n in range(5)]
    for guid, part in (("a", events[:3]), ("b", events[3:])):
        world.vault.files["box", path("mine", NOON, guid)] = array([letter(topic, event) for event in part])
    return mine


def test_listed_page_by_page() -> None:
    """Letters are listed without their events, as many as wanted, and each answer says where to go on."""

    async def test(world: World) -> None:
        mine = await prepare(world)
        names: list[str] = []
        after = ""
        while after is not None:
            page = (await world.call("GET", f"/deadletters?limit=2&after={after}")).json
            names += [one["name"] for one in page["value"]]
            after = page["next"]
        where = [path("mine", NOON, guid) for guid in "ab"]
        assert names == [f"{mine.id}/{where[0]}/{n}" for n in range(3)] + [f"{mine.id}/{where[1]}/{n}" for n in (0, 1)]
        answer = await world.call("GET", "/deadletters?subscription=MINE&eventType=b&subject=orders/1&redriven=false")
        assert answer.json["value"] == [
            {
                "name": names[1],
                "topic": "orders",
                "subscription": "mine",
                "container": "box",
                "path": where[0],
                "reason": "MaxDeliveryAttemptsExceeded",
                "eventId": "1",
                "eventType": "B",
                "subject": "orders/1",
                "deliveryAttempts": 30,
                "lastDeliveryOutcome": "NotFound",
                "publishTime": "2030-01-02T03:04:05.0000000Z",
                "redriven": None,
            }
        ]
        assert (answer.json["next"], answer.json["problems"]) == (None, [])
        assert CANARY not in answer.body.decode()

    run(test)


def test_shown_whole() -> None:
    """One letter is shown with its record as it lies in the vault."""

    async def test(world: World) -> None:
        mine = await prepare(world)
        name = f"{mine.id}/{path('mine', NOON, 'a')}/2"
        answer = await world.call("GET", f"/deadletters/{name}")
        assert answer.status == 200 and answer.json["name"] == name
        assert answer.json["record"] == json.loads(world.vault.files["box", path("mine", NOON, "a")])[2]
        for other in ("x", f"{mine.id}/{path('mine', NOON, 'a')}/3", f"9/{path('mine', NOON, 'a')}/0"):
            refused(await world.call("GET", f"/deadletters/{other}"), 404, "ResourceNotFound")

    run(test)


def test_redriven_and_purged() -> None:
    """A dry run counts; a redrive marks; what was redriven is shown so, is not redriven again, and can be purged."""

    async def test(world: World) -> None:
        mine = await prepare(world)
        nothing: dict[str, Any] = {"refused": 0, "kept": 0, "problems": [], "next": None}
        for wanted, counts in (
            ({"dryRun": True}, {"selected": 5, "done": 0}),
            ({"eventType": "A", "subscription": "mine"}, {"selected": 3, "done": 3}),
            ({}, {"selected": 2, "done": 2}),
            ({}, {"selected": 0, "done": 0}),
        ):
            answer = await world.call("POST", "/deadletters/redrive", wanted)
            assert (answer.status, answer.json) == (200, {**nothing, **counts}), wanted
        shown = (await world.call("GET", "/deadletters?redriven=true")).json["value"]
        assert [one["redriven"]["redrive"] for one in shown] == [f"redrive-{n}" for n in (1, 2, 1, 2, 1)]
        assert [event for event, _ in world.told] == ["deadletter.redriven"] * 4
        answer = await world.call("POST", "/deadletters/purge", {"redriven": True, "subscription": "mine"})
        assert answer.json == {**nothing, "selected": 5, "done": 5}
        assert world.vault.files == {}
        assert (await world.call("GET", f"/deadletters/{mine.id}/{path('mine', NOON, 'a')}/0")).status == 404

    run(test)


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "7"}, "limit"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2030-13-01"}, "until"),
        ({"after": "somewhere"}, "after"),
        ({"eventsPerSecond": 0}, "eventsPerSecond"),
        ({"redriven": True}, "redriven"),
        ({"subscripton": "mine"}, "subscripton"),
        ({"dryRun": "yes"}, "dryRun"),
        ([], None),
    ],
)
def test_wrong_requests(sent: Any, target: str | None) -> None:
    """A wrong field is 400 and named, and nothing is redriven."""

    async def test(world: World) -> None:
        await prepare(world)
        answer = await world.call("POST", "/deadletters/redrive", sent)
        assert (answer.status, answer.error["target"]) == (400, target)
        assert world.told == []

    run(test)


@pytest.mark.parametrize("query", ["limit=x", "limit=0", "redriven=perhaps", "since=x", "page=2", "after=1"])
def test_wrong_lists(query: str) -> None:
    """A query that is not understood is 400 with the name of what is wrong."""

    async def test(world: World) -> None:
        answer = await world.call("GET", f"/deadletters?{query}")
        assert (answer.status, answer.error["target"]) == (400, query.partition("=")[0])

    run(test)


def test_only_for_who_may_manage() -> None:
    """From another machine, without a token, dead letters are neither seen nor touched."""

    async def test(world: World) -> None:
        await prepare(world)
        for method, where in (("GET", ""), ("GET", "/1/x"), ("POST", "/redrive"), ("POST", "/purge")):
            answer = await world.call(method, f"/deadletters{where}", {} if method == "POST" else b"", peer="192.0.2.1")
            assert answer.status == 403 and CANARY not in answer.body.decode()
        assert len(world.vault.files) == 2

    run(test)


def test_a_vault_that_is_down() -> None:
    """It is 503, with the reason, and works when it is back."""

    async def test(world: World) -> None:
        await prepare(world)
        world.vault.down = True
        for method, where in (("GET", ""), ("POST", "/redrive"), ("POST", "/purge")):
            answer = await world.call(method, f"/deadletters{where}", {} if method == "POST" else b"")
            assert answer.status == 503 and "down" in answer.error["message"]
        world.vault.down = False
        assert (await world.call("POST", "/deadletters/redrive", {})).json["done"] == 5

    run(test)


def test_one_letter_is_redriven_by_its_name() -> None:
    """Only that letter goes, once; the others stay as they are."""

    async def test(world: World) -> None:
        await prepare(world)
        names = [one["name"] for one in (await world.call("GET", "/deadletters")).json["value"]]
        answer = await world.call("POST", "/deadletters/redrive", {"name": names[1]})
        assert (answer.json["selected"], answer.json["done"]) == (1, 1)
        listed = (await world.call("GET", "/deadletters")).json["value"]
        assert [one["redriven"] is not None for one in listed] == [False, True, False, False, False]
        assert (await world.call("POST", "/deadletters/redrive", {"name": names[1]})).status == 409
        assert (await world.call("POST", "/deadletters/redrive", {"name": "9/x/0"})).status == 404
        assert (await world.call("POST", "/deadletters/redrive", {"name": names[0], "dryRun": True})).status == 400

    run(test)
