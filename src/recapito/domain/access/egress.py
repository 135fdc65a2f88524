"""The destinations that deliveries may go to: endpoints are parsed strictly, addresses are judged by a table.

Link-local, cloud metadata, multicast and reserved addresses are refused in every mode and in every IPv6 spelling of
an IPv4 address. The sender judges the very address that it dials, at the moment of dialling.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from recapito.domain import limits
from recapito.errors import InvalidInput


class Egress(StrEnum):
    """Which targets are allowed: `local` takes loopback, private and public ones, `public` public ones only."""

    LOCAL = "local"
    PUBLIC = "public"


_LOOPBACK = "a loopback address"
_PRIVATE = "a private address"
_METADATA = "a cloud metadata address"
_LINK_LOCAL = "a link-local address"
_MULTICAST = "a multicast address"
_UNSPECIFIED = "an unspecified address"
_RESERVED = "a reserved address"
_LOCAL_KINDS = frozenset({_LOOPBACK, _PRIVATE})

# The IANA special-purpose registries of IPv4 and IPv6, and the metadata services of the clouds; the first match counts.
# `ipaddress.is_global` takes many of these for public.
_SPECIAL_V4 = [
    (IPv4Network(block), kind)
    for kind, blocks in (
        (_METADATA, "169.254.169.254 100.100.100.200 192.0.0.192 168.63.129.16"),
        (_LINK_LOCAL, "169.254.0.0/16"),
        (_UNSPECIFIED, "0.0.0.0/8"),
        (_LOOPBACK, "127.0.0.0/8"),
        (_PRIVATE, "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16"),
        (_MULTICAST, "224.0.0.0/4"),
        (_RESERVED, "192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24"),
        (_RESERVED, "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4"),
    )
    for block in blocks.split()
]
_SPECIAL_V6 = [
    (IPv6Network(block), kind)
    for kind, blocks in (
        (_METADATA, "fd00:ec2::/32 fd20:ce::254 fd00:c1::a9fe:a9fe"),
        (_UNSPECIFIED, "::"),
        (_LOOPBACK, "::1"),
        (_LINK_LOCAL, "fe80::/10"),
        (_PRIVATE, "fc00::/7"),
        (_MULTICAST, "ff00::/8"),
        (_RESERVED, "2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20"),
    )
    for block in blocks.split()
]
_UNICAST_V6 = IPv6Network("2000::/3")

# IPv6 blocks that carry an IPv4 address in their last 32 bits and are nothing else.
_EMBEDDING = [IPv6Network(block) for block in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LOW_32 = 0xFFFFFFFF


def judge(address: str, egress: Egress) -> str | None:
    """None if this address may be dialled, else a short reason."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "not an IP address"
    for kind in _kinds(parsed):
        if kind is not None and (egress is Egress.PUBLIC or kind not in _LOCAL_KINDS):
            return kind
    return None


def _kinds(address: IPv4Address | IPv6Address) -> Iterator[str | None]:
    """The kind of the address, and the kind of each IPv4 address in it; None is public."""
    if isinstance(address, IPv4Address):
        yield next((kind for network, kind in _SPECIAL_V4 if address in network), None)
        return
    embedded = list(_embedded(int(address))) if int(address) > 1 else []
    for inner in embedded:
        yield from _kinds(IPv4Address(inner & _LOW_32))
    if not embedded or _is_isatap(int(address)):
        otherwise = None if address in _UNICAST_V6 else _RESERVED
        yield next((kind for network, kind in _SPECIAL_V6 if address in network), otherwise)


def _embedded(bits: int) -> Iterator[int]:
    """Every IPv4 address that this IPv6 address spells."""
    address = IPv6Address(bits)
    if any(address in block for block in _EMBEDDING):
        yield bits
    elif address in _LOCAL_NAT64:
        yield from _local_nat64(bits)
    elif address in _SIX_TO_FOUR:
        yield bits >> 80
    elif address in _TEREDO:
        yield bits >> 64
        yield ~bits
    if _is_isatap(bits):
        yield bits


def _is_isatap(bits: int) -> bool:
    return bits >> 32 & _LOW_32 in _ISATAP


def _local_nat64(bits: int) -> Iterator[int]:
    """RFC 6052 puts the address behind a prefix of 48, 56, 64 or 96 bits, around the octet at bit 64.

    The address does not tell the length of the prefix, so every reading counts.
    """
    yield bits
    without_octet = bits >> 64 << 56 | bits & (1 << 56) - 1
    for prefix, suffix in ((48, 40), (56, 32), (64, 24)):
        if not bits & (1 << suffix) - 1:
            yield without_octet >> 120 - prefix - 32


# Ports of services that a POST could harm and that no webhook listens on.
_REFUSED_PORTS = frozenset(
    {1, 7, 9, 13, 19, 20, 21, 22, 23, 25, 37, 53, 69, 110, 111, 119, 123, 135, 137, 139, 143, 161, 179, 389, 445, 465}
    | {512, 513, 514, 515, 587, 636, 993, 995, 1433, 1521, 2049, 2375, 2379, 3306, 3389, 5432, 5672, 6379, 6667}
    | {11211, 27017}
)
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[^:%\[\]]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NEVER_IN_URL = re.compile(r"[\x00-\x20\x7f-\xa0\\\s]")


@dataclass(frozen=True, slots=True, repr=False)
class EndpointUrl:
    """The full address of a webhook: `url` is composed of the other parts. Its query may be a secret."""

    scheme: str
    host: str
    port: int
    target: str
    url: str

    @property
    def is_literal(self) -> bool:
        """True when the host is an IP address, which needs no name service."""
        return ":" in self.host or bool(_NUMBER.fullmatch(self.host.rpartition(".")[2]))

    def __repr__(self) -> str:
        return f"<EndpointUrl {self.url.partition('?')[0]}>"


def parse_endpoint(url: str) -> EndpointUrl:
    """Parse a URL; InvalidInput if there is any doubt. No message repeats the query."""
    if len(url) > limits.URL_CHARS:
        raise _invalid(f"The endpoint URL is longer than {limits.URL_CHARS} characters.")
    if _NEVER_IN_URL.search(url):
        raise _invalid("The endpoint URL contains a blank, a backslash or a control character: percent-encode it.")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _invalid("The endpoint URL must start with http:// or https:// and have no fragment.")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    if not target.isascii():
        raise _invalid("The endpoint URL's path and query must be percent-encoded.")
    host, port = _parse_authority(authority, 443 if scheme == "https" else 80)
    if not target.startswith("/"):
        target = f"/{target}"
    url_host = f"[{host}]" if ":" in host else host
    return EndpointUrl(scheme, host, port, target, f"{scheme}://{url_host}:{port}{target}")


def judge_endpoint(endpoint: EndpointUrl, egress: Egress) -> str | None:
    """Judge an endpoint before dialling, which is possible for IP addresses and localhost only; None otherwise."""
    if endpoint.host == "localhost" or endpoint.host.endswith(".localhost"):
        return judge("127.0.0.1", egress)
    return judge(endpoint.host, egress) if endpoint.is_literal else None


def _parse_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise _invalid("The endpoint URL must not hold a user name or a password.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise _invalid("The endpoint URL's host or port is malformed.")
    port = int(parts[2]) if parts[2] else default_port
    if not 1 <= port <= 65535 or port in _REFUSED_PORTS:
        raise _invalid(f"Port {port} of the endpoint URL is not allowed for webhooks: choose another port.")
    return _parse_host(parts[1]), port


def _parse_host(host: str) -> str:
    try:
        if host.startswith("["):
            return str(IPv6Address(host[1:-1]))
        name = (host if host.isascii() else host.encode("idna").decode("ascii")).lower().removesuffix(".")
        labels = name.split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return str(IPv4Address(name))
    except ValueError:
        raise _invalid("The endpoint URL's host is not a valid name or address.") from None
    if len(name) > limits.HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise _invalid("The endpoint URL's host is not a valid name or address.")
    return name


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("InvalidEndpoint", message, "endpointUrl")
