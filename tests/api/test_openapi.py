"""The OpenAPI description: the paths of the server are in it with their bodies, and what it refers to is there."""

import re

from tests.api.client import World, run

PROVIDER = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.EventGrid"
JSON = "application/json"


def test_description() -> None:
    """Anybody can read it; publishing, management and operation are described, every reference leads somewhere."""

    async def test(world: World) -> None:
        answer = await world.call("GET", "/openapi.json", peer="10.0.0.5", headers={"host": "recapito.example"})
        assert (answer.status, answer.headers["content-type"]) == (200, JSON)
        paths = answer.json["paths"]
        assert {"/topics/{topic}/api/events", "/healthz", f"{PROVIDER}/topics/{{topic}}/listKeys"} <= set(paths)
        topic = paths[f"{PROVIDER}/topics/{{topic}}"]
        assert {"get", "put", "patch", "delete", "parameters"} == set(topic)
        schema = topic["put"]["requestBody"]["content"][JSON]["schema"]
        assert schema == {"$ref": "#/components/schemas/Topic"}
        subscription = paths[f"{PROVIDER}/topics/{{topic}}/eventSubscriptions/{{name}}"]
        assert subscription["patch"]["requestBody"]["content"][JSON]["schema"]["$ref"].endswith(
            "SubscriptionProperties"
        )
        for reference in re.findall(r'"\$ref": "#/([^"]+)"', answer.body.decode()):
            found = answer.json
            for step in reference.split("/"):
                found = found[step]

    run(test)
