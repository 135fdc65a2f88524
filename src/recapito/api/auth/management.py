"""Admission to management: a token of a principal whose roles allow it, or, on loopback, no token.

A token that is sent decides. Without one the peer must be a loopback address, and the Host header and any Origin must
name loopback too: a web page elsewhere can make a browser on this machine send requests, but it can choose neither of
these (DNS rebinding, cross-site requests). In development mode the private networks of the machine, and names that no
public name server knows, count as loopback.
"""

from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from recapito.api.auth.access import Access
from recapito.api.errors import Forbidden, Unauthenticated
from recapito.api.publish.authenticate import bearer_of
from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks
from recapito.domain.access.roles import Plane, may, operation_of
from recapito.identity.wrong_secrets import WrongSecrets


class ManagementGate:
    """Admits requests to management, and to pages that show names of topics and subscriptions (`admit_to_status`)."""

    def __init__(self, access: Access, wrong_secrets: WrongSecrets) -> None:
        self._access = access
        self._wrong_secrets = wrong_secrets

    async def admit(self, request: Request) -> None:
        """Raise Unauthenticated or Forbidden unless the request may do what it asks for."""
        headers = dict(request.scope["headers"])
        if b"authorization" not in headers and self._access.open_to_loopback:
            check_near(request.scope, self._access.near)
            return
        token = bearer_of(headers)
        principal = None if token is None else await self._access.tokens.verify(token, Plane.MANAGEMENT)
        if principal is None:
            if token is not None:
                await self._wrong_secrets.refused("management", peer_of(request.scope))
            raise Unauthenticated(self._access.authority)
        operation = operation_of(request.method, request.url.path)
        if not may(principal.roles, operation):
            raise Forbidden(
                "AuthorizationFailed",
                f"The client '{principal.id}' does not have authorization to perform the action '{operation}' here.",
            )

    async def admit_to_status(self, request: Request) -> None:
        """Like `admit`, but the scrape token is enough, and no token is needed where the settings allow that."""
        if not self._access.status_authenticated:
            return
        token = bearer_of(dict(request.scope["headers"])) or ""
        scrape = self._access.scrape_token
        if not scrape or not compare_digest(token.encode("latin-1"), scrape.encode("latin-1")):
            await self.admit(request)


async def admit_to_status(request: Request) -> None:
    """Apply the application's gate to a request."""
    admission: ManagementGate = request.app.state.admission
    await admission.admit_to_status(request)


async def admit(request: Request) -> None:
    """Apply the application's gate to a request."""
    admission: ManagementGate = request.app.state.admission
    await admission.admit(request)


def check_near(scope: Scope, near: NearNetworks = LOOPBACK_ONLY) -> None:
    """Raise Forbidden unless peer, Host and Origin are all loopback, or in development mode of a near network."""
    if not near.has(peer_of(scope) or ""):
        who = f"this machine and the networks {near}" if near.networks else "this machine only"
        raise Forbidden("Forbidden", f"Management without a token is open to {who}. Send a bearer token.")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or not near.may_be_called(_host_of(f"http://{hosts[0].decode('latin-1')}")):
        who = "loopback or a private name" if near.networks else "loopback"
        raise Forbidden("Forbidden", f"Management without a token needs a Host header that names {who}.")
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if not all(near.may_be_called(_host_of(origin.decode("latin-1"))) for origin in origins):
        raise Forbidden("Forbidden", "Management without a token does not answer web pages of other origins.")


def peer_of(scope: Scope) -> str | None:
    """The address of the client."""
    client = scope.get("client")
    return None if client is None else client[0]


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
