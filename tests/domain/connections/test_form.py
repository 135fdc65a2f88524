"""The form of a connection, from which the same connection can be made again."""

import pytest

from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import Connection
from recapito.domain.connections.form import form_of

GROUP = "/subscriptions/s/resourceGroups/g/providers"
STORE = f"{GROUP}/Microsoft.Storage/storageAccounts/store"
BUS = f"{GROUP}/Microsoft.ServiceBus/namespaces/bus"
POLICY = "SharedAccessKeyName=p;SharedAccessKey=a2V5"
CLOUD = "servicebus.windows.net"
RELAY = f"{GROUP}/Microsoft.Relay/namespaces/relay"
TOKEN = "SharedAccessSignature sr=x&sig=y&se=1900000000"
SIGNED = "sv=2022&ss=bq&sig=abc%3D&se=2030-01-01T00:00:00Z"


def chosen(id: str, form: dict[str, object]) -> Connection:
    names = {"connectionString": "connection_string", "sasUrl": "sas_url", "hostUrl": "host_url"}
    names |= {"defaultCredential": "default_credential"}
    return choose(id, Choice(**{names.get(name, name): value for name, value in form.items()}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("id", "form"),
    [
        (STORE, {"azurite": True}),
        (STORE, {"connectionString": "AccountName=store;AccountKey=a2V5;EndpointSuffix=core.windows.net"}),
        (STORE, {"connectionString": f"BlobEndpoint=http://127.0.0.1:10000/store;SharedAccessSignature={SIGNED}"}),
        (STORE, {"sasUrl": f"https://store.blob.core.windows.net/?{SIGNED}"}),
        (STORE, {"defaultCredential": True}),
        (BUS, {"connectionString": f"Endpoint=sb://bus.{CLOUD}/;{POLICY}"}),
        (BUS, {"connectionString": f"Endpoint=sb://localhost:5699;{POLICY};UseDevelopmentEmulator=true"}),
        (BUS, {"connectionString": f"Endpoint=sb://bus.{CLOUD}/;SharedAccessSignature={TOKEN}"}),
        (BUS, {"defaultCredential": True, "endpoints": {"messaging": f"sb://bus.{CLOUD}/"}}),
        (RELAY, {"connectionString": f"Endpoint=sb://relay.{CLOUD}/;{POLICY}"}),
        (f"{GROUP}/Microsoft.Web/sites/app", {"hostUrl": "http://127.0.0.1:7071?code=a%2Fb%3D"}),
        (f"{GROUP}/Microsoft.Web/sites/app", {"hostUrl": "http://127.0.0.1:7071"}),
    ],
)
def test_inverse(id: str, form: dict[str, object]) -> None:
    """Whatever form a connection came in, its own form makes the same connection."""
    connection = chosen(id, form)
    assert chosen(id, form_of(connection)) == connection
