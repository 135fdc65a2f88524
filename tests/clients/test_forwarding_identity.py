"""Forwarding with the server's own identity: azure-identity gets its token from the other server, which checks it."""

from pathlib import Path

import pytest
from azure.mgmt.eventgrid import EventGridManagementClient

from tests.cli.terminal import ok
from tests.clients.service import Service
from tests.clients.topics import make_topic, subscribe
from tests.clients.webhook import Webhook
from tests.system.machine import server, until
from tests.system.test_forwarding import CLOUD, forward_by


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
        forward_by(edge, f"Endpoint={cloud.endpoint};Authentication=Managed Identity")
        monkeypatch.setenv("RECAPITO_SERVER", edge.url)
        assert ok("connection", "check", f"{CLOUD}/topics/demo")[0]["state"] == "ok"
        edge.publish("one")
        assert until(lambda: edge.counts("to-the-cloud").get("delivered") == 1)
    assert [event["id"] for event in hook.events("by-identity", 1)] == ["one"]
