"""Connections to another Event Grid: each form taken whole, or refused without repeating its secret."""

import pytest

from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import (
    AzureService,
    Credential,
    DefaultCredential,
    TopicKey,
    TopicToken,
    check_unexpired,
    check_usable,
)
from recapito.domain.connections.form import form_of
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

PROVIDER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid"
TOPIC, DOMAIN, NAMESPACE = f"{PROVIDER}/topics/orders", f"{PROVIDER}/domains/shop", f"{PROVIDER}/namespaces/ns"
HOST = "https://orders.westeurope-1.eventgrid.azure.net"
TOKEN = "r=https%3a%2f%2forders%2fapi%2fevents&e=2030-01-01T00%3a00%3a00Z&s=canary"
KEY = "SharedAccessKey=canary+key="


@pytest.mark.parametrize(
    ("id", "text", "url", "credential"),
    [
        (TOPIC, f"Endpoint={HOST}/api/events;{KEY}", f"{HOST}/api/events", TopicKey("canary+key=")),
        (TOPIC, f"endpoint={HOST}?api-version=2018-01-01 ; {KEY}", f"{HOST}/api/events", TopicKey("canary+key=")),
        (
            f"{DOMAIN}/topics/a",
            f"Endpoint=http://127.0.0.1:8000/domains/shop/api/events;{KEY}",
            "http://127.0.0.1:8000/domains/shop/api/events",
            TopicKey("canary+key="),
        ),
        (TOPIC, f"Endpoint={HOST};SharedAccessSignature={TOKEN}", f"{HOST}/api/events", TopicToken(TOKEN)),
        (NAMESPACE, f"Endpoint={HOST}/;{KEY}", HOST, TopicKey("canary+key=")),
        (f"{NAMESPACE}/topics/t", f"Endpoint={HOST};Authentication=Managed Identity", HOST, DefaultCredential()),
    ],
)
def test_connection_strings(id: str, text: str, url: str, credential: Credential) -> None:
    """Key, token and identity, with the endpoint as Azure shows it; the form gives the same connection again."""
    connection = choose(id, Choice(connection_string=text))
    assert connection.endpoints == {AzureService.EVENT_GRID: url}
    assert connection.credential == credential
    assert "canary" not in repr(connection) + repr(connection.credential)
    form = form_of(connection)
    again = Choice(
        connection_string=form.get("connectionString"),
        default_credential=form.get("defaultCredential", False),
        endpoints=form.get("endpoints"),
    )
    assert choose(id, again) == connection


@pytest.mark.parametrize(
    ("id", "choice", "part"),
    [
        (TOPIC, Choice(connection_string=f"Endpoint={HOST}"), "one of SharedAccessKey"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST};{KEY};Authentication=ManagedIdentity"), "one of"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST};{KEY};{KEY}"), "each once"),
        (TOPIC, Choice(connection_string=f"AccountName=a;{KEY}"), "Endpoint"),
        (TOPIC, Choice(connection_string=KEY), "Endpoint"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST}/canary;{KEY}"), "/api/events"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST};Authentication=canary"), "Managed Identity"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST};SharedAccessSignature=canary"), "r=…&e=…&s=…"),
        (TOPIC, Choice(connection_string="Endpoint=http://a.example;Authentication=Managed Identity"), "https://"),
        (TOPIC, Choice(connection_string=f"Endpoint={HOST};SharedAccessKey=canary\x01"), "character"),
        (NAMESPACE, Choice(connection_string=f"Endpoint={HOST};SharedAccessSignature={TOKEN}"), "namespace"),
        (TOPIC, Choice(default_credential=True), "eventgrid"),
        (TOPIC, Choice(sas_url="https://a.example/?sig=canary"), "--connection-string"),
    ],
)
def test_wrong_connections(id: str, choice: Choice, part: str) -> None:
    """The error names the wrong part, without a secret."""
    with pytest.raises(InvalidInput) as refused:
        choose(id, choice)
    assert part in refused.value.message and "canary" not in refused.value.message


def test_an_ended_token_is_refused() -> None:
    """The end of a token is known, so it is refused when it is set, and when a subscription would use it."""
    connection = choose(TOPIC, Choice(connection_string=f"Endpoint={HOST};SharedAccessSignature={TOKEN}"))
    end = 1893456000 * SECOND
    assert connection.expires_at == end
    check_unexpired(connection, end - 1)
    check_usable(connection, AzureService.EVENT_GRID, end - 1)
    with pytest.raises(InvalidInput, match="ended"):
        check_unexpired(connection, end)
    with pytest.raises(InvalidInput, match="connection set"):
        check_usable(connection, AzureService.EVENT_GRID, end)
