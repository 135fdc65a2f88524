"""az with every kind of destination: created, listed, updated and deleted, as it is printed for Event Grid."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.az import Az
from tests.clients.service import SUBSCRIPTION, Service, run

pytestmark = [pytest.mark.xdist_group("az"), pytest.mark.slow]
HOME = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/az-kinds/providers"
TOPIC = f"{HOME}/Microsoft.EventGrid/topics/az-kinds"
STORE = f"{HOME}/Microsoft.Storage/storageAccounts/azstore"
BUS, HUBS = f"{HOME}/Microsoft.ServiceBus/namespaces/az-bus", f"{HOME}/Microsoft.EventHub/namespaces/az-hubs"
RELAY, APP = f"{HOME}/Microsoft.Relay/namespaces/az-relay", f"{HOME}/Microsoft.Web/sites/az-app"
NAMESPACE = "Endpoint=sb://{}.servicebus.windows.net/;SharedAccessKeyName=Send;SharedAccessKey=c2VjcmV0"


class Kind(NamedTuple):
    """A kind of destination: az's word for it, its id, more options, what is printed."""

    word: str
    endpoint: str
    options: str
    printed: dict[str, Any]


KINDS = [
    Kind(
        "storagequeue",
        f"{STORE}/queueServices/default/queues/orders",
        "--storage-queue-msg-ttl 300",
        {"endpointType": "StorageQueue", "resourceId": STORE, "queueName": "orders"},
    ),
    Kind(
        "eventhub",
        f"{HUBS}/eventhubs/orders",
        "--delivery-attribute-mapping PartitionKey dynamic data.customer",
        {"endpointType": "EventHub", "resourceId": f"{HUBS}/eventhubs/orders"},
    ),
    Kind(
        "servicebusqueue",
        f"{BUS}/queues/orders",
        "--delivery-attribute-mapping SessionId static one false",
        {"endpointType": "ServiceBusQueue", "resourceId": f"{BUS}/queues/orders"},
    ),
    Kind(
        "servicebustopic",
        f"{BUS}/topics/orders",
        "",
        {"endpointType": "ServiceBusTopic", "resourceId": f"{BUS}/topics/orders"},
    ),
    Kind(
        "hybridconnection",
        f"{RELAY}/hybridConnections/orders",
        "",
        {"endpointType": "HybridConnection", "resourceId": f"{RELAY}/hybridConnections/orders"},
    ),
    Kind(
        "azurefunction",
        f"{APP}/functions/OnOrder",
        "--max-events-per-batch 10 --preferred-batch-size-in-kilobytes 128",
        {"endpointType": "AzureFunction", "resourceId": f"{APP}/functions/OnOrder", "maxEventsPerBatch": 10},
    ),
]


def test_every_kind_of_destination(signed_in: Az, recapito: Service) -> None:
    """Without a connection az prints the command that sets one; with it each kind is made, changed, shown, deleted."""
    az = signed_in
    az("eventgrid topic create -g az-kinds -n az-kinds -l local")
    said = az.fails(
        "eventgrid event-subscription create --name az-lost --source-resource-id {} --endpoint-type eventhub"
        " --endpoint {}",
        TOPIC,
        KINDS[1].endpoint,
    )
    assert f"recapito connection set {HUBS} --connection-string -" in said
    trust = ("--server", recapito.url, "--ca-file", str(next(iter(recapito.trust.values()))))
    for id, name in ((BUS, "az-bus"), (HUBS, "az-hubs"), (RELAY, "az-relay")):
        run("connection", "set", id, "--connection-string", NAMESPACE.format(name), *trust)
    run("connection", "set", APP, "--host-url", "http://localhost:7071", *trust)
    for kind in KINDS:
        made = az(
            f"eventgrid event-subscription create --name az-{kind.word} --source-resource-id {{}}"
            f" --endpoint-type {kind.word} --endpoint {{}} {kind.options}",
            TOPIC,
            kind.endpoint,
        )
        assert kind.printed.items() <= made["destination"].items(), made
        assert made["provisioningState"] == "Succeeded"
        changed = az(
            f"eventgrid event-subscription update --name az-{kind.word} --source-resource-id {{}}"
            " --subject-begins-with /red/",
            TOPIC,
        )
        assert changed["destination"] == made["destination"]
        assert changed["filter"]["subjectBeginsWith"] == "/red/"
    listed = {one["name"]: one for one in az("eventgrid event-subscription list --source-resource-id {}", TOPIC)}
    for kind in KINDS:
        assert kind.printed.items() <= listed[f"az-{kind.word}"]["destination"].items()
        az(f"eventgrid event-subscription delete --name az-{kind.word} --source-resource-id {{}}", TOPIC)
    assert listed["az-storagequeue"]["destination"]["queueMessageTimeToLiveInSeconds"] == 300
    (mapping,) = listed["az-eventhub"]["destination"]["deliveryAttributeMappings"]
    assert mapping["name"] == "PartitionKey"
    assert mapping["sourceField"] == "data.customer"
    left = {one["name"] for one in az("eventgrid event-subscription list --source-resource-id {}", TOPIC)}
    assert not left & {f"az-{kind.word}" for kind in KINDS}


def test_forwarding_to_another_event_grid(signed_in: Az, recapito: Service, tmp_path: Path) -> None:
    """A deployment and `az rest` make the destination that az has no name for; az lists, shows and deletes the rest."""
    az, topic = signed_in, f"{HOME}/Microsoft.EventGrid/topics/az-edge"
    cloud = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/cloud/providers/Microsoft.EventGrid/topics/orders"
    connection = "Endpoint=https://orders.westeurope-1.eventgrid.azure.net/api/events;SharedAccessKey=a2V5"
    trust = ("--server", recapito.url, "--ca-file", str(next(iter(recapito.trust.values()))))
    run("connection", "set", cloud, "--connection-string", connection, *trust)
    to = {"endpointType": "EventGrid", "properties": {"resourceId": cloud}}
    of = {"apiVersion": "2022-06-15", "type": "Microsoft.EventGrid/topics"}
    subscription = {
        **of,
        "type": "Microsoft.EventGrid/topics/eventSubscriptions",
        "name": "az-edge/by-template",
        "dependsOn": [topic],
        "properties": {"destination": to},
    }
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    resources = [{**of, "name": "az-edge", "location": "local"}, subscription]
    file = tmp_path / "body.json"
    file.write_text(json.dumps({"$schema": schema, "contentVersion": "1.0.0.0", "resources": resources}), "utf-8")
    az("group create -n az-kinds -l local")
    az("deployment group create -g az-kinds -n forward --template-file {}", str(file))
    url = f"{topic}/providers/Microsoft.EventGrid/eventSubscriptions/to-the-cloud?api-version=2022-06-15"
    file.write_text(json.dumps({"properties": {"destination": to}}), "utf-8")
    made = az("rest --method put --url {} --body {}", url, f"@{file}")
    assert made["properties"]["destination"] == to
    file.write_text(json.dumps({"labels": ["kept"]}), "utf-8")
    kept = az("rest --method patch --url {} --body {}", url, f"@{file}")["properties"]
    assert (kept["destination"], kept["labels"]) == (to, ["kept"])
    listed = {one["name"]: one for one in az("eventgrid event-subscription list --source-resource-id {}", topic)}
    assert set(listed) == {"to-the-cloud", "by-template"}
    assert (listed["to-the-cloud"]["labels"], listed["to-the-cloud"]["destination"]["endpointType"]) == (["kept"], None)
    az("eventgrid event-subscription delete --name to-the-cloud --source-resource-id {}", topic)
