"""Estates of a cluster of several partitions: the same answers as of one server, refused whole, completed later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Scope

from recapito.domain.cluster.partition import home_of
from recapito.domain.connections.connection import Connection
from recapito.domain.estate.document import read_document
from recapito.domain.estate.estate import NO_SUBSCRIPTION, resources_of
from recapito.domain.resources.topic import TopicKind
from tests.api.client import World
from tests.api.estate.whole import WHOLE
from tests.api.partitions import Partitions

P = 3
SHOP = f"/subscriptions/{NO_SUBSCRIPTION}/resourceGroups/shop"
GRID = f"{SHOP}/providers/Microsoft.EventGrid"
PORTION = "/estate/portion"


def run(test: Callable[[Partitions], Awaitable[None]], count: int = P) -> None:
    async def whole() -> None:
        async with Partitions(count).serve() as cluster:
            await asyncio.wait_for(test(cluster), 30)

    asyncio.run(whole())


def topics(cluster: Partitions, *numbers: int, **properties: Any) -> dict[str, Any]:
    """An estate with a topic, and a subscription of it, in each of these partitions."""
    hook = {"name": "hook", "endpoint": "https://example.com/hook"}
    named = [{"name": cluster.name_in(number), "subscriptions": [hook], **properties} for number in numbers]
    return {"resourceGroup": "shop", "topics": named}


def steps(answer: Any) -> list[str]:
    assert answer.status == 200, answer.body
    shown = [" ".join([step["action"], step["resource"], *step.get("changed", [])]) for step in answer.json["steps"]]
    return [*shown, *(f"failed {failure['resource']}" for failure in answer.json["failed"])]


def test_the_answers_are_those_of_one_server() -> None:
    """Plan, report, second plan, changes, both exports, and an export applied to an empty cluster of another size."""
    document = read_document(WHOLE).data
    changed = read_document(WHOLE.replace("labels: [red, green]", "labels: [red]").replace("env: prod", "env: test"))

    async def test(cluster: Partitions) -> None:
        async def find(resource_id: str) -> Connection | None:
            assert one.estate is not None
            return await one.estate.parts.keyring.find(resource_id)

        async with World(estate=True, find_connection=find) as one:

            async def both(body: dict[str, Any]) -> Any:
                alone = await one.call("POST", "/estate", body)
                spread = await cluster.call("POST", "/estate", body)
                assert (spread.status, spread.json) == (alone.status, alone.json)
                return spread.json

            planned = await both({"document": document, "dryRun": True})
            assert planned["counts"]["create"] == 17
            assert (await cluster.export()) == {}
            assert await both({"document": document}) == planned
            assert (await both({"document": document}))["counts"]["keep"] == 17
            assert [step["action"] for step in (await both({"document": changed.data}))["steps"]] == ["update"] * 4
            for query in ("?format=estate", "?format=arm&resourceGroup=shop"):
                shown = await one.call("GET", f"/estate{query}")
                assert (await cluster.call("GET", f"/estate{query}")).json == shown.json
                secret = await one.call("POST", f"/estate/export{query}", {})
                assert await cluster.export(query) == secret.json
        copy = await cluster.export()
        homes = {home_of(each["name"], P) for each in (*copy["topics"], *copy["domains"], *copy["systemTopics"])}
        assert len(homes) > 1
        async with Partitions(2).serve() as empty:
            assert (await empty.estate(copy)).status == 200
            assert await empty.export() == copy

    run(test)


def test_a_fault_in_one_partition_changes_none() -> None:
    """One partition cannot take its part: the error is its own, with the place, and the others keep what they have."""

    async def test(cluster: Partitions) -> None:
        assert (await cluster.estate(topics(cluster, 2))).status == 200
        before = await cluster.export()
        document = topics(cluster, 0, 1, 2)
        document["topics"][2]["inputSchema"] = "CloudEventSchemaV1_0"
        for more in ({}, {"dryRun": True}):
            refused = await cluster.estate(document, **more)
            assert (refused.status, refused.error["target"]) == (400, "topics[2].inputSchema")
        assert await cluster.export() == before
        document["topics"][2]["nonsense"] = 1
        refused = await cluster.estate(document)
        assert (refused.status, refused.error["target"]) == (400, "topics[2].nonsense")

    run(test)


def test_without_an_owner_nothing_begins() -> None:
    """A plan, an application and an export need all partitions: 503 names the missing one, and none is asked."""

    async def test(cluster: Partitions) -> None:
        asked: list[str] = []
        cluster.heed = lambda number, scope: asked.append(f"{number} {scope['path']}")
        url = cluster.urls[2]
        cluster.urls[2] = ""
        for more in ({}, {"dryRun": True}):
            refused = await cluster.estate(topics(cluster, 0, 1), **more)
            assert (refused.status, refused.error["code"]) == (503, "ServerBusy")
            assert "partitions 2 of" in refused.error["message"]
        assert set(asked) == {"0 /estate"}
        shown = await cluster.call("GET", "/estate")
        assert shown.status == 503 and "Partition 2" in shown.error["message"]
        cluster.urls[2] = url
        assert (await cluster.export()) == {}
        cluster.urls[0] = ""
        refused = await cluster.estate(topics(cluster, 1))
        assert refused.status == 503 and "Partition 0" in refused.error["message"]

    run(test)


def test_a_partition_that_is_lost_makes_the_outcome_unknown() -> None:
    """The owner vanishes, or fails, after the plan: the others change, and sending the same again completes it."""

    async def test(cluster: Partitions) -> None:
        url, portions = cluster.urls[2], [0]

        def vanish(number: int, scope: Scope) -> None:
            portions[0] += scope["path"] == PORTION
            if portions[0] == P - 1:  # all have planned
                cluster.urls[2] = ""

        def fail(number: int, scope: Scope) -> None:
            portions[0] += scope["path"] == PORTION
            if number == 2 and portions[0] > P - 1:
                raise RuntimeError("a failure of this test")

        cluster.heed = vanish
        document = topics(cluster, 0, 1, 2)
        unknown = await cluster.estate(document)
        assert (unknown.status, unknown.error["code"]) == (503, "OutcomeUnknown")
        cluster.heed, cluster.urls[2] = lambda number, scope: None, url
        left = await cluster.estate(document)
        assert steps(left) == [f"create topic {cluster.name_in(2)}", f"create subscription {cluster.name_in(2)}/hook"]
        portions[0], cluster.heed = 0, fail
        document = topics(cluster, 0, 1, 2, tags={"env": "test"})
        unknown = await cluster.estate(document)
        assert (unknown.status, unknown.error["code"]) == (503, "OutcomeUnknown")
        cluster.heed = lambda number, scope: None
        assert steps(await cluster.estate(document)) == [f"update topic {cluster.name_in(2)} tags"]
        assert steps(await cluster.estate(document)) == []

    run(test)


def test_nothing_is_done_if_no_partition_could_begin() -> None:
    """The only partition that is to change loses its owner after the plan: a plain 503, for nothing was done."""

    async def test(cluster: Partitions) -> None:
        await cluster.estate({"resourceGroups": [{"name": "shop"}]})
        url, asked = cluster.urls[1], [0]

        def vanish(number: int, scope: Scope) -> None:
            asked[0] += scope["path"] == PORTION
            cluster.urls[1] = "" if asked[0] == P - 1 else url

        cluster.heed = vanish
        refused = await cluster.estate(topics(cluster, 1))
        assert (refused.status, refused.error["code"]) == (503, "ServerBusy")

    run(test)


def test_a_change_between_plan_and_application_is_a_failed_step() -> None:
    """Another client makes a part impossible after the plan: the report names its steps, the others are made."""

    async def test(cluster: Partitions) -> None:
        portions = [0]
        name = cluster.name_in(2)

        def meddle(number: int, scope: Scope) -> None:
            portions[0] += scope["path"] == PORTION
            if number == 2 and portions[0] > P - 1:
                cluster.heed = lambda number, scope: None
                scope["path"] = scope["raw_path"] = "/estate/portion/nowhere"

        cluster.heed = meddle
        report = steps(await cluster.estate(topics(cluster, 1, 2)))
        assert report[-2:] == [f"failed topic {name}", f"failed subscription {name}/hook"]
        assert f"create topic {cluster.name_in(1)}" in report
        assert (await cluster.arm("GET", f"{GRID}/topics/{cluster.name_in(1)}")).status == 200

    run(test)


def test_prune_in_all_partitions() -> None:
    """Resources of every partition go; a group that topics of one partition need stays in all."""

    async def test(cluster: Partitions) -> None:
        await cluster.estate({"resourceGroups": [{"name": "shop", "tags": {"a": "b"}}, {"name": "gone"}]})
        await cluster.estate(topics(cluster, 0, 1, 2))
        small = topics(cluster, 1)
        wanted = [
            *(f"delete topic {cluster.name_in(number)}" for number in (0, 2)),
            "delete resource group gone",
        ]
        assert steps(await cluster.estate(small, dryRun=True, prune=True)) == wanted
        assert steps(await cluster.estate(small, prune=True)) == wanted
        assert steps(await cluster.estate(small, prune=True)) == []
        left = await cluster.export()
        assert [each["name"] for each in left["topics"]] == [cluster.name_in(1)]
        assert left["resourceGroups"] == [{"name": "shop", "location": "local", "tags": {"a": "b"}}]
        for world in cluster.worlds:
            assert await world.topics.groups.find(NO_SUBSCRIPTION, "shop") is not None

    run(test)


def test_a_group_that_some_partitions_have() -> None:
    """A group that a topic made in one partition is no new resource; the others get it without a word."""

    async def test(cluster: Partitions) -> None:
        await cluster.estate(topics(cluster, 1))
        assert steps(await cluster.estate({"resourceGroups": [{"name": "shop"}]})) == []
        for world in cluster.worlds:
            assert await world.topics.groups.find(NO_SUBSCRIPTION, "shop") is not None
        tagged = {"resourceGroups": [{"name": "shop", "tags": {"a": "b"}}]}
        assert steps(await cluster.estate(tagged)) == ["update resource group shop tags"]

    run(test)


def test_a_group_with_several_locations() -> None:
    """Topics made a group in two locations: an export applies without a step, and the copies become alike."""

    async def test(cluster: Partitions) -> None:
        for number, location in ((1, "there"), (2, "elsewhere")):
            await cluster.arm("PUT", f"{GRID}/topics/{cluster.name_in(number)}", {"location": location})
        shown = await cluster.export()
        assert [group["location"] for group in shown["resourceGroups"]] == ["there"]
        moved = {"resourceGroups": [{"name": "shop", "location": "elsewhere"}]}
        refused = await cluster.estate(moved)
        assert (refused.status, refused.error["code"]) == (400, "InvalidResourceGroupLocation")
        assert refused.error["target"] == "resourceGroups[0].location"
        assert steps(await cluster.estate(shown, prune=True)) == []
        for world in cluster.worlds:
            group = await world.topics.groups.find(NO_SUBSCRIPTION, "shop")
            assert group is not None and group.location == "there"

    run(test)


def test_a_subscription_on_an_account_lives_with_its_system_topic() -> None:
    """Whether the document names the system topic, the cluster has it already, or there is none yet."""

    async def test(cluster: Partitions) -> None:
        account = f"{SHOP}/providers/Microsoft.Storage/storageAccounts/store"
        home = home_of(account, P)
        name = cluster.name_in((home + 1) % P, "files")
        hook = {"name": "hook", "endpoint": "https://example.com/hook"}
        topic = {"name": name, "source": account, "topicType": "Microsoft.Storage.StorageAccounts"}
        accounts = [{"name": "store", "subscriptions": [hook]}]
        both = {"resourceGroup": "shop", "storageAccounts": accounts, "systemTopics": [topic]}
        assert (await cluster.estate(both)).json["counts"]["create"] == 3
        assert steps(await cluster.estate(both)) == []
        shown = await cluster.arm("GET", f"{GRID}/systemTopics/{name}/eventSubscriptions/hook")
        assert shown.status == 200
        second = [{"name": "store", "subscriptions": [hook, {**hook, "name": "second"}]}]
        alone = {"resourceGroup": "shop", "storageAccounts": second}
        assert steps(await cluster.estate(alone)) == ["create subscription store/second"]
        assert (await cluster.arm("GET", f"{GRID}/systemTopics/{name}/eventSubscriptions/second")).status == 200
        third = {"resourceGroup": "shop", "storageAccounts": [{"name": "third", "subscriptions": [hook]}]}
        assert (await cluster.estate(third)).json["counts"]["create"] == 2
        assert steps(await cluster.estate(third)) == []
        third_home = home_of(account.replace("store", "third").replace("thirdage", "storage"), P)
        for number, world in enumerate(cluster.worlds):
            found = [each.name async for each in world.topics.walk(TopicKind.SYSTEM)]
            assert len(found) == (number == third_home) + (number == (home + 1) % P)

    run(test)


def test_a_source_has_one_system_topic_in_all_partitions() -> None:
    """A second one, in another partition or in the same document, refuses the whole, with its place."""

    async def test(cluster: Partitions) -> None:
        account = f"{SHOP}/providers/Microsoft.Storage/storageAccounts/store"
        named = [
            {"name": cluster.name_in(n, "files"), "source": account, "topicType": "Microsoft.Storage.StorageAccounts"}
            for n in range(P)
        ]
        document = {**topics(cluster, 2), "storageAccounts": [{"name": "store"}]}
        for systems in (named[:2], named):
            refused = await cluster.estate({**document, "systemTopics": systems})
            assert (refused.error["code"], refused.error["target"]) == ("SystemTopicExists", "systemTopics[1].source")
        assert await cluster.export() == {}
        assert (await cluster.estate({**document, "systemTopics": named[1:2]})).status == 200
        refused = await cluster.estate({**topics(cluster, 0), "systemTopics": named[:1]})
        assert (refused.error["code"], refused.error["target"]) == ("SystemTopicExists", "systemTopics[0].source")
        assert named[1]["name"] in refused.error["message"]
        assert len((await cluster.export())["topics"]) == 1

    run(test)


def test_each_owner_applies_its_part_of_a_file() -> None:
    """Partitions that apply one document by themselves have each its own topics; prune spares what others need."""

    async def test(cluster: Partitions) -> None:
        document = topics(cluster, 0, 1, 2)
        resources = resources_of({**document, "resourceGroups": [{"name": "shop"}, {"name": "other"}]})
        for number, world in enumerate(cluster.worlds):
            assert world.estate is not None
            await world.estate.apply(resources, prune=True)
            assert [each.name async for each in world.topics.walk(TopicKind.CUSTOM)] == [cluster.name_in(number)]
        assert steps(await cluster.estate(document)) == []
        left = resources_of(topics(cluster, 2))
        for number, world in enumerate(cluster.worlds):
            assert world.estate is not None
            gone = [step.address.title for step in await world.estate.plan(left, prune=True) if step.wish is None]
            topic = [] if number == 2 else [f"topic {cluster.name_in(number)}"]
            assert gone == [*topic, "resource group other"]

    run(test)
