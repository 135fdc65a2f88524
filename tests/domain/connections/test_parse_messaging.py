"""Connections to messaging namespaces: every form, what is wrong with a wrong one, and that no secret shows."""

import msgspec
import pytest
from rich.pretty import pretty_repr

from recapito.domain.connections.connection import AzureService, Connection, DefaultCredential, PolicyKey, SharedAccess
from recapito.domain.connections.parse_storage import from_connection_string, from_default_credential
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

GROUP = "/subscriptions/s/resourceGroups/g/providers"
BUS, HUBS = f"{GROUP}/Microsoft.ServiceBus/namespaces/Shop", f"{GROUP}/Microsoft.EventHub/namespaces/Shop"
QUEUE, HUB = f"{BUS}/queues/orders", f"{HUBS}/eventhubs/orders"
CANARY = "Y2FuYXJ5Y2FuYXJ5"
KEY = f"SharedAccessKeyName=root;SharedAccessKey={CANARY}="
SIGNED = f"sr=sb%3A%2F%2Fshop.servicebus.windows.net%2F&sig={CANARY}%3D&se=1896091200&skn=root"
CLOUD = "amqps://shop.servicebus.windows.net:5671"


@pytest.mark.parametrize("resource_id", [BUS, QUEUE, f"{BUS}/topics/orders", HUBS, HUB])
@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        (f"Endpoint=sb://shop.servicebus.windows.net/;{KEY}", CLOUD),
        (f" endpoint=sb://SHOP.servicebus.windows.net ; {KEY};", CLOUD),
        (f"Endpoint=sb://shop.servicebus.chinacloudapi.cn/;{KEY}", "amqps://shop.servicebus.chinacloudapi.cn:5671"),
        (f"Endpoint=sb://localhost;{KEY};UseDevelopmentEmulator=true;", "amqp://localhost:5672"),
        (f"Endpoint=sb://127.0.0.1:1234;{KEY};UseDevelopmentEmulator=TRUE", "amqp://127.0.0.1:1234"),
        (f"Endpoint=amqps://gateway.example:443/;{KEY};TransportType=Amqp", "amqps://gateway.example:443"),
    ],
)
def test_connection_strings(resource_id: str, text: str, endpoint: str) -> None:
    """A namespace's connection string, in every order and spelling; an emulator goes without TLS."""
    connection = from_connection_string(resource_id, text)
    assert connection.endpoints == {AzureService.MESSAGING: endpoint}
    assert connection.resource_id == resource_id
    assert connection.credential == PolicyKey("root", f"{CANARY}=")


def test_a_connection_string_of_one_entity() -> None:
    """A queue's own connection string is taken for that queue."""
    text = f"Endpoint=sb://shop.servicebus.windows.net/;{KEY};EntityPath=Orders"
    assert from_connection_string(QUEUE, text).endpoints == {AzureService.MESSAGING: CLOUD}


def test_a_signature() -> None:
    """A signature may stand for a key, with or without its first word; when it ends is known."""
    for prefix in ("", "SharedAccessSignature "):
        text = f"Endpoint=sb://shop.servicebus.windows.net/;SharedAccessSignature={prefix}{SIGNED}"
        connection = from_connection_string(BUS, text)
        assert connection.credential == SharedAccess(SIGNED)
        assert connection.expires_at == 1_896_091_200 * SECOND


def test_the_default_credential() -> None:
    """Who has an identity needs no secret: the endpoint is the public cloud's."""
    connection = from_default_credential(QUEUE)
    assert connection.endpoints == {AzureService.MESSAGING: CLOUD}
    assert connection.credential == DefaultCredential()
    other = from_default_credential(QUEUE, {AzureService.MESSAGING: "sb://shop.servicebus.chinacloudapi.cn"})
    assert other.endpoints == {AzureService.MESSAGING: "amqps://shop.servicebus.chinacloudapi.cn:5671"}
    with pytest.raises(InvalidInput, match="one endpoint"):
        from_default_credential(QUEUE, {AzureService.BLOB: "https://shop.blob.core.windows.net"})


HOST = "Endpoint=sb://shop.servicebus.windows.net/"
WRONG = [
    (BUS, "", "endpoint must have"),
    (BUS, "shop", "Name=Value"),
    (BUS, f"AccountName=a;AccountKey={CANARY}", "not that of Service Bus or Event Hubs"),
    (BUS, f"{HOST};{HOST};{KEY}", "Endpoint twice"),
    (BUS, HOST, "either SharedAccessKeyName and SharedAccessKey, or"),
    (BUS, f"{HOST};SharedAccessKey={CANARY}", "either SharedAccessKeyName"),
    (BUS, f"{HOST};{KEY};SharedAccessSignature={SIGNED}", "either SharedAccessKeyName"),
    (BUS, f"Endpoint=sb://other.servicebus.windows.net/;{KEY}", "to the namespace 'other', not to 'Shop'"),
    (BUS, f"Endpoint=http://shop/;{KEY}", "endpoint must have"),
    (BUS, f"Endpoint=sb://u:{CANARY}@shop/;{KEY}", "endpoint must have"),
    (BUS, f"Endpoint=sb://sh op/;{KEY}", "not a valid name"),
    (BUS, f"Endpoint=sb://shop:70000/;{KEY}", "port"),
    (BUS, f"{HOST};{KEY};EntityPath=orders", "is for 'orders' only"),
    (QUEUE, f"{HOST};{KEY};EntityPath=bills", "not that of 'orders'"),
    (BUS, f"{HOST};SharedAccessSignature=sig={CANARY}&se=1896091200", "no 'sr'"),
    (BUS, f"{HOST};SharedAccessSignature=sr=a&sig={CANARY}&se=soon", "'se', is not"),
    (BUS, f"{HOST};SharedAccessKeyName=a;SharedAccessKey={CANARY * 1000}", "longer than 4096"),
]


@pytest.mark.parametrize(("resource_id", "text", "why"), WRONG, ids=[why for _, _, why in WRONG])
def test_wrong_connection_strings(resource_id: str, text: str, why: str) -> None:
    """A wrong connection string is refused with what is wrong in it, and without its secret."""
    with pytest.raises(InvalidInput, match=why) as caught:
        from_connection_string(resource_id, text)
    assert CANARY not in caught.value.message and caught.value.target == "connection"


def test_secrets_do_not_show() -> None:
    """Neither a repr nor a pretty traceback shows a key; what is stored comes back whole."""
    connection = from_connection_string(BUS, f"{HOST};{KEY}")
    for shown in (repr(connection), pretty_repr(connection), repr(connection.credential), pretty_repr([connection])):
        assert CANARY not in shown
    assert CANARY not in pretty_repr(connection.credential)
    assert msgspec.json.decode(msgspec.json.encode(connection), type=Connection) == connection
