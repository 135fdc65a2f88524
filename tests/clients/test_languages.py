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
        assert (answer["state"], answer["listed"], answer["blob"]) == ("Succeeded", ["go-topic"], BLOB)
