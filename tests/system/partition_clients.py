"""Microsoft's clients for a cluster of several partitions, signed in at its public node."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from azure.core.credentials import AzureKeyCredential
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
from azure.identity import ClientSecretCredential
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.clients.service import SUBSCRIPTION, Principal, run
from tests.clients.topics import Made
from tests.system.machine import Server


class PublicNode(NamedTuple):
    """The node at whose URL clients reach the cluster."""

    url: str
    principal: Principal
    trust: dict[str, str]


def public_node(server: Server) -> PublicNode:
    """The URL of a node, with the principal that all nodes know and the authority that they share."""
    known = json.loads((server.data / "identity" / "development.json").read_bytes())
    trust = dict(re.findall(r"export (\w+)=(\S+)", run("tls", "--data", str(server.data))))
    return PublicNode(server.url, Principal(known["tenant"], known["client_id"], known["client_secret"]), trust)


@contextmanager
def managing(node: PublicNode) -> Iterator[EventGridManagementClient]:
    """Microsoft's management client for Python."""
    with (
        ClientSecretCredential(*node.principal, authority=node.url, disable_instance_discovery=True) as credential,
        EventGridManagementClient(
            credential, SUBSCRIPTION, base_url=node.url, credential_scopes=[f"{node.url}/.default"]
        ) as client,
    ):
        yield client


def publish(topic: Made, schema: str, id: str) -> None:
    """Publish one event in the schema of its topic."""
    event: object = EventGridEvent(id=id, subject="s", event_type="t", data={}, data_version="1")
    if schema == "CloudEventSchemaV1_0":
        event = CloudEvent(id=id, source="/s", type="t", data={})
    elif schema == "CustomEventSchema":
        event = {"number": id, "kind": "t"}
    with EventGridPublisherClient(topic.endpoint, AzureKeyCredential(topic.key)) as client:
        client.send([event])  # type: ignore[list-item]


def lose(directory: Path, subscription: str, topic_id: str, *ids: str) -> None:
    """Put dead letters of a subscription into the directory `box` of a node, as its dispatch would after minutes."""
    folder = directory / "deadletters" / "box" / subscription.upper() / "2026" / "1" / "2" / "3"
    folder.mkdir(parents=True, exist_ok=True)
    letters = [
        {
            "id": id,
            "eventTime": "2026-01-02T03:04:05Z",
            "eventType": "t",
            "dataVersion": "1",
            "metadataVersion": "1",
            "topic": topic_id,
            "subject": "s",
            "data": {},
            "deadLetterReason": "MaxDeliveryAttemptsExceeded",
            "deliveryAttempts": 30,
            "lastDeliveryOutcome": "NotFound",
            "publishTime": "2026-01-02T03:04:05.0000000Z",
        }
        for id in ids
    ]
    (folder / f"{ids[0]}.json").write_text(json.dumps(letters))
