"""Forwarding with the server's own identity: azure-identity gets its token from the other server, which checks it."""

from pathlib import Path

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.cli.terminal import ok
from tests.clients.service import Service
from tests.clients.topics import make_topic, subscribe
from tests.clients.webhook import Webhook
from tests.system.machine import GROUP, VERSION, server, until

TARGET = "/subscriptions/cloud/resourceGroups/far/providers/Microsoft.EventGrid/topics/orders"


def test_the_identity_of_the_server(
    recapito: Service,
    management: EventGridManagementClient,
    hook: Webhook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a principal in its environment a server publishes to the other one; the connection has no secret."""
    cloud = make_topic(management, "by-identity")
    subscribe(management, cloud.id, "by-identity", hook.url("by-identity"), "EventGridSchema")
    tenant, client, secret = recapito.principal
    identity = {"AZURE_TENANT_ID": tenant, "AZURE_CLIENT_ID": client, "AZURE_CLIENT_SECRET": secret}
    trust = {"AZURE_AUTHORITY_HOST": recapito.url, "RECAPITO_DELIVERY_CA_FILE": recapito.trust["SSL_CERT_FILE"]}
    with server(tmp_path, "--memory", environment=identity | trust) as edge:
        text = f"Endpoint={cloud.endpoint};Authentication=Managed Identity"
        edge.call("PUT", f"/connections{TARGET}", {"connectionString": text})
        destination = {"endpointType": "EventGrid", "properties": {"resourceId": TARGET}}
        subscription = f"{GROUP}/topics/demo/eventSubscriptions/to-the-cloud?{VERSION}"
        edge.call("PUT", subscription, {"properties": {"destination": destination}})
        monkeypatch.setenv("RECAPITO_SERVER", edge.url)
        assert ok("connection", "check", TARGET)[0]["state"] == "ok"
        edge.publish("one")
        assert until(lambda: edge.counts("to-the-cloud").get("delivered") == 1)
    assert [event["id"] for event in hook.events("by-identity", 1)] == ["one"]
