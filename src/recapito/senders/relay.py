"""Hybrid connections of a relay: a listener gets the request; the relay checks a signature, and removes it."""

from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.access.egress import parse_endpoint
from recapito.domain.access.sas import sign_namespace_token
from recapito.domain.connections.connection import AzureService, Connection, PolicyKey
from recapito.domain.delivery.attributes import Header
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.resources.destination import HybridConnection
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.senders.azure_http import ResourceTarget

AUTHORIZATION = "ServiceBusAuthorization"

# Answers of the relay itself; a listener may answer the same.
_REMEDY = {
    401: "the key of its connection is wrong, or this machine's clock is: recapito connection set {namespace}",
    403: "the key of its connection may not send: grant it Send, or recapito connection set {namespace}",
    404: "it does not exist, or has no listener",
    502: "it has no listener",
    504: "its listener did not answer",
}


class RelayAdapter:
    """The target of a hybrid connection, and the meaning of the relay's refusals."""

    service = AzureService.RELAY

    async def target(self, destination: HybridConnection, connection: Connection, now: int) -> ResourceTarget:
        """Its path in the namespace, with a token that is signed once and renewed at half its lifetime."""
        root, path = connection.endpoints[AzureService.RELAY], parse_resource_id(destination.resource_id).name
        credential = connection.credential
        if not isinstance(credential, PolicyKey):
            return ResourceTarget(f"{root}/{path}")
        # The relay compares names without the scheme and the port by which it was reached.
        resource = f"http://{parse_endpoint(root).host}/{path}"
        token = sign_namespace_token(resource, credential.policy, credential.key, now + limits.RELAY_TOKEN_NS)
        header = Header(AUTHORIZATION, token, secret=True)
        return ResourceTarget(f"{root}/{path}", (header,), now + limits.RELAY_TOKEN_NS // 2)

    def explain(self, destination: HybridConnection, outcome: Outcome) -> Outcome:
        """The outcome with the remedy before its detail."""
        relay = parse_resource_id(destination.resource_id)
        remedy = _REMEDY.get(outcome.status or 0, "").format(namespace=relay.top.text)
        detail = "; ".join(text for text in (remedy, outcome.detail) if text)
        return (
            replace(outcome, detail=f"{relay.name} of relay namespace {relay.top.name}: {detail}")
            if detail
            else outcome
        )
