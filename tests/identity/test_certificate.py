"""Certificates: what is in them, when they are renewed, and which files are refused."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from recapito.errors import SettingsError
from recapito.identity.certificate import CertificateFiles, load_context, prepare

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ("localhost", "*.localhost", "127.0.0.1", "::1", "127.0.0.1", "*.local-1.eventgrid.azure.net", "")


def contents(files: CertificateFiles) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files}


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_what_is_in_them(tmp_path: Path) -> None:
    """An authority that may only sign certificates, and a server certificate of it for all the names."""
    files = prepare(tmp_path / "tls", NAMES, NOW)
    authority, server = load(files.authority), load(files.certificate)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical and constraints.value.ca
    usage = authority.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical and usage.value.key_cert_sign and usage.value.crl_sign and not usage.value.digital_signature
    server.verify_directly_issued_by(authority)
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    extended = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    issuer = server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issuer.key_identifier == identifier
    named = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert named.get_values_for_type(x509.DNSName) == ["localhost", "*.localhost", NAMES[-2]]
    assert named.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]


def test_who_may_read_them(tmp_path: Path) -> None:
    """Keys are their owner's alone; the bundle ends with our authority."""
    files = prepare(tmp_path / "tls", NAMES, NOW)
    modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o644, "server.key": 0o600, "bundle.pem": 0o644}
    assert files.bundle.read_bytes().endswith(files.authority.read_bytes())
    assert {path.name for path in (tmp_path / "tls").iterdir()} == set(modes)


def test_made_once(tmp_path: Path) -> None:
    """A later start, with the same names or fewer, changes nothing."""
    before = contents(prepare(tmp_path, NAMES, NOW))
    assert contents(prepare(tmp_path, NAMES, NOW + timedelta(days=300))) == before
    assert contents(prepare(tmp_path, NAMES[:2], NOW)) == before


def test_renewed_before_it_ends(tmp_path: Path) -> None:
    """The certificate is made anew a month before its end, by the same authority: clients need not trust anew."""
    before = contents(prepare(tmp_path, NAMES, NOW))
    files = prepare(tmp_path, NAMES, NOW + timedelta(days=397 - 29))
    assert files.authority.read_bytes() == before["ca.pem"]
    assert files.certificate.read_bytes() != before["server.pem"]
    assert load(files.certificate).not_valid_after_utc > NOW + timedelta(days=700)


@pytest.mark.parametrize("names", [(*NAMES, "other.example"), (*NAMES, "192.0.2.7")])
def test_another_name_makes_another_certificate(tmp_path: Path, names: tuple[str, ...]) -> None:
    """A server that gets another name gets a certificate for it, by the same authority."""
    before = contents(prepare(tmp_path, NAMES, NOW))
    files = prepare(tmp_path, names, NOW)
    assert files.authority.read_bytes() == before["ca.pem"]
    assert files.certificate.read_bytes() != before["server.pem"]


@pytest.mark.parametrize("damaged", ["ca.pem", "ca.key", "server.pem", "server.key", "bundle.pem"])
@pytest.mark.parametrize("content", [b"nonsense", None])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damaged: str, content: bytes | None) -> None:
    """Whichever file is lost or damaged, the server has a working pair again."""
    files = prepare(tmp_path, NAMES, NOW)
    (tmp_path / damaged).unlink()
    if content is not None:
        (tmp_path / damaged).write_bytes(content)
    prepare(tmp_path, NAMES, NOW)
    load(files.certificate).verify_directly_issued_by(load(files.authority))
    load_context(files.certificate, files.key)


def test_both_sides_speak(tmp_path: Path) -> None:
    """A client that trusts the bundle accepts the server by its name and by its address."""
    files = prepare(tmp_path, NAMES, datetime.now(UTC))
    server_side = load_context(files.certificate, files.key)
    assert server_side.minimum_version is ssl.TLSVersion.TLSv1_2
    for name in ("localhost", "orders.local-1.eventgrid.azure.net", "127.0.0.1", "::1"):
        client_side = ssl.create_default_context(cafile=str(files.bundle))
        one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_side.wrap_bio(one, two, server_side=True)
        client = client_side.wrap_bio(two, one, server_hostname=name)
        done: set[ssl.SSLObject] = set()
        while len(done) < 2:
            for side in (client, server):
                try:
                    side.do_handshake()
                    done.add(side)
                except ssl.SSLWantReadError:
                    continue
        assert client.version() == "TLSv1.3"


def test_files_that_are_refused(tmp_path: Path) -> None:
    """A missing, unreadable, foreign, broken or locked file is named with what is wrong."""
    ours, theirs = prepare(tmp_path / "a", NAMES, NOW), prepare(tmp_path / "b", NAMES, NOW)
    broken = tmp_path / "broken.pem"
    broken.write_text("nonsense")
    locked = tmp_path / "locked.key"
    private = serialization.load_pem_private_key(ours.key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    encryption = serialization.BestAvailableEncryption(b"password")
    locked.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    for certificate, key, said in (
        (tmp_path / "none.pem", ours.key, r"tls.cert: .*none.pem cannot be read: No such file"),
        (ours.certificate, tmp_path / "none.key", r"tls.key: .*none.key cannot be read: No such file"),
        (ours.certificate, tmp_path, r"tls.key: .* cannot be read: Is a directory"),
        (ours.certificate, theirs.key, r"tls.key: .*server.key is not the key of the certificate"),
        (broken, ours.key, r"tls: .*broken.pem and .* are not a certificate and its key"),
        (ours.certificate, broken, r"tls: .* are not a certificate and its key"),
        (ours.certificate, locked, r"tls.key: the key has a password"),
    ):
        with pytest.raises(SettingsError, match=said):
            load_context(certificate, key)


def test_a_directory_that_can_not_be_written(tmp_path: Path) -> None:
    """The path is named."""
    (tmp_path / "tls").write_text("x")
    with pytest.raises(SettingsError, match=r"tls/ca\.pem cannot be read"):
        prepare(tmp_path / "tls", NAMES, NOW)
