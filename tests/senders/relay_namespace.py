"""The relay namespace of the tests."""

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_host import from_relay_string
from tests.relay.front import Rule

NAMESPACE = "/subscriptions/s-1/resourceGroups/shop/providers/Microsoft.Relay/namespaces/shop-relay"
RULES = {
    "Both": Rule("canary-both", frozenset({"Listen", "Send"})),
    "Listen": Rule("canary-listen", frozenset({"Listen"})),
}


def connection(port: int, name: str = "Both", key: str = "canary-both") -> Connection:
    """A connection to a relay on this machine."""
    text = f"Endpoint=http://127.0.0.1:{port}/;SharedAccessKeyName={name};SharedAccessKey={key}"
    return from_relay_string(NAMESPACE, text)
