"""The networks that this machine, or the container that the process is in, is directly connected to."""

from pathlib import Path

from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks, parse_routes

_ROUTES = Path("/proc/net/route")


def connected_networks() -> NearNetworks:
    """The private networks of IPv4; none if the system does not tell them."""
    try:
        return parse_routes(_ROUTES.read_text("ascii"))
    except (OSError, ValueError):
        return LOOPBACK_ONLY
