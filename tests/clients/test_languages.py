"""Microsoft's clients for Java and Go publish in the three schemas and manage."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.clients.compiled import Program, go_program, java_program
from tests.clients.service import Service
from tests.clients.topics import MAPPING, make_topic, subscribe
from tests.clients.webhook import Webhook

pytestmark = pytest.mark.xdist_group("python")

SCHEMAS = (
    ("eventGrid", "EventGridSchema", "EventGridSchema", None),
    ("cloud", "CloudEventSchemaV1_0", "CloudEventSchemaV1_0", None),
    ("custom", "CustomEventSchema", "CustomInputSchema", MAPPING),
)
WAYS = {"go": {"key", "second", "bearer"}, "java": {"key", "second", "sas", "bearer"}}
BLOB = "https://pictures.example/a.jpg"
SYSTEM_EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/s",
    "type": "Microsoft.Storage.BlobCreated",
    "time": "2026-01-01T12:00:00Z",
    "data": {"api": "PutBlob", "url": BLOB, "contentLength": 3, "eTag": "0x1", "storageDiagnostics": {"batchId": "b"}},
}


@pytest.fixture(scope="module", params=["go", "java"])
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    yield name


@pytest.fixture(scope="module")
def program(language: str, recapito: Service, tmp_path_factory: pytest.TempPathFactory) -> Program:
    if language == "go":
        return go_program(recapito)
    return java_program(recapito, tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def answer(program: Program, language: str, management: EventGridManagementClient, hook: Webhook) -> dict[str, Any]:
    """The value that the program printed after all its work."""
    topics = {}
    for name, schema, delivery, mapping in SCHEMAS:
        topic = make_topic(management, f"{language}-{name}", schema, input_schema_mapping=mapping)
        subscribe(management, topic.id, f"{language}-{name}", hook.url(f"{language}-{name}"), delivery)
        topics[name] = topic._asdict()
    done: dict[str, Any] = program(topics=topics, endpoint=hook.url(f"{language}-hook"), system=SYSTEM_EVENT)
    return done


def test_three_schemas(answer: dict[str, Any], language: str, hook: Webhook) -> None:
    """Events arrive by each way to sign in, CloudEvents with extensions and bytes, own events as they are."""
    events = {event["id"]: event for event in hook.events(f"{language}-eventGrid", len(WAYS[language]))}
    assert set(events) == WAYS[language]
    for id, event in events.items():
        assert (event["data"], event["eventType"], event["dataVersion"]) == ({"way": id}, "Orders.New", "2")
        assert event["eventTime"].startswith("2026-01-01T12:00:00")
    clouds = {event["id"]: event for event in hook.events(f"{language}-cloud", 2)}
    assert (clouds["a"]["data"], clouds["a"]["trace"], clouds["b"]["data_base64"]) == ({"price": 1}, "x1", "AP8=")
    assert hook.events(f"{language}-custom", 1) == [{"number": "n-7", "kind": "Sale", "nested": {"deep": [1, 2]}}]
    assert (answer["wrongKey"], answer["wrongSchema"]) == (401, 400)


def test_management(answer: dict[str, Any], language: str, hook: Webhook) -> None:
    """Topics and subscriptions are created, read, listed and deleted."""
    assert (answer["team"], answer["key"], answer["filter"], answer["attempts"]) == ("red", True, "/red/", 3)
    assert (answer["url"], answer["gone"]) == (hook.url(f"{language}-hook"), 404)
    if language == "go":
        assert (answer["state"], answer["listed"], answer["blob"]) == ("Succeeded", ["go-topic"], BLOB)
