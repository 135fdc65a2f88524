"""The settings of a topic over ARM: schemas and mappings, access, values kept for show, PATCH and ETags."""

from typing import Any

import pytest

from recapito.domain import limits
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import InputSchema
from tests.api.client import GROUP, NESTED, TOPIC, Answer, World, run, webhook
from tests.kit.arm_errors import refused

MAPPING = {
    "inputSchemaMappingType": "Json",
    "properties": {
        "id": {"sourceField": "identity"},
        "topic": {"sourceField": None},
        "eventTime": {"sourceField": None},
        "eventType": {"sourceField": "kind", "defaultValue": "Order"},
        "subject": {"sourceField": None, "defaultValue": "none"},
        "dataVersion": {"sourceField": None, "defaultValue": ""},
    },
}


async def put(world: World, **properties: Any) -> Answer:
    return await world.arm("PUT", TOPIC, {"location": "westus2", "properties": properties})


async def shown(world: World) -> dict[str, Any]:
    answer = await world.arm("GET", TOPIC)
    assert answer.status == 200, answer.body
    properties: dict[str, Any] = answer.json["properties"]
    return properties


def test_the_custom_schema_and_its_mapping() -> None:
    """A mapping arrives in the topic and is shown back as it was sent, also in other spellings of its names."""

    async def test(world: World) -> None:
        assert (await put(world, inputSchema="customeventschema", InputSchemaMapping=MAPPING)).status == 201
        topic = await world.log.topic("orders")
        assert topic is not None
        assert topic.input_schema is InputSchema.CUSTOM
        assert topic.mapping == InputMapping(
            id=MappedField("identity"),
            event_type=MappedField("kind", "Order"),
            subject=MappedField(None, "none"),
            data_version=MappedField(None, ""),
        )
        properties = await shown(world)
        assert (properties["inputSchema"], properties["inputSchemaMapping"]) == ("CustomEventSchema", MAPPING)

    run(test)


def test_the_input_schema_can_not_change() -> None:
    """A PUT without it keeps it, a PUT with another is refused and names it; the mapping may change."""

    async def test(world: World) -> None:
        await put(world, inputSchema="CustomEventSchema", inputSchemaMapping=MAPPING)
        assert (await put(world, inputSchemaMapping=MAPPING)).status == 201
        assert (await shown(world))["inputSchema"] == "CustomEventSchema"
        said = refused(await put(world, inputSchema="EventGridSchema"), 400, "InvalidRequest", "properties.inputSchema")
        assert "CustomEventSchema" in said

    run(test)


@pytest.mark.parametrize(
    ("properties", "target"),
    [
        ({"inputSchemaMapping": MAPPING}, "inputSchemaMapping"),
        ({"inputSchemaMapping": {}}, "inputSchemaMapping.inputSchemaMappingType"),
        ({"inputSchemaMapping": {"inputSchemaMappingType": "Xml"}}, "inputSchemaMapping.inputSchemaMappingType"),
        (
            {"inputSchemaMapping": {**MAPPING, "properties": {"id": {"defaultValue": "x"}}}},
            "inputSchemaMapping.properties.id.defaultValue",
        ),
        (
            {"inputSchemaMapping": {**MAPPING, "properties": {"subject": {"sourceField": "x" * 513}}}},
            "inputSchemaMapping.properties.subject.sourceField",
        ),
        ({"publicNetworkAccess": "Sometimes"}, "publicNetworkAccess"),
        ({"inboundIpRules": [{"ipMask": "10.0.0.0/33"}]}, "inboundIpRules[0].ipMask"),
        ({"inboundIpRules": [{"ipMask": "10.0.0.1/8"}]}, "inboundIpRules[0].ipMask"),
        ({"inboundIpRules": [{"ipMask": "nowhere"}]}, "inboundIpRules[0].ipMask"),
        ({"inboundIpRules": [{"ipMask": ""}]}, "inboundIpRules[0].ipMask"),
        ({"inboundIpRules": [{"ipMask": "10.0.0.1", "action": "Deny"}]}, "inboundIpRules[0].action"),
        ({"inboundIpRules": [{"action": "Allow"}]}, "inboundIpRules[0].ipMask"),
        ({"inboundIpRules": [{"ipMask": "10.0.0.1"}] * (limits.IP_RULES + 1)}, "inboundIpRules"),
        ({"minimumTlsVersionAllowed": "0.9"}, "minimumTlsVersionAllowed"),
        ({"dataResidencyBoundary": "Nowhere"}, "dataResidencyBoundary"),
        ({"eventTypeInfo": {"kind": "Outline"}}, "eventTypeInfo.kind"),
    ],
)
def test_bad_settings(properties: Any, target: str) -> None:
    """A value that cannot be is 400 with its path; nothing is made."""

    async def test(world: World) -> None:
        refused(await put(world, **properties), 400, "InvalidRequest", f"properties.{target}")
        assert await world.log.topic("orders") is None

    run(test)


def test_access() -> None:
    """Local keys, the public network and the networks that may publish are stored and shown."""

    async def test(world: World) -> None:
        rules = [{"ipMask": "10.1.0.0/16", "action": "Allow"}, {"ipMask": "2001:db8::1", "action": "Allow"}]
        answer = await put(world, disableLocalAuth=True, publicNetworkAccess="disabled", inboundIpRules=rules)
        assert answer.status == 201
        topic = await world.log.topic("orders")
        assert topic is not None
        assert (topic.local_auth, topic.public_access) == (False, False)
        assert topic.ip_rules == ("10.1.0.0/16", "2001:db8::1")
        properties = await shown(world)
        assert properties["inboundIpRules"] == rules
        assert (properties["disableLocalAuth"], properties["publicNetworkAccess"]) == (True, "Disabled")

    run(test)


def test_what_has_no_effect_is_kept_and_shown() -> None:
    """An identity, a TLS version, a boundary and inline event types come back as they were sent."""

    async def test(world: World) -> None:
        kept = {
            "minimumTlsVersionAllowed": "1.2",
            "dataResidencyBoundary": "WithinRegion",
            "eventTypeInfo": {"kind": "Inline", "inlineEventTypes": {"Order": {"description": "x"}}},
        }
        body = {"identity": {"type": "SystemAssigned", "principalId": "p"}, "properties": kept}
        assert (await world.arm("PUT", TOPIC, body)).status == 201
        assert kept.items() <= (await shown(world)).items()
        identity = (await world.arm("GET", TOPIC)).json["identity"]
        assert identity == {"type": "SystemAssigned", "userAssignedIdentities": None}

    run(test)


def test_patch_changes_only_what_it_names() -> None:
    """Tags, access and rules change one by one; what is left out or null stays, the keys too."""

    async def test(world: World) -> None:
        before = await world.topic(tags={"a": "1"}, properties={"inputSchema": "CloudEventSchemaV1_0"})
        answer = await world.arm("PATCH", TOPIC, {"properties": {"disableLocalAuth": True, "inboundIpRules": None}})
        assert (answer.status, answer.headers["retry-after"]) == (201, "0")
        assert answer.json["properties"]["provisioningState"] == "Updating"
        await world.arm("PATCH", TOPIC, {"tags": {"b": "2"}})
        await world.arm("PATCH", TOPIC, {"properties": {"inboundIpRules": [{"ipMask": "10.0.0.1"}]}})
        await world.arm("PATCH", TOPIC, {})
        after = (await world.arm("GET", TOPIC)).json
        assert after["tags"] == {"b": "2"}
        assert after["location"] == "westus2"
        assert after["properties"]["disableLocalAuth"] is True
        assert after["properties"]["inputSchema"] == "CloudEventSchemaV1_0"
        assert after["properties"]["inboundIpRules"] == [{"ipMask": "10.0.0.1", "action": "Allow"}]
        keys = (await world.arm("POST", f"{TOPIC}/listKeys")).json
        assert keys == {"key1": before.key1, "key2": before.key2}
        refused(await world.arm("PATCH", TOPIC, {"colour": 1}), 400, "InvalidRequest", "colour")
        refused(await world.arm("PATCH", f"{GROUP}/topics/nobody", {}), 404, "ResourceNotFound")

    run(test)


def test_a_profile_without_custom_headers() -> None:
    """It is refused to a topic whose subscription has delivery attributes, and the attributes to a topic with it."""

    async def test(world: World) -> None:
        await world.topic()
        mappings = [{"name": "x", "type": "Static", "properties": {"value": "y"}}]
        await world.subscription(destination=webhook(deliveryAttributeMappings=mappings))
        answer = await world.arm("PATCH", TOPIC, {"tags": {"recapito-profile": "2019-07"}})
        assert "custom headers" in refused(answer, 400, "InvalidRequest", "tags.recapito-profile")
        await world.arm("DELETE", f"{NESTED}/mine")
        assert (await world.arm("PATCH", TOPIC, {"tags": {"recapito-profile": "2019-07"}})).status == 201
        body = {"properties": {"destination": webhook(deliveryAttributeMappings=mappings)}}
        target = "properties.destination.properties.deliveryAttributeMappings"
        assert "2019-07" in refused(await world.arm("PUT", f"{NESTED}/mine", body), 400, "InvalidRequest", target)

    run(test)


@pytest.mark.parametrize("path", [TOPIC, f"{NESTED}/mine"])
def test_preconditions(path: str) -> None:
    """If-Match takes the newest ETag or any, If-None-Match * only what is not there; else 412 and nothing happens."""

    async def test(world: World) -> None:
        body = {} if path == TOPIC else {"properties": {"destination": webhook()}}
        absent = await world.arm("PUT", path, body, headers={"if-match": "*"}) if path == TOPIC else None
        if absent is not None:
            refused(absent, 412, "PreconditionFailed", "If-Match")
        await world.topic()
        made = await world.arm("PUT", path, body, headers={"if-none-match": "nothing"})
        old = made.headers["etag"]
        again = await world.arm("PUT", path, body, headers={"if-none-match": "*"})
        refused(again, 412, "PreconditionFailed", "If-None-Match")
        fresh = (await world.arm("PATCH", path, {}, headers={"if-match": f'W/"x", {old}'})).headers["etag"]
        assert fresh != old
        for method in ("PUT", "PATCH", "DELETE"):
            sent = body if method == "PUT" else {}
            refused(
                await world.arm(method, path, sent, headers={"if-match": old}), 412, "PreconditionFailed", "If-Match"
            )
        assert (await world.arm("GET", path)).headers["etag"] == fresh
        assert (await world.arm("DELETE", path, headers={"if-match": fresh})).status in (200, 204)
        refused(await world.arm("DELETE", path, headers={"if-match": "*"}), 412, "PreconditionFailed", "If-Match")

    run(test)
