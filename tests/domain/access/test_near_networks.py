"""The networks near a server in development mode: whose callers need no login, and by which names."""

import pytest

from recapito.domain.access.near_networks import LOOPBACK_ONLY, parse_routes

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
eth0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
eth1	0000A8C0	010011AC	0003	0	0	0	00FFFFFF	0	0	0
eth2	00080808	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth3	0000FEA9	00000000	0001	0	0	0	0000FFFF	0	0	0
short	line
"""
NEAR = parse_routes(ROUTES)


def test_only_connected_private_networks_are_near() -> None:
    """Neither the default route, nor networks behind a gateway, nor public and link-local ones count."""
    assert str(NEAR) == "172.17.0.0/16" and str(parse_routes("")) == "none"


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("172.17.0.1", True),
        ("::ffff:172.17.255.2", True),
        ("172.18.0.1", False),
        ("192.168.0.7", False),
        ("8.8.8.8", False),
        ("fd00::1", False),
        ("", False),
        ("recapito", False),
    ],
)
def test_callers(address: str, near: bool) -> None:
    """A caller is near on loopback and in the networks; without networks only loopback is."""
    assert NEAR.has(address) is near
    assert LOOPBACK_ONLY.has(address) is (address in ("127.0.0.1", "::1"))


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("orders.localhost", True),
        ("172.17.0.2", True),
        ("recapito", True),
        ("host.docker.internal", True),
        ("recapito.default.svc", True),
        ("recapito.default.svc.cluster.local", True),
        ("8.8.8.8", False),
        ("events.example", False),
        ("internal.example", False),
        ("", False),
    ],
)
def test_names(host: str, private: bool) -> None:
    """A name that a public name server could answer for opens nothing; without networks only loopback's names do."""
    assert NEAR.may_be_called(host) is private
    assert LOOPBACK_ONLY.may_be_called(host) is ("localhost" in host)
