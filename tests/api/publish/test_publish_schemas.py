"""Publishing in all schemas, to topics and domains, by path and by host: what is stored and what is refused."""

import json
from typing import Any

import pytest

from recapito.contracts.log import EntryKind
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.segment import Segment
from recapito.domain.instant import stamp
from recapito.domain.resources.topic import Topic, TopicKind
from tests.api.client import GROUP, Answer, World, event, run
from tests.kit.publish_errors import refused
from tests.kit.resources import a_topic

SINGLE = "application/cloudevents+json; charset=utf-8"
BATCH = "application/cloudevents-batch+json; charset=utf-8"
MAPPING = InputMapping(
    event_type=MappedField("kind", "Default"), subject=MappedField("about"), topic=MappedField("tenant")
)


def cloud_event(**changes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "e-1", "source": "shop", "type": "Orders.Created", "data": {"n": 1}, **changes}


async def put_topic(
    world: World, schema: InputSchema, kind: TopicKind = TopicKind.CUSTOM, name: str = "orders"
) -> Topic:
    return await world.log.put_topic(
        a_topic(
            kind=kind,
            name=name,
            location="westus2",
            key1="key-one",
            key2="key-two",
            input_schema=schema,
            mapping=MAPPING if schema is InputSchema.CUSTOM else None,
        )
    )


async def publish(world: World, body: Any, path: str = "/topics/orders/api/events", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.call("POST", path, body, headers={"aeg-sas-key": "key-one", **named})


async def segments(world: World, topic: Topic) -> list[Segment]:
    entries = await world.log.read(topic.id, 1, 1 << 30)
    return [Segment(entry.columns, entry.body) for entry in entries if entry.kind is EntryKind.SEGMENT]


async def stored(world: World, topic: Topic) -> list[dict[str, Any]]:
    return [json.loads(each.event(i)) for each in await segments(world, topic) for i in range(len(each))]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": SINGLE}, cloud_event()),
        ({"content-type": BATCH}, [cloud_event()]),
        ({"content-type": "application/json"}, cloud_event()),
        ({"content-type": "application/json"}, [cloud_event()]),
        ({}, cloud_event()),
        ({"content-type": "application/x-www-form-urlencoded"}, [cloud_event()]),
        (
            {
                "content-type": "application/json",
                "ce-specversion": "1.0",
                "ce-id": "e-1",
                "ce-source": "shop",
                "ce-type": "Orders.Created",
            },
            {"n": 1},
        ),
    ],
)
def test_cloud_events_by_content_type(headers: dict[str, str], body: Any) -> None:
    """Structured, in a batch and in binary mode; plain JSON may be either an event or an array of them."""

    async def test(world: World) -> None:
        topic = await put_topic(world, InputSchema.CLOUD_EVENT)
        assert (await publish(world, body, **headers)).status == 200
        (found,) = await stored(world, topic)
        assert {**found, "datacontenttype": None} == {**cloud_event(), "datacontenttype": None}

    run(test)


def test_binary_mode_takes_any_media() -> None:
    """The content type is that of the data then, so nothing is unsupported; without ce- headers it is."""
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t", "content-type": "image/png"}

    async def test(world: World) -> None:
        topic = await put_topic(world, InputSchema.CLOUD_EVENT)
        assert (await publish(world, b"\x89PNG", **headers)).status == 200
        (found,) = await stored(world, topic)
        assert (found["data_base64"], found["datacontenttype"]) == ("iVBORw==", "image/png")
        answer = await publish(world, b"\x89PNG", content_type="image/png")
        refused(answer, 415, "UnsupportedMediaType", "UnsupportedMediaType")

    run(test)


@pytest.mark.parametrize(
    ("schema", "name", "content_type", "body"),
    [
        (InputSchema.EVENT_GRID, "EventGridEvent", BATCH, [cloud_event()]),
        (InputSchema.EVENT_GRID, "EventGridEvent", SINGLE, cloud_event()),
        (InputSchema.EVENT_GRID, "EventGridEvent", "application/json", [cloud_event()]),
        (InputSchema.EVENT_GRID, "EventGridEvent", "application/json", cloud_event()),
        (InputSchema.CLOUD_EVENT, "CloudEventV10", "application/json", [event()]),
        (InputSchema.CLOUD_EVENT, "CloudEventV10", SINGLE, [cloud_event()]),
        (InputSchema.CLOUD_EVENT, "CloudEventV10", BATCH, cloud_event()),
        (InputSchema.CLOUD_EVENT, "CloudEventV10", SINGLE, cloud_event(id=None)),
        (InputSchema.CUSTOM, "CustomEvent", BATCH, [cloud_event()]),
        (InputSchema.CUSTOM, "CustomEvent", "application/json", {"kind": "x"}),
    ],
)
def test_another_schema_is_refused(schema: InputSchema, name: str, content_type: str, body: Any) -> None:
    """400 says which schema the topic has, and nothing is stored."""

    async def test(world: World) -> None:
        topic = await put_topic(world, schema)
        answer = await publish(world, body, content_type=content_type)
        message = refused(answer, 400, "BadRequest", "InputJsonInvalid")
        assert message.startswith(f"This resource is configured to receive event in '{name}' schema.")
        assert await stored(world, topic) == []

    run(test)


@pytest.mark.parametrize("schema", InputSchema)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xef\xbb\xbf[{}]", 400),
        (b"[NaN]", 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000, 400),
        (b'["\\ud800"]', 400),
        (b"[\xc3]", 400),
        (b"[1e99999]", 400),
        (b"[" + b"9" * 100_000 + b"]", 400),
        (b"[{}]x", 400),
        (b" " * (1 << 20) + b"[]", 413),
    ],
)
def test_hostile_bodies(schema: InputSchema, body: bytes, status: int) -> None:
    """Whatever the schema, what is no list of events is the publisher's error, in Event Grid's shape."""

    async def test(world: World) -> None:
        topic = await put_topic(world, schema)
        answer = await publish(world, body, content_type="application/json")
        name, code = ("BadRequest", "InputJsonInvalid") if status == 400 else ("RequestEntityTooLarge",) * 2
        refused(answer, status, name, code)
        assert await stored(world, topic) == []
        assert world.told == []

    run(test)


def test_custom_events_get_an_envelope() -> None:
    """An id of its own, the time of the publish to the last digit, and the event as data."""

    async def test(world: World) -> None:
        topic = await put_topic(world, InputSchema.CUSTOM)
        body = [{"kind": "Orders.Created", "about": "x"}, {"n": 12}]
        assert (await publish(world, body, content_type="application/json")).status == 200
        (segment,) = await segments(world, topic)
        first, second = await stored(world, topic)
        assert (first["eventType"], first["subject"], first["data"]) == ("Orders.Created", "x", body[0])
        assert (second["eventType"], second["subject"], second["data"]) == ("Default", "", body[1])
        assert first["eventTime"] == second["eventTime"] == stamp(segment.published_at[0])
        assert len(first["id"]) == 36 and first["id"] != second["id"]

    run(test)


@pytest.mark.parametrize(
    ("schema", "content_type", "body"),
    [
        (
            InputSchema.EVENT_GRID,
            "application/json",
            [event(topic="seven"), event(topic="eight"), event(topic="seven")],
        ),
        (InputSchema.CLOUD_EVENT, BATCH, [cloud_event(source=name) for name in ("seven", "eight", "seven")]),
        (InputSchema.CUSTOM, "application/json", [{"tenant": name} for name in ("seven", "eight", "seven")]),
    ],
)
def test_a_domain_keeps_the_topic_of_each_event(schema: InputSchema, content_type: str, body: Any) -> None:
    """The event names it, by topic, source or mapping; the segment has it as a column, the envelope as an id."""

    async def test(world: World) -> None:
        domain = await put_topic(world, schema, TopicKind.DOMAIN, "shop")
        assert (await publish(world, body, "/domains/SHOP/api/events", content_type=content_type)).status == 200
        (segment,) = await segments(world, domain)
        assert (segment.domain_topics, segment.domain_topic_of) == (["seven", "eight"], [0, 1, 0])
        if schema is not InputSchema.CLOUD_EVENT:
            ids = [one["topic"] for one in await stored(world, domain)]
            assert ids == [f"{domain.resource_id}/topics/{name}" for name in ("seven", "eight", "seven")]

    run(test)


def test_a_topic_has_no_domain_topics() -> None:
    """Nothing is stored for what only domains have."""

    async def test(world: World) -> None:
        topic = await put_topic(world, InputSchema.EVENT_GRID)
        assert (await publish(world, [event()])).status == 200
        (segment,) = await segments(world, topic)
        assert (segment.domain_topics, segment.domain_topic_of) == ([], [])

    run(test)


@pytest.mark.parametrize(
    "host",
    [
        "orders.westus2-1.eventgrid.azure.net",
        "ORDERS.westus2.eventgrid.azure.net:443",
        "orders.localhost:8585",
        "orders.localhost",
    ],
)
def test_a_topic_by_its_host(host: str) -> None:
    """The Event Grid host name of a topic, or its name in front of localhost, with any port."""

    async def test(world: World) -> None:
        topic = await put_topic(world, InputSchema.EVENT_GRID)
        await put_topic(world, InputSchema.EVENT_GRID, TopicKind.DOMAIN)
        answer = await publish(world, [event()], "/api/events?api-version=2018-01-01", host=host)
        assert answer.status == 200, answer.body
        assert len(await stored(world, topic)) == 1

    run(test)


def test_a_domain_by_its_host() -> None:
    """A host that names no topic may name a domain."""

    async def test(world: World) -> None:
        domain = await put_topic(world, InputSchema.EVENT_GRID, TopicKind.DOMAIN, "shop")
        host = "shop.westus2-1.eventgrid.azure.net"
        assert (await publish(world, [event(topic="seven")], "/api/events", host=host)).status == 200
        assert len(await stored(world, domain)) == 1

    run(test)


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/api/events", "127.0.0.1:8585"),
        ("/api/events", "orders.example.com"),
        ("/api/events", "a.orders.westus2-1.eventgrid.azure.net"),
        ("/api/events", "orders.westus2-1.eventgrid.azure.net.example.com"),
        ("/api/events", ""),
        ("/api/events", "nothing.localhost"),
        ("/domains/orders/api/events", "localhost"),
        ("/topics/shop/api/events", "localhost"),
        ("/systemTopics/storage/api/events", "localhost"),
        ("/topics/storage/api/events", "localhost"),
        ("/api/events", "storage.localhost"),
    ],
)
def test_a_place_that_is_none(path: str, host: str) -> None:
    """404 for wrong hosts, for other kinds of topics, and for system topics, which only Azure's services publish to."""

    async def test(world: World) -> None:
        await put_topic(world, InputSchema.EVENT_GRID)
        await put_topic(world, InputSchema.EVENT_GRID, TopicKind.DOMAIN, "shop")
        await put_topic(world, InputSchema.EVENT_GRID, TopicKind.SYSTEM, "storage")
        answer = await publish(world, [event()], path, host=host)
        assert answer.status == 404
        if not path.startswith("/system"):
            refused(answer, 404, "NotFound", "NotFound")

    run(test)


def test_a_wrong_host_is_told_where_to_go() -> None:
    """The text names both ways to publish."""

    async def test(world: World) -> None:
        message = refused(await publish(world, [event()], "/api/events"), 404, "NotFound", "NotFound")
        assert "/topics/{topic}/api/events" in message and "eventgrid.azure.net" in message

    run(test)


CUSTOM_SCHEMA = {
    "inputSchema": "CustomEventSchema",
    "inputSchemaMapping": {
        "inputSchemaMappingType": "Json",
        "properties": {
            "eventType": {"sourceField": "kind", "defaultValue": "Default"},
            "topic": {"sourceField": "tenant"},
        },
    },
}


@pytest.mark.parametrize(
    ("collection", "properties", "content_type", "body"),
    [
        ("topics", {"inputSchema": "CloudEventSchemaV1_0"}, BATCH, [cloud_event()]),
        ("topics", CUSTOM_SCHEMA, "application/json", [{"kind": "x"}]),
        ("domains", {}, "application/json", [event(topic="seven")]),
        ("domains", {"inputSchema": "CloudEventSchemaV1_0"}, SINGLE, cloud_event(source="seven")),
        ("domains", CUSTOM_SCHEMA, "application/json", [{"kind": "x", "tenant": "seven"}]),
    ],
)
def test_what_management_makes_can_be_published_to(
    collection: str, properties: dict[str, Any], content_type: str, body: Any
) -> None:
    """The endpoint and the key that management shows take events in the schema that it was asked for."""

    async def test(world: World) -> None:
        place = f"{GROUP}/{collection}/made"
        made = await world.arm("PUT", place, {"location": "westus2", "properties": properties})
        assert made.status == 201, made.body
        endpoint = made.json["properties"]["endpoint"].removeprefix("http://127.0.0.1:8585")
        keys = await world.arm("POST", f"{place}/listKeys")
        headers = {"aeg-sas-key": keys.json["key2"], "content-type": content_type}
        answer = await world.call("POST", endpoint, body, headers=headers)
        assert answer.status == 200, answer.body

    run(test)
