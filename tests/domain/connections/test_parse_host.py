"""Connections to Functions hosts and relays: each form taken whole, or refused without repeating its secret."""

import base64
import hashlib
import hmac
from urllib.parse import quote

import pytest

from recapito.domain.access.sas import sign_namespace_token
from recapito.domain.connections.connection import AzureService, Connection, FunctionKey, PolicyKey
from recapito.domain.connections.parse_host import from_function_host, from_relay_string
from recapito.domain.instant import SECOND
from recapito.errors import InvalidInput

GROUP = "/subscriptions/s-1/resourceGroups/shop/providers"
APP = f"{GROUP}/Microsoft.Web/sites/shop-app"
FUNCTION = f"{APP}/functions/OnOrder"
NAMESPACE = f"{GROUP}/Microsoft.Relay/namespaces/shop-relay"
HYBRID = f"{NAMESPACE}/hybridConnections/orders"
KEY = "SharedAccessKeyName=Root;SharedAccessKey=canary+key="


@pytest.mark.parametrize(
    ("resource_id", "url", "root", "key"),
    [
        (APP, "http://localhost:7071", "http://localhost:7071", ""),
        (APP, "https://shop-app.azurewebsites.net/?code=a%2Fb%3D", "https://shop-app.azurewebsites.net", "a/b="),
        (
            FUNCTION,
            "http://127.0.0.1:7071/runtime/webhooks/EventGrid?functionName=onorder&code=abc",
            "http://127.0.0.1:7071",
            "abc",
        ),
    ],
)
def test_functions_hosts(resource_id: str, url: str, root: str, key: str) -> None:
    """A host's URL is taken alone, with a key, or as the host prints it for a function."""
    assert from_function_host(resource_id, url) == Connection(
        resource_id=resource_id, endpoints={AzureService.FUNCTION: root}, credential=FunctionKey(key)
    )


@pytest.mark.parametrize(
    ("resource_id", "url", "part"),
    [
        (NAMESPACE, "http://localhost:7071", "function app"),
        (APP, "localhost:7071", "http://"),
        (APP, "http://localhost:7071/api/hello?code=canary", "no path"),
        (APP, "http://localhost:7071?clientId=canary", "'code'"),
        (FUNCTION, "http://localhost:7071?functionName=canary", "OnOrder"),
        (APP, "http://localhost:7071?code=canary%0A", "key"),
    ],
)
def test_wrong_functions_hosts(resource_id: str, url: str, part: str) -> None:
    """The error names the wrong part, without the key."""
    with pytest.raises(InvalidInput) as refused:
        from_function_host(resource_id, url)
    assert part in refused.value.message and "canary" not in refused.value.message


@pytest.mark.parametrize(
    ("resource_id", "text", "root"),
    [
        (
            NAMESPACE,
            f"Endpoint=sb://shop-relay.servicebus.windows.net/;{KEY}",
            "https://shop-relay.servicebus.windows.net",
        ),
        (HYBRID, f"Endpoint=sb://x.example.net:8443/;{KEY};EntityPath=Orders", "https://x.example.net:8443"),
        (HYBRID, f"endpoint=http://127.0.0.1:9000;{KEY};", "http://127.0.0.1:9000"),
    ],
)
def test_relay_strings(resource_id: str, text: str, root: str) -> None:
    """A namespace's string, or one of a hybrid connection, is reached by https unless it says http itself."""
    connection = from_relay_string(resource_id, text)
    assert connection == Connection(
        resource_id=resource_id, endpoints={AzureService.RELAY: root}, credential=PolicyKey("Root", "canary+key=")
    )
    assert "canary" not in repr(connection) and "canary" not in repr(connection.credential)


@pytest.mark.parametrize(
    ("resource_id", "text", "part"),
    [
        (APP, f"Endpoint=sb://a.example/;{KEY}", "relay namespace"),
        (NAMESPACE, KEY, "no Endpoint"),
        (NAMESPACE, "Endpoint=sb://a.example/;SharedAccessKey=canary", "no SharedAccessKeyName"),
        (NAMESPACE, "Endpoint=sb://a.example/;SharedAccessKeyName=canary", "no SharedAccessKey"),
        (NAMESPACE, f"Endpoint=sb://a.example/;{KEY};EntityPath=orders", "that hybrid connection"),
        (HYBRID, f"Endpoint=sb://a.example/;{KEY};EntityPath=others", "names 'orders'"),
        (NAMESPACE, f"Endpoint=sb://a.example/path;{KEY}", "without path"),
        (NAMESPACE, f"Endpoint=sb://other.servicebus.windows.net/;{KEY}", "'other'"),
        (NAMESPACE, f"Endpoint=sb://a.example/;{KEY};AccountKey=canary", "not that of a relay"),
        (NAMESPACE, f"Endpoint=sb://a.example/;{KEY};{KEY}", "not that of a relay"),
        (NAMESPACE, "canary", "not that of a relay"),
        (NAMESPACE, f"Endpoint=sb://a.example/;{KEY}canary\u00e9", "SharedAccessKey"),
        (NAMESPACE, "canary" * 1000, "longer"),
    ],
)
def test_wrong_relay_strings(resource_id: str, text: str, part: str) -> None:
    """The error names the wrong part, without the key."""
    with pytest.raises(InvalidInput) as refused:
        from_relay_string(resource_id, text)
    assert part in refused.value.message and "canary" not in refused.value.message


def test_signatures() -> None:
    """A token names the resource, its end in whole seconds and the key, under an HMAC of the first two as encoded."""
    resource = quote("http://shop-relay.example/orders", safe="")
    signed = hmac.new(b"se cret", f"{resource}\n1900000000".encode(), hashlib.sha256).digest()
    signature = quote(base64.b64encode(signed).decode(), safe="")
    token = sign_namespace_token("http://shop-relay.example/orders", "Send it", "se cret", 1_900_000_000 * SECOND + 7)
    assert token == f"SharedAccessSignature sr={resource}&sig={signature}&se=1900000000&skn=Send%20it"
