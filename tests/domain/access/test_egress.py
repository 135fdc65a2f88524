"""Egress: which addresses may be dialled, in every spelling, and which URLs are endpoints at all."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from recapito.domain.access.egress import Egress, judge, judge_endpoint, parse_endpoint
from recapito.errors import InvalidInput

NEVER = """
    169.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16
    169.254.0.0 169.254.255.255 0.0.0.0 0.255.255.255 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    192.0.0.1 192.0.0.255 192.0.2.1 198.51.100.7 203.0.113.7 198.18.0.1 198.19.255.255
    192.88.99.1 192.31.196.1 192.52.193.1 192.175.48.1
"""
LOCAL = """
    127.0.0.1 127.255.255.255 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
    169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
    223.255.255.255 20.50.2.1
"""
ADDRESSES = [
    (IPv4Address(v4), kind)
    for kind, text in (("never", NEVER), ("local", LOCAL), ("public", PUBLIC))
    for v4 in text.split()
]

# Every way that we know of to write an IPv4 address inside an IPv6 address.
EMBEDDINGS = [
    lambda v4: f"::ffff:{v4}",
    lambda v4: f"0000:0000:0000:0000:0000:FFFF:{int(v4) >> 16:04X}:{int(v4) & 0xFFFF:04X}",
    lambda v4: f"::{v4}",
    lambda v4: f"::ffff:0:{v4}",
    lambda v4: f"64:ff9b::{v4}",
    lambda v4: f"64:ff9b:1:ab:cd:ef:{v4}",
    lambda v4: f"2002:{int(v4) >> 16:x}:{int(v4) & 0xFFFF:x}::1",
    lambda v4: f"2002:{int(v4) >> 16:x}:{int(v4) & 0xFFFF:x}:ffff:1:2:3:4",
    lambda v4: str(IPv6Address(0x2001_0000_0808_0808 << 64 | int(v4) ^ 0xFFFFFFFF)),  # a Teredo client
    lambda v4: str(IPv6Address(0x2001 << 112 | int(v4) << 64 | 0xF7F7F7F7)),  # a Teredo server
    lambda v4: f"2a00:1450::5efe:{v4}",
    lambda v4: f"2a00:1450::200:5efe:{v4}",
    lambda v4: f"2002:808:808::5efe:{v4}",
]
# Local NAT64 prefixes of 64, 56 and 48 bits: how long the prefix is cannot be seen.
AMBIGUOUS = [
    lambda v4: str(IPv6Address(0x0064_FF9B_0001_0007 << 64 | int(v4) << 24)),
    lambda v4: str(IPv6Address(0x0064_FF9B_0001_0100 << 64 | int(v4) >> 24 << 64 | (int(v4) & 0xFFFFFF) << 32)),
    lambda v4: str(IPv6Address(0x0064_FF9B_0001 << 80 | int(v4) >> 16 << 64 | (int(v4) & 0xFFFF) << 40)),
]


def test_every_spelling() -> None:
    """An IPv4 address in any IPv6 dress is judged as that IPv4 address."""
    # ::0.0.0.0 is IPv6's own unspecified address, which is refused as well.
    spellings = [(write(v4), kind) for v4, kind in ADDRESSES for write in (str, *EMBEDDINGS)]
    assert len(spellings) >= 500
    for spelling, kind in spellings:
        assert (judge(spelling, Egress.LOCAL) is None) == (kind != "never"), spelling
        assert (judge(spelling, Egress.PUBLIC) is None) == (kind == "public"), spelling


def test_ambiguous_spellings() -> None:
    """Where the prefix may have any length, every reading is judged, and one that is refused is enough."""
    for v4, kind in ADDRESSES:
        for spelling in (write(v4) for write in AMBIGUOUS):
            assert judge(spelling, Egress.LOCAL) is not None or kind != "never", spelling
            assert judge(spelling, Egress.PUBLIC) is not None or kind == "public", spelling


@pytest.mark.parametrize(
    "address",
    [
        *("::", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1", "fd00:ec2::254"),
        *("fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "100::1", "100:0:0:1::1", "2001:db8::1", "3fff::1"),
        *(
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff:ffff::1",
            "5f00::1",
            "4000::1",
            "1::1",
            "200::1",
            "e000::1",
        ),
        *("fe80::5efe:8.8.8.8", "2620:4f:8000::1", "64:ff9b:2::1", "::ffff:1:0:0"),
        *("", "localhost", "127.1", "0177.0.0.1", "2130706433", "0x7f.0.0.1", "[::1]", "1.2.3.4.5", "１２７.０.０.１"),
    ],
)
def test_never(address: str) -> None:
    """Link-local, metadata, multicast, reserved and what is no address are refused in every mode."""
    assert all(judge(address, egress) for egress in Egress)


@pytest.mark.parametrize("address", ["::1", "fc00::1", "fd12:3456::1", "FDFF::1"])
def test_local_only(address: str) -> None:
    """Loopback and unique local addresses are for local egress."""
    assert judge(address, Egress.LOCAL) is None
    assert judge(address, Egress.PUBLIC) in ("a loopback address", "a private address")


@pytest.mark.parametrize("address", ["2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::5e", "3ffe::1"])
def test_public(address: str) -> None:
    """Global unicast goes everywhere."""
    assert all(judge(address, egress) is None for egress in Egress)


@pytest.mark.parametrize(
    ("url", "host", "port", "built"),
    [
        ("http://example.com", "example.com", 80, "http://example.com:80/"),
        ("HTTPS://Example.COM./a/../b?x=%20&y", "example.com", 443, "https://example.com:443/a/../b?x=%20&y"),
        ("https://example.com?code=1", "example.com", 443, "https://example.com:443/?code=1"),
        ("http://my_service:8080/x?u=http://a@b", "my_service", 8080, "http://my_service:8080/x?u=http://a@b"),
        ("http://127.0.0.1:9000/", "127.0.0.1", 9000, "http://127.0.0.1:9000/"),
        ("http://[0:0::1]:9000/x", "::1", 9000, "http://[::1]:9000/x"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", 443, "https://xn--bcher-kva.example:443/"),
        ("http://\uff11\uff12\uff17\u3002\uff10.\uff10.\uff11:8080/", "127.0.0.1", 8080, "http://127.0.0.1:8080/"),
    ],
)
def test_endpoints(url: str, host: str, port: int, built: str) -> None:
    """An endpoint is put together again from its parts: lower case, ASCII, with its port."""
    endpoint = parse_endpoint(url)
    assert endpoint.host == host
    assert endpoint.port == port
    assert endpoint.url == built
    assert endpoint.url == f"{endpoint.scheme}://{f'[{host}]' if ':' in host else host}:{port}{endpoint.target}"


NOT_ENDPOINTS = [
    *("", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "http:example.com"),
    *("http://", "http:///x", "http://?x", "http://:80/", "http://@a/", "http://u@example.com/", "http://u:p@a.com/"),
    *("http://example.com/#part", "http://example.com/a b", "http://example.com/\r\nX: y", "http://a.com/\t"),
    *("http://example.com\\@evil.com/", "http://exa\x00mple.com/", " http://example.com/", "http://a.com/\x7f"),
    *("http://example.com:0/", "http://example.com:65536/", "http://example.com:/", "http://example.com:x/"),
    *("http://example.com:22/", "https://example.com:25/", "http://a.com:6379/", "http://a.com:+80/"),
    *("http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://1.2.3.4.5/"),
    *("http://[::1/", "http://::1/", "http://[fe80::1%25eth0]/", "http://[fe80::1%1]/", "http://[::g]/", "http://[]/"),
    *("http://exam%70le.com/", "http://-a.com/", "http://a-.com/", "http://a..b/", "http://.a/", "http://a*b/"),
    *(f"http://{'a' * 64}.com/", f"http://{'a.' * 127}com/", f"http://example.com/{'a' * 2048}"),
    *(
        "http://example.com/\u00e9",
        "http://\ud800.com/",
        "http://a.com/\u2028",
        "http://a.com/\xa0",
        "http://a\u2100b/",
    ),
]


@pytest.mark.parametrize("url", NOT_ENDPOINTS)
def test_not_endpoints(url: str) -> None:
    """Whatever leaves a doubt about where it leads is refused, without repeating the query."""
    with pytest.raises(InvalidInput) as caught:
        parse_endpoint(url)
    assert caught.value.code == "InvalidEndpoint"
    assert caught.value.target == "endpointUrl"


def test_the_query_is_not_shown() -> None:
    """Neither an endpoint's repr nor an error shows the query."""
    assert repr(parse_endpoint("http://example.com/hook?code=s3cret")) == "<EndpointUrl http://example.com:80/hook>"
    for url in ("http://example.com:22/?code=s3cret", "http://a b/?code=s3cret", "gopher://x/?code=s3cret"):
        with pytest.raises(InvalidInput) as caught:
            parse_endpoint(url)
        assert "s3cret" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "local", "public"),
    [
        ("http://169.254.169.254/", "a cloud metadata address", "a cloud metadata address"),
        ("http://[::ffff:10.0.0.1]/", None, "a private address"),
        ("http://localhost/", None, "a loopback address"),
        ("http://app.localhost/", None, "a loopback address"),
        ("http://8.8.8.8/", None, None),
        ("http://example.com/", None, None),
    ],
)
def test_judgement_before_dialling(url: str, local: str | None, public: str | None) -> None:
    """A URL with an address, or with localhost, is judged at once; any other name when it is dialled."""
    endpoint = parse_endpoint(url)
    assert judge_endpoint(endpoint, Egress.LOCAL) == local
    assert judge_endpoint(endpoint, Egress.PUBLIC) == public
