"""Deployments to a cluster of several partitions: resources of all of them in one template, one place of records."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.client import VERSION
from tests.api.known import Known
from tests.api.partitions import Partitions

P = 3
GROUP = "/subscriptions/5b4b650e/resourceGroups/shop"
GRID = f"{GROUP}/providers/Microsoft.EventGrid"
PLACE = f"{GROUP}/providers/Microsoft.Resources/deployments"
URL = "http://127.0.0.1:8585"


def run(test: Callable[[Partitions], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with Partitions(P).serve(**options) as cluster:
            await asyncio.wait_for(test(cluster), 30)

    asyncio.run(whole())


def topic(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "Microsoft.EventGrid/topics", "apiVersion": "2022-06-15", "name": name, **more}


def hook(name: str) -> dict[str, Any]:
    parent = f"[resourceId('Microsoft.EventGrid/topics', '{name}')]"
    destination = {"endpointType": "WebHook", "properties": {"endpointUrl": "[parameters('url')]"}}
    return {
        "type": "Microsoft.EventGrid/topics/eventSubscriptions",
        "name": f"{name}/hook",
        "dependsOn": [parent],
        "properties": {"destination": destination},
    }


def body(resources: list[dict[str, Any]], outputs: Any = None) -> dict[str, Any]:
    template = {
        "parameters": {"url": {"type": "secureString", "defaultValue": "https://example.com/hook"}},
        "resources": resources,
        "outputs": outputs or {},
    }
    return {"properties": {"mode": "Incremental", "template": template}}


def test_a_deployment_to_all_partitions() -> None:
    """One template makes topics everywhere; its outputs have keys and states of each; it is kept, shown, forgotten."""

    async def test(cluster: Partitions) -> None:
        assert (await cluster.arm("PUT", GROUP, {"location": "local"})).status == 201
        names = [cluster.name_in(number) for number in range(P)]
        outputs = {
            f"key{number}": {"type": "string", "value": f"[listKeys('{name}', '2022-06-15').key1]"}
            for number, name in enumerate(names)
        } | {
            f"url{number}": {"type": "string", "value": f"[reference('{name}').endpoint]"}
            for number, name in enumerate(names)
        }
        sent = body([each for name in names for each in (hook(name), topic(name))], outputs)
        foreseen = await cluster.arm("POST", f"{PLACE}/first/whatIf", sent)
        assert {each["changeType"] for each in foreseen.json["properties"]["changes"]} == {"Create"}
        checked = await cluster.arm("POST", f"{PLACE}/first/validate", sent)
        assert len(checked.json["properties"]["validatedResources"]) == 2 * P
        assert (await cluster.arm("GET", PLACE)).json["value"] == []
        made = await cluster.arm("PUT", f"{PLACE}/first", sent)
        assert made.status == 201, made.body
        properties = made.json["properties"]
        assert len(properties["outputResources"]) == 2 * P
        for number, name in enumerate(names):
            keys = (await cluster.arm("POST", f"{GRID}/topics/{name}/listKeys", {})).json
            assert properties["outputs"][f"key{number}"]["value"] == keys["key1"]
            assert name in properties["outputs"][f"url{number}"]["value"]
            assert (await cluster.arm("GET", f"{GRID}/topics/{name}/eventSubscriptions/hook")).status == 200
        assert (await cluster.arm("PUT", f"{PLACE}/first", sent)).status == 200
        assert [each["name"] for each in (await cluster.arm("GET", PLACE)).json["value"]] == ["first"]
        assert (await cluster.arm("GET", f"{PLACE}/first")).status == 200
        assert len((await cluster.arm("GET", f"{PLACE}/first/operations")).json["value"]) == 2 * P
        for name in (names[0], names[2]):  # a state of another partition, in the body of a resource
            id = f"resourceId('Microsoft.EventGrid/topics', '{name}')"
            state = {
                "endpoint": f"[reference({id}, '2022-06-15').endpoint]",
                "key": f"[listKeys({id}, '2022-06-15').key2]",
            }
            tagged = await cluster.arm("PUT", f"{PLACE}/second", body([topic(names[1], tags=state)]))
            assert tagged.status in (200, 201), tagged.body
            tags = (await cluster.arm("GET", f"{GRID}/topics/{names[1]}")).json["tags"]
            assert name in tags["endpoint"] and len(tags["key"]) == 44
        assert (await cluster.arm("DELETE", f"{PLACE}/first")).status == 204
        assert (await cluster.arm("GET", f"{PLACE}/first")).error["code"] == "DeploymentNotFound"

    run(test)


def test_a_wrong_part_changes_nothing() -> None:
    """A fault that one partition finds refuses the template, with its place in it; nothing is kept."""

    async def test(cluster: Partitions) -> None:
        await cluster.arm("PUT", GROUP, {"location": "local"})
        names = [cluster.name_in(number) for number in range(P)]
        await cluster.arm("PUT", f"{GRID}/topics/{names[2]}", {"location": "local"})
        wrong = topic(names[2], properties={"inputSchema": "CloudEventSchemaV1_0"})
        refused = await cluster.arm("PUT", f"{PLACE}/first", body([topic(names[0]), topic(names[1]), wrong]))
        assert (refused.status, refused.error["code"]) == (400, "InvalidTemplateDeployment")
        assert refused.error["target"] == "properties.template.resources[2].properties.inputSchema"
        assert [each["name"] for each in (await cluster.arm("GET", f"{GRID}/topics")).json["value"]] == [names[2]]
        assert (await cluster.arm("GET", PLACE)).json["value"] == []
        id = f"resourceId('Microsoft.EventGrid/topics', '{cluster.name_in(1, 'no')}')"
        missing = body([topic(names[0], tags={"x": f"[reference({id}, '2022-06-15').endpoint]"})])
        assert "is not known" in (await cluster.arm("PUT", f"{PLACE}/first", missing)).error["message"]

    run(test)


def test_the_deployments_of_a_group() -> None:
    """A group that another partition alone has takes deployments; they go with the group, wherever it comes back."""

    async def test(cluster: Partitions) -> None:
        there = f"{GRID}/topics/{cluster.name_in(1)}"
        assert (await cluster.arm("GET", PLACE)).error["code"] == "ResourceGroupNotFound"
        await cluster.arm("PUT", there, {"location": "local"})
        assert (await cluster.arm("GET", PLACE)).json["value"] == []
        assert (await cluster.arm("PUT", f"{PLACE}/first", body([topic(cluster.name_in(2))]))).status == 201
        assert len((await cluster.arm("GET", PLACE)).json["value"]) == 1
        assert (await cluster.arm("DELETE", GROUP)).status == 200
        assert (await cluster.arm("GET", PLACE)).error["code"] == "ResourceGroupNotFound"
        await cluster.arm("PUT", there, {"location": "local"})
        assert (await cluster.arm("GET", PLACE)).json["value"] == []
        cluster.urls[2] = ""
        assert (await cluster.arm("PUT", f"{PLACE}/first", body([topic(cluster.name_in(1))]))).status == 503

    run(test)


def test_a_client_has_the_same_rights_in_every_partition() -> None:
    """A reader exports without secrets and changes nothing; a contributor applies; a wrong token is refused."""
    known = Known()

    async def test(cluster: Partitions) -> None:
        for world in cluster.worlds:
            known.clock = world.clock
        reader, contributor = known.token("reader"), known.token("contributor")
        document = {"resourceGroup": "shop", "topics": [{"name": cluster.name_in(n)} for n in range(P)]}
        sent = {"document": document}
        assert (await cluster.call("POST", "/estate", sent, contributor)).json["counts"]["create"] == P
        shown = await cluster.call("GET", f"/estate?{VERSION}", token=reader)
        assert [each["name"] for each in shown.json["topics"]] == sorted(each["name"] for each in document["topics"])
        assert "keys" not in shown.json["topics"][0]
        for method, path in (("POST", "/estate"), ("POST", "/estate/export")):
            assert (await cluster.call(method, path, sent, reader)).status == 403
            assert (await cluster.call(method, path, sent, "wrong")).status == 401

    run(test, access=known.access)
