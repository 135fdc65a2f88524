"""Until identity exists, management is for this machine only.

The peer must be a loopback address, and the Host header and any Origin must name loopback too: a web page elsewhere
can make a browser here send requests, but it can choose neither of these (DNS rebinding, cross-site requests).
"""

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from recapito.api.errors import Forbidden


def check_local(scope: Scope) -> None:
    """Raise Forbidden unless peer, Host and Origin are all this machine's own."""
    client = scope.get("client")
    if client is None or not _is_loopback_address(client[0]):
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
    return host == "localhost" or host.endswith(".localhost") or _is_loopback_address(host)


def _is_loopback_address(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
