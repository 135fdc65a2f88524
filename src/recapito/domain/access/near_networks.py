"""The networks near a server in development mode: those that its machine, or its container, is directly connected to.

Only private networks count, so that a machine with a public address does not open itself to its neighbours.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import NamedTuple

from recapito.domain.access.roles import is_loopback

_PRIVATE_ENDINGS = (".localhost", ".internal", ".local", ".svc")
"""Ends of names that no public name server answers for; Docker's, Podman's and Kubernetes' names have them."""
_HEADER_LINES = 1


class NearNetworks(NamedTuple):
    """The networks whose callers need no login; none of them is loopback alone."""

    networks: tuple[IPv4Network, ...] = ()

    def has(self, address: str) -> bool:
        """Whether an address is loopback or in one of the networks."""
        if is_loopback(address):
            return True
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address):
            if parsed.ipv4_mapped is None:
                return False
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.networks)

    def may_be_called(self, host: str) -> bool:
        """Whether a host name in a request cannot be one that a stranger bends to this server (DNS rebinding)."""
        if host == "localhost" or host.endswith(".localhost") or is_loopback(host):
            return True
        if not self.networks:
            return False
        try:
            return ip_address(host).is_private
        except ValueError:
            return bool(host) and ("." not in host or host.endswith(_PRIVATE_ENDINGS))

    def __str__(self) -> str:
        return ", ".join(map(str, self.networks)) or "none"


LOOPBACK_ONLY = NearNetworks()


def parse_routes(text: str) -> NearNetworks:
    """The private networks in Linux's table of routes (`/proc/net/route`) that are reached without a gateway."""
    networks = set()
    for line in text.splitlines()[_HEADER_LINES:]:
        columns = line.split()
        if len(columns) < 8:
            continue
        target, gateway, mask = (IPv4Address(int(columns[i], 16).to_bytes(4, "little")) for i in (1, 2, 7))
        network = IPv4Network((int(target) & int(mask), bin(int(mask)).count("1")))
        if int(gateway) == 0 and network.prefixlen > 0 and network.is_private and not network.is_link_local:
            networks.add(network)
    return NearNetworks(tuple(sorted(networks)))
