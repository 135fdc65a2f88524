"""A connection to any account, and a webhook that must not be asked."""

from recapito.domain.connections.connection import Connection
from recapito.domain.connections.parse_storage import azurite
from recapito.domain.handshake.http_call import HttpRequest
from recapito.senders.memory_caller import ScriptedAnswer


async def everywhere(resource_id: str) -> Connection | None:
    """A connection to any account."""
    return azurite(resource_id)


def nobody(request: HttpRequest) -> ScriptedAnswer:
    """There is no webhook to be asked."""
    raise AssertionError(request)
