"""Damaged records over HTTP."""

from base64 import b64encode

import pytest

from recapito.api.errors import journal_fault, refusal
from recapito.contracts.damage import Damage
from recapito.domain.cluster.partition import Partition
from recapito.errors import InvalidInput, StoreDamaged
from recapito.intake.maintenance.damage_report import DamageReport
from tests.api.client import EVENTS, GROUP, World, event, run, webhook
from tests.kit.arm_errors import refused
from tests.stores.spoil import MemorySpoiler

ENTRY = Damage("entry", 1, 0, 3, 0, 2, b"\xff body", b"columns")


async def find_damage(world: World, count: int = 1) -> None:
    """Damaged entries of a topic are found."""
    await world.topic()
    for n in range(count):
        await world.ledger.set_aside(ENTRY._replace(position=3 + n))


def test_damage_is_listed_and_shown() -> None:
    """Each record has its place and the name of its topic; one alone has its bytes."""

    async def test(world: World) -> None:
        assert (await world.call("GET", "/damaged")).json == {"value": [], "next": None}
        await find_damage(world, 3)
        first = (await world.call("GET", "/damaged?limit=2")).json
        assert ([one["name"] for one in first["value"]], first["next"]) == (["entry-1", "entry-2"], 2)
        (last,) = (await world.call("GET", "/damaged?limit=2&after=2")).json["value"]
        assert last == {
            "name": "entry-3",
            "number": 3,
            "table": "entry",
            "topic": "orders",
            "topicId": 1,
            "subscription": "",
            "subscriptionId": 0,
            "position": 5,
            "offset": 0,
            "events": 2,
            "bytes": 13,
            "dismissed": False,
        }
        shown = (await world.call("GET", "/damaged/entry-3")).json
        bytes_of = {"content": b64encode(ENTRY.content).decode(), "columns": b64encode(ENTRY.columns).decode()}
        assert shown == {**last, **bytes_of}

    run(test)


@pytest.mark.parametrize("name", ["entry-2", "parked-1", "entry", "entry-x", "entry-99999999999999999999"])
def test_a_record_that_is_not_there(name: str) -> None:
    """It is not found, whatever the name looks like."""

    async def test(world: World) -> None:
        await find_damage(world)
        refused(await world.call("GET", f"/damaged/{name}"), 404, "ResourceNotFound")

    run(test)


def test_damage_is_warned_of_until_it_is_dismissed() -> None:
    """The server stays ready and says that it is degraded; what is found later is warned of again."""

    async def test(world: World) -> None:
        await find_damage(world, 2)
        answer = await world.call("GET", "/readyz")
        assert (answer.status, answer.json["status"]) == (200, "degraded")
        assert answer.json["checks"]["damage"] == "2 damaged records were set aside: see `recapito damaged list`"
        assert 'recapito_damaged_records{table="entry"} 2' in (await world.call("GET", "/metrics")).body.decode()
        assert (await world.call("POST", "/damaged/dismiss", {"number": 2})).json == {"dismissed": 2}
        assert (await world.call("GET", "/readyz")).json["status"] == "ready"
        assert [one["dismissed"] for one in (await world.call("GET", "/damaged")).json["value"]] == [True, True]
        await world.ledger.set_aside(ENTRY._replace(position=9))
        assert (await world.call("GET", "/readyz")).json["status"] == "degraded"
        await world.call("POST", "/damaged/dismiss", {"number": 1})
        assert (await world.call("GET", "/damaged/entry-2")).json["dismissed"] is True
        refused(await world.call("POST", "/damaged/dismiss", {"number": 4}), 400, "InvalidRequest", "number")

    run(test)


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/entry-1"), ("POST", "/dismiss")])
def test_who_may_not_manage_sees_no_damage(method: str, path: str) -> None:
    """Damaged records hold events: they are for who may manage."""

    async def test(world: World) -> None:
        body = {"number": 1} if method == "POST" else b""
        answer = await world.call(method, f"/damaged{path}", body, peer="192.0.2.1")
        assert answer.status == 403

    run(test)


def test_an_event_in_a_damaged_record_is_explained() -> None:
    """The explanation says that it was stored, and where its bytes are."""

    async def test(world: World) -> None:
        await world.topic()
        await world.ledger.set_aside(ENTRY._replace(content=b'{"id":"lost-one"'))
        answer = await world.call("GET", "/deliveries/explain?event=lost-one")
        refused(answer, 404, "EventDamaged", "event")
        assert "recapito damaged export entry-1" in answer.error["message"]

    run(test)


def test_a_damaged_topic_takes_no_events() -> None:
    """Publishing to it is 503 and says why; other topics take theirs; it is listed until it is whole."""

    async def test(world: World) -> None:
        topic = await world.topic()
        MemorySpoiler(world.log._disk).topic(topic.id)
        answer = await world.call("POST", EVENTS, [event()], headers={"aeg-sas-key": topic.key1})
        assert (answer.status, answer.headers["retry-after"]) == (503, "60")
        assert "damaged" in answer.error["message"]
        (listed,) = (await world.call("GET", "/damaged")).json["value"]
        assert (listed["name"], listed["dismissed"]) == (f"topic:{topic.id}", False)
        shown = (await world.call("GET", f"/damaged/topic:{topic.id}")).json
        assert shown["content"] == b64encode(b"rotten").decode()
        assert (await world.call("GET", "/readyz")).json["status"] == "degraded"
        assert 'recapito_damaged_records{table="topic"} 1' in (await world.call("GET", "/metrics")).body.decode()

    run(test)


def test_a_damaged_topic_is_left_out_of_lists() -> None:
    """Lanes and subscriptions of other topics are listed, and the warning tells what to do."""

    async def test(world: World) -> None:
        topic = await world.topic()
        await world.subscription()
        assert (await world.arm("PUT", f"{GROUP}/topics/others", {"location": "westus2"})).status == 201
        destination = {"destination": webhook()}
        path = f"{GROUP}/topics/others/eventSubscriptions/theirs"
        assert (await world.arm("PUT", path, {"properties": destination})).status == 201
        MemorySpoiler(world.log._disk).topic(topic.id)
        assert [lane["topic"] for lane in (await world.call("GET", "/lanes")).json["value"]] == ["others"]
        listed = await world.arm("GET", f"{GROUP}/eventSubscriptions")
        assert [one["name"] for one in listed.json["value"]] == ["theirs"]
        warning = "1 record of a resource is damaged until a backup is restored: see `recapito damaged list`"
        assert (await world.call("GET", "/readyz")).json["checks"]["damage"] == warning

    run(test)


def test_a_damaged_file_is_no_doubt_about_a_request() -> None:
    """A request that needs it says so, and the journal has a line without a traceback."""
    answer = refusal(StoreDamaged("log.db: database disk image is malformed"))
    assert (answer.status, answer.code, answer.headers) == (503, "StoreDamaged", ((b"retry-after", b"60"),))
    assert "recapito doctor" in answer.message and "log.db" not in answer.message
    lines: list[dict[str, object]] = []
    journal_fault(lambda event, **fields: lines.append(fields), StoreDamaged("log.db: malformed"), "7")
    assert lines == [{"report": "7", "error": "log.db: malformed"}]


def test_numbers_tell_their_partition() -> None:
    """Records of a partition are listed, shown and dismissed by numbers above its first; pages start after them."""

    async def test(world: World) -> None:
        await find_damage(world, 3)
        first = Partition(2, 4).first_id
        report = DamageReport(world.log, world.ledger, first)
        names = [f"entry-{first + n}" for n in (1, 2, 3)]
        for after, shown in ((0, names), (Partition(1, 4).first_id + 9, names), (first + 1, names[1:])):
            assert [record.name for record in await report.page(after, 10)] == shown
        assert await report.page(Partition(3, 4).first_id, 10) == []
        assert (await report.find(names[1])).number == first + 2
        await report.dismiss(first + 2)
        assert [record.dismissed for record in await report.page(0, 10)] == [True, True, False]
        assert await report.unseen() == {"entry": 1}
        with pytest.raises(InvalidInput):
            await report.dismiss(first + 4)

    run(test)
