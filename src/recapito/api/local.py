"""Until identity exists, management is for this machine only.

The peer must be a loopback address, and the Host header and any Origin must name loopback too: a web page elsewhere
can make a browser here send requests, but it can choose neither of these (DNS rebinding, cross-site requests).
"""

from urllib.parse import urlsplit

from starlette.types import Scope

from recapito.api.errors import Forbidden
from recapito.domain.access import is_loopback


def peer_of(scope: Scope) -> str | None:
    """The address that a request comes from."""
    client = scope.get("client")
    return None if client is None else client[0]


def check_local(scope: Scope) -> None:
    """Raise Forbidden unless peer, Host and Origin are all this machine's own."""
    if not is_loopback(peer_of(scope) or ""):
        raise Forbidden("Forbidden", "Management answers only callers on this machine.")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or not _is_loopback_url(f"http://{hosts[0].decode('latin-1')}"):
        raise Forbidden("Forbidden", "Management answers only when the Host header names this machine by loopback.")
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if not all(_is_loopback_url(origin.decode("latin-1")) for origin in origins):
        raise Forbidden("Forbidden", "Management does not answer web pages from elsewhere.")


def _is_loopback_url(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "localhost" or host.endswith(".localhost") or is_loopback(host)
