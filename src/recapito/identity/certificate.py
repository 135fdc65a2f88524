"""Certificates: a local authority and a server certificate, made once and renewed before they expire.

A client that trusts the authority trusts every certificate of this directory, so only the owner can read its key.
"""

import ssl
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple, NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from recapito.errors import SettingsError
from recapito.system.secret_file import PUBLIC, write

_AUTHORITY_LIFE = timedelta(days=3650)
_SERVER_LIFE = timedelta(days=397)  # the most that browsers accept
_RENEWED_BEFORE = timedelta(days=30)
_BACKDATED = timedelta(days=1)  # clocks of other machines may be behind
_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_USAGE = {
    "digital_signature": False,
    "content_commitment": False,
    "key_encipherment": False,
    "data_encipherment": False,
    "key_agreement": False,
    "key_cert_sign": False,
    "crl_sign": False,
    "encipher_only": False,
    "decipher_only": False,
}


class KeyPair(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class CertificateFiles(NamedTuple):
    """The files of a directory; `bundle` has the system's authorities and ours."""

    authority: Path
    authority_key: Path
    certificate: Path
    key: Path
    bundle: Path


def files_in(directory: Path) -> CertificateFiles:
    return CertificateFiles(
        *(directory / name for name in ("ca.pem", "ca.key", "server.pem", "server.key", "bundle.pem"))
    )


def prepare(directory: Path, names: Iterable[str], now: datetime) -> CertificateFiles:
    """Make the certificates that are missing, about to expire, or not valid for these names; keep the others."""
    files = files_in(directory)
    authority = _read(files.authority, files.authority_key)
    server = _read(files.certificate, files.key)
    if authority is None or _ends_soon(authority.certificate, now):
        authority, server = _new_authority(now), None
        _write(files.authority_key, files.authority, authority)
    wanted = _names(names)
    if server is None or not _is_good(server.certificate, authority.certificate, wanted, now):
        server = _new_server(authority, wanted, now)
        _write(files.key, files.certificate, server)
    ours = files.authority.read_bytes()
    bundle = _system_authorities() + ours
    if not files.bundle.exists() or files.bundle.read_bytes() != bundle:
        write(files.bundle, bundle, PUBLIC)
    return files


def load_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS context of a server. SettingsError, naming the file, if one is wrong."""
    for setting, path in (("tls.cert", certificate), ("tls.key", key)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise SettingsError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"tls.key: {key} is not the key of the certificate in {certificate}") from None
        raise SettingsError(f"tls: {certificate} and {key} are not a certificate and its key in PEM files") from None
    return context


def _no_password() -> NoReturn:
    raise SettingsError("tls.key: the key has a password; use a key without one")


def _read(certificate: Path, key: Path) -> KeyPair | None:
    """A pair that was made before; None if it is missing or damaged."""
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{error.filename} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        return None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or read.public_key() != private.public_key():
        return None
    return KeyPair(read, private)


def _write(key: Path, certificate: Path, pair: KeyPair) -> None:
    private = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write(key, private)
    write(certificate, pair.certificate.public_bytes(serialization.Encoding.PEM), PUBLIC)


def _ends_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < _RENEWED_BEFORE


def _is_good(
    certificate: x509.Certificate, authority: x509.Certificate, wanted: list[x509.GeneralName], now: datetime
) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return not _ends_soon(certificate, now) and set(wanted) <= set(named)


def _names(names: Iterable[str]) -> list[x509.GeneralName]:
    """Each name once; addresses as IP entries."""
    return [_name(name) for name in dict.fromkeys(names) if name]


def _name(name: str) -> x509.GeneralName:
    try:
        address: IPv4Address | IPv6Address = ip_address(name)
    except ValueError:
        return x509.DNSName(name)
    return x509.IPAddress(address)


def _new_authority(now: datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("Recapito local authority")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(**{**_USAGE, "key_cert_sign": True, "crl_sign": True})
    built = (
        _builder(name, name, key, now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return KeyPair(built.sign(key, hashes.SHA256()), key)


def _new_server(authority: KeyPair, names: list[x509.GeneralName], now: datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    usage = x509.KeyUsage(**{**_USAGE, "digital_signature": True})
    built = (
        _builder(_subject("Recapito"), issuer.subject, key, now, _SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    return KeyPair(built.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + life)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _system_authorities() -> bytes:
    """The authorities that this machine trusts already; a client that is given a file trusts nothing else."""
    paths = ssl.get_default_verify_paths()
    for candidate in (paths.cafile, paths.openssl_cafile, *_USUAL):
        if candidate and Path(candidate).is_file():
            return Path(candidate).read_bytes().rstrip(b"\n") + b"\n"
    return b""
