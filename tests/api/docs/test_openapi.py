"""The description of the API: complete, and without a reference that leads nowhere."""

import re

from tests.api.client import World, run


def test_every_resource_is_described() -> None:
    """Topics, subscriptions under both names, groups, publishing and operating all have their paths and bodies."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/openapi.json")
        paths = answer.json["paths"]
        group = "/subscriptions/{subscription}/resourceGroups/{group}"
        topic = f"{group}/providers/Microsoft.EventGrid/topics/{{topic}}"
        for path in (
            group,
            topic,
            f"{topic}/eventSubscriptions/{{name}}",
            "/{scope}/providers/Microsoft.EventGrid/eventSubscriptions/{name}",
            "/topics/{topic}/api/events",
            "/clock/advance",
            "/deadletters",
            "/deadletters/redrive",
            "/deadletters/{name}",
        ):
            assert path in paths
        put = paths[f"{topic}/eventSubscriptions/{{name}}"]["put"]
        assert put["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/SubscriptionBody")

    run(test)


def test_every_reference_and_parameter_is_there() -> None:
    """Each schema that is referred to exists, and each parameter of a path is described with it."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/openapi.json")
        referred = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.body.decode()))
        assert referred <= set(answer.json["components"]["schemas"])
        for path, shown in answer.json["paths"].items():
            described = {one["name"] for one in shown.get("parameters", []) if one["in"] == "path"}
            assert set(re.findall(r"\{(\w+)\}", path)) == described

    run(test)
