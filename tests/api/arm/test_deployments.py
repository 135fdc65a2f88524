"""Deployments over HTTP: created, validated, foreseen, listed and forgotten; a wrong template changes nothing."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.client import GROUP as GRID
from tests.api.client import VERSION, World

GROUP = GRID.partition("/providers")[0]
PLACE = f"{GROUP}/providers/Microsoft.Resources/deployments"
TOPIC = {"type": "Microsoft.EventGrid/topics", "apiVersion": "2022-06-15", "name": "[parameters('name')]"}
HOOK = {"endpointType": "WebHook", "properties": {"endpointUrl": "[parameters('url')]"}}
SUBSCRIPTION = {
    "type": "Microsoft.EventGrid/topics/eventSubscriptions",
    "name": "[concat(parameters('name'), '/mine')]",
    "dependsOn": ["[resourceId('Microsoft.EventGrid/topics', parameters('name'))]"],
    "properties": {"destination": HOOK},
}
TEMPLATE = {
    "parameters": {"name": {"type": "string"}, "url": {"type": "secureString"}},
    "resources": [SUBSCRIPTION, TOPIC],
    "outputs": {"key": {"type": "string", "value": "[listKeys(parameters('name'), '2022-06-15').key1]"}},
}
GIVEN = {"name": {"value": "orders"}, "url": {"value": "https://example.com/?code=hush"}}


def body(template: Any = TEMPLATE, given: Any = GIVEN, **more: Any) -> bytes:
    return json.dumps(
        {"properties": {"mode": "Incremental", "template": template, "parameters": given, **more}}
    ).encode()


def run(test: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with World(estate=True, **options) as world:
            await world.call("PUT", f"{GROUP}?{VERSION}", b'{"location": "local"}')
            await test(world)

    asyncio.run(whole())


def test_a_deployment() -> None:
    """A PUT makes the resources and answers with outputs; the deployment can be read, listed and forgotten."""

    async def test(world: World) -> None:
        made = await world.call("PUT", f"{PLACE}/first?{VERSION}", body())
        assert made.status == 201
        properties = made.json["properties"]
        assert properties["provisioningState"] == "Succeeded"
        assert len(properties["outputs"]["key"]["value"]) == 44
        assert properties["parameters"] == {
            "name": {"type": "String", "value": "orders"},
            "url": {"type": "SecureString"},
        }
        assert len(properties["outputResources"]) == 2
        assert (await world.call("GET", f"{GRID}/topics/orders/eventSubscriptions/mine?{VERSION}")).status == 200
        assert (await world.call("PUT", f"{PLACE}/first?{VERSION}", body())).status == 200
        assert (await world.call("GET", f"{PLACE}/first?{VERSION}")).json == made.json
        assert [one["name"] for one in (await world.call("GET", f"{PLACE}/?{VERSION}")).json["value"]] == ["first"]
        operations = (await world.call("GET", f"{PLACE}/first/operations?{VERSION}")).json["value"]
        types = [one["properties"]["targetResource"]["resourceType"] for one in operations]
        assert types == ["Microsoft.EventGrid/topics", "Microsoft.EventGrid/topics/eventSubscriptions"]
        assert (await world.call("HEAD", f"{PLACE}/first?{VERSION}")).status == 204
        assert (await world.call("DELETE", f"{PLACE}/first?{VERSION}")).status == 204
        assert (await world.call("HEAD", f"{PLACE}/first?{VERSION}")).status == 404
        gone = await world.call("GET", f"{PLACE}/first?{VERSION}")
        assert (gone.status, gone.error["code"]) == (404, "DeploymentNotFound")
        assert (await world.call("GET", f"{GRID}/topics/orders?{VERSION}")).status == 200

    run(test)


def test_validate_and_what_if_change_nothing() -> None:
    """Both plan without making anything; what-if then shows what is new, changed and as it is."""

    async def changes(world: World, template: Any = TEMPLATE) -> dict[str, Any]:
        answer = await world.call("POST", f"{PLACE}/first/whatIf?{VERSION}", body(template))
        found = answer.json["properties"]["changes"]
        return {one["resourceId"].rpartition("/")[2]: one for one in found}

    async def test(world: World) -> None:
        assert (await world.call("POST", f"{PLACE}/first/validate?{VERSION}", body())).status == 200
        assert {one["changeType"] for one in (await changes(world)).values()} == {"Create"}
        assert (await world.call("GET", f"{GRID}/topics/orders?{VERSION}")).status == 404
        await world.call("PUT", f"{PLACE}/first?{VERSION}", body())
        labelled = {**SUBSCRIPTION, "properties": {"destination": HOOK, "labels": ["red"]}}
        found = await changes(world, {**TEMPLATE, "resources": [labelled, TOPIC]})
        assert found["orders"]["changeType"] == "NoChange"
        assert found["mine"]["changeType"] == "Modify"
        assert [one["path"] for one in found["mine"]["delta"]] == ["labels"]
        assert "hush" not in json.dumps(found)

    run(test)


def test_as_az_sends_it() -> None:
    """az puts the text of the file into the body: a name without quotes, comments and last commas are taken."""
    text = '// mine\n{"resources": [{"type": "Microsoft.EventGrid/topics", "name": "plain", /* no more */ },]}'

    async def test(world: World) -> None:
        sent = b'{"properties": {"mode": "Incremental", template:' + text.encode() + b"}}"
        assert (await world.call("PUT", f"{PLACE}/first?{VERSION}", sent)).status == 201
        assert (await world.call("GET", f"{GRID}/topics/plain?{VERSION}")).status == 200

    run(test)


def test_refused() -> None:
    """A wrong template, a mode or a link that is not built and a wrong name are errors that name the field."""

    async def test(world: World) -> None:
        wrong = {**TEMPLATE, "resources": [TOPIC, {**SUBSCRIPTION, "properties": {"destination": HOOK, "lables": []}}]}
        cases: list[tuple[str, bytes, str, str]] = [
            ("first", body(wrong), "InvalidTemplateDeployment", "properties.template.resources[1].properties.lables"),
            ("first", body(given={"name": {"value": 1}}), "InvalidTemplateDeployment", "properties.parameters.name"),
            ("first", body(mode="Complete"), "NotSupported", "properties.mode"),
            ("first", body(templateLink={"uri": "x"}), "NotSupported", "properties.templateLink"),
            ("first", body([]), "InvalidRequest", "properties.template"),
            ("a b", body(), "InvalidRequest", "deploymentName"),
            ("first", b"{", "InvalidRequestContent", None),
        ]  # type: ignore[list-item]
        for name, sent, code, target in cases:
            for method, verb in (("PUT", ""), ("POST", "/validate")):
                path = f"{PLACE}/{name.replace(' ', '%20')}{verb}?{VERSION}"
                answer = await world.call(method, path, sent)
                assert (answer.status, answer.error["code"], answer.error.get("target")) == (400, code, target)
        foreseen = await world.call("POST", f"{PLACE}/first/whatIf?{VERSION}", body(wrong))
        assert (foreseen.status, foreseen.json["status"]) == (200, "Failed")
        assert "'properties.lables' is not a known property" in foreseen.json["error"]["message"]
        assert (await world.call("GET", f"{GRID}/topics/orders?{VERSION}")).status == 404
        elsewhere = PLACE.replace("examplerg", "nowhere")
        assert (await world.call("PUT", f"{elsewhere}/first?{VERSION}", body())).status == 404

    run(test)


ORDERS, STORE = f"{GRID}/topics/orders", f"{GROUP}/providers/Microsoft.Storage/storageAccounts/store"
SUB = "eventSubscriptions"
FORMS = {
    f"{ORDERS}/{SUB}/mine": [
        {"type": f"Microsoft.EventGrid/topics/{SUB}", "name": "orders/mine"},
        {"type": f"Microsoft.EventGrid/topics/providers/{SUB}", "name": "orders/Microsoft.EventGrid/mine"},
        {"type": f"Microsoft.EventGrid/{SUB}", "name": "mine", "scope": ORDERS},
        {"type": f"Microsoft.EventGrid/{SUB}", "name": "mine", "scope": "Microsoft.EventGrid/topics/orders"},
    ],
    f"{GRID}/domains/many/topics/one/{SUB}/mine": [
        {"type": f"Microsoft.EventGrid/domains/topics/{SUB}", "name": "many/one/mine"},
        {"type": f"Microsoft.EventGrid/{SUB}", "name": "mine", "scope": f"{GRID}/domains/many/topics/one"},
    ],
    f"{STORE}/providers/Microsoft.EventGrid/{SUB}/mine": [
        {"type": f"Microsoft.Storage/storageAccounts/providers/{SUB}", "name": "store/Microsoft.EventGrid/mine"},
        {"type": f"Microsoft.EventGrid/{SUB}", "name": "mine", "scope": STORE},
    ],
}


def test_every_form_of_a_subscription_is_the_put_of_it() -> None:
    """Templates name the topic in several ways; each makes what a PUT of the subscription makes."""
    wanted = {
        "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "https://example.com/"}},
        "filter": {"isSubjectCaseSensitive": False, "subjectBeginsWith": "a"},
        "labels": ["red"],
    }

    async def made(world: World, id: str, form: dict[str, Any] | None) -> Any:
        await world.arm("PUT", ORDERS, {"location": "local"})
        await world.arm("PUT", f"{GRID}/domains/many", {"location": "local"})
        await world.arm("PUT", STORE, {"location": "local", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}})
        if form is None:
            answer = await world.arm("PUT", id, {"properties": wanted})
        else:
            template = {"resources": [{**form, "apiVersion": "2022-06-15", "properties": wanted}]}
            answer = await world.call("PUT", f"{PLACE}/d?{VERSION}", body(template, {}))
        assert answer.status == 201, answer.body
        return (await world.arm("GET", id)).json

    for id, forms in FORMS.items():
        seen: list[Any] = []
        for form in (None, *forms):

            async def test(world: World, form: Any = form, id: str = id, seen: list[Any] = seen) -> None:
                seen.append(await made(world, id, form))

            run(test)
        assert all(one == seen[0] for one in seen), id
