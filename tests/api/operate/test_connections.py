"""Connections over HTTP: what is taken, what is shown of it, who may."""

from pathlib import Path
from typing import Any

import pytest

from recapito.connections.encryption import KEY_BYTES, SecretBox
from recapito.connections.keyring import Keyring
from recapito.stores.memory import MemoryLog
from tests.api.client import World, run
from tests.api.known import Known, bearer

ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
KEY = "c2VjcmV0LWtleQ=="
STRING = f"AccountName=pictures;AccountKey={KEY}"


def connected(test: Any, **more: Any) -> None:
    """Run a test in a world with a keyring."""
    log = MemoryLog()
    run(test, log=log, keyring=Keyring(log, SecretBox.in_memory()), **more)


def test_set_list_and_remove() -> None:
    """A connection is set, found without its secret, replaced and removed."""

    async def test(world: World) -> None:
        put = await world.call("PUT", f"/connections{ACCOUNT}", {"connectionString": STRING})
        assert (put.status, put.json["resourceId"], put.json["kind"]) == (201, ACCOUNT, "account key")
        listed = await world.call("GET", "/connections")
        assert [each["endpoints"]["blob"] for each in listed.json["value"]] == [
            "https://pictures.blob.core.windows.net"
        ]
        assert KEY not in put.body.decode() + listed.body.decode()
        again = await world.call("PUT", f"/connections{ACCOUNT}", {"azurite": True})
        assert (again.status, again.json["endpoints"]["blob"]) == (201, "http://127.0.0.1:10000/devstoreaccount1")
        assert (await world.call("DELETE", f"/connections{ACCOUNT.upper()}")).status == 204
        assert (await world.call("DELETE", f"/connections{ACCOUNT}")).status == 404
        said = (await world.call("GET", f"/connections{ACCOUNT}")).json["error"]["message"]
        assert "Allowed: DELETE, PUT." in said
        assert (await world.call("GET", "/connections")).json == {"value": []}

    connected(test)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "Give exactly one of"),
        ({"azurite": True, "connectionString": STRING}, "Give exactly one of"),
        ({"connectionString": "AccountName=other;AccountKey=YQ=="}, "not to 'pictures'"),
        ({"connectionString": "hello"}, "not that of a storage account"),
        ({"sasUrl": "https://pictures.blob.core.windows.net/?sv=1"}, "no 'sig'"),
        ({"azurite": True, "endpoints": {"blob": "https://a"}}, "'endpoints' is allowed with"),
        ({"defaultCredential": True, "endpoints": {"table": "https://a"}}, "'endpoints' must be among"),
        ({"key": "a"}, "'key' is not a known property"),
        ({"connectionString": 5}, "'connectionString' has the wrong type"),
    ],
)
def test_what_is_refused(body: dict[str, object], says: str) -> None:
    """Whatever is wrong is named, and no value is repeated."""

    async def test(world: World) -> None:
        answer = await world.call("PUT", f"/connections{ACCOUNT}", body)
        assert answer.status == 400
        assert says in answer.json["error"]["message"]
        assert (await world.call("GET", "/connections")).json == {"value": []}

    connected(test)


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    """A connection that cannot be sealed is not kept, and the remedy is said."""
    key = tmp_path / "connection.key"
    key.write_bytes(bytes(KEY_BYTES))
    key.chmod(0o644)
    log = MemoryLog()

    async def test(world: World) -> None:
        answer = await world.call("PUT", f"/connections{ACCOUNT}", {"connectionString": STRING})
        assert (answer.status, answer.json["error"]["code"]) == (409, "ConnectionNotSealed")
        assert f"chmod 600 {key}" in answer.json["error"]["message"]

    run(test, log=log, keyring=Keyring(log, SecretBox.in_file(key)))


APP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/shop-app"
RELAY = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Relay/namespaces/shop-relay"


@pytest.mark.parametrize(
    ("id", "body", "kind", "endpoints"),
    [
        (APP, {"hostUrl": f"http://localhost:7071?code={KEY}"}, "function key", {"function": "http://localhost:7071"}),
        (
            RELAY,
            {"connectionString": f"Endpoint=sb://a.example/;SharedAccessKeyName=Send;SharedAccessKey={KEY}"},
            "shared access key",
            {"relay": "https://a.example"},
        ),
    ],
)
def test_functions_and_relays(id: str, body: dict[str, str], kind: str, endpoints: dict[str, str]) -> None:
    """A Functions host is given by its URL, a relay by its connection string; neither key is shown."""

    async def test(world: World) -> None:
        put = await world.call("PUT", f"/connections{id}", body)
        assert (put.status, put.json["kind"], put.json["endpoints"]) == (201, kind, endpoints)
        assert KEY not in put.body.decode() + (await world.call("GET", "/connections")).body.decode()
        assert (await world.call("PUT", f"/connections{ACCOUNT}", body)).status == 400

    connected(test)


BUS = f"Endpoint=sb://orders.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey={KEY}"


@pytest.mark.parametrize(
    ("rest", "body", "kind"),
    [
        ("Microsoft.ServiceBus/namespaces/orders", {"connectionString": BUS}, "shared access key"),
        ("Microsoft.Relay/namespaces/orders", {"connectionString": BUS}, "shared access key"),
        ("Microsoft.Web/sites/orders", {"hostUrl": f"http://127.0.0.1:7071?code={KEY}"}, "function key"),
        ("Microsoft.EventHub/namespaces/orders", {"defaultCredential": True}, "default credential"),
    ],
)
def test_every_kind_of_resource(rest: str, body: dict[str, object], kind: str) -> None:
    """Namespaces, relays and function apps are connected in the forms that they have."""

    async def test(world: World) -> None:
        put = await world.call("PUT", f"/connections/subscriptions/s/resourceGroups/g/providers/{rest}", body)
        assert (put.status, put.json.get("kind")) == (201, kind), put.json
        assert KEY not in put.body.decode()

    connected(test)


@pytest.mark.parametrize("id", ["/nothing", "/subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/a"])
def test_resources_that_can_not_be_connected(id: str) -> None:
    """A connection is for something that a subscription can name."""

    async def test(world: World) -> None:
        answer = await world.call("PUT", f"/connections{id}", {"azurite": True})
        assert (answer.status, answer.json["error"]["target"]) == (400, None)

    connected(test)


@pytest.mark.parametrize(("role", "status"), [("contributor", 201), ("reader", 403), ("sender", 403)])
def test_who_may(role: str, status: int) -> None:
    """Setting one is a contributor's business; no caller from elsewhere may without a token."""
    known = Known()

    async def test(world: World) -> None:
        body = {"azurite": True}
        answer = await world.call("PUT", f"/connections{ACCOUNT}", body, headers=bearer(known.token(role)))
        assert answer.status == status
        assert (await world.call("PUT", f"/connections{ACCOUNT}", body, peer="10.0.0.5")).status == 403

    connected(test, access=known.access)
