"""Access to NATS servers: certificates, nkeys, and credentials of users under an operator."""

import base64
import json
import os
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

UNBOUNDED = {"subs": -1, "data": -1, "payload": -1}


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        self.file = directory / "ca.pem"
        self.file.write_bytes(_pem(self._sign(self._name, self._key.public_key(), 30, True)))

    def issue(self, name: str, days: int = 30) -> tuple[Path, Path]:
        """A certificate of 127.0.0.1, and its key; with a negative number of days it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, secret = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        certificate.write_bytes(_pem(self._sign(_name(name), key.public_key(), days, False)))
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        return certificate, secret

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePublicKey, days: int, authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(authority, None), True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
        )
        return builder.sign(self._key, hashes.SHA256())


class Nkey:
    """A new key pair of NATS: of a user, an account or an operator."""

    def __init__(self, prefix: int = nkeys.PREFIX_BYTE_USER) -> None:
        self.seed = bytes(nkeys.encode_seed(os.urandom(32), prefix))
        self.pair = nkeys.from_seed(bytearray(self.seed))
        self.public = self.pair.public_key.decode()

    def sign(self, subject: str, claims: dict[str, object], lives_s: int = 0) -> str:
        """A token about a subject, as NATS signs them."""
        body = {"jti": os.urandom(8).hex(), "iat": int(time.time()), "iss": self.public, "sub": subject, "name": "test"}
        if lives_s:
            body["exp"] = int(time.time()) + lives_s
        signed = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded({**body, 'nats': claims})}"
        return f"{signed}.{base64.urlsafe_b64encode(self.pair.sign(signed.encode())).decode().rstrip('=')}"


class NatsOperator:
    """An operator with one account, whose users have files of credentials."""

    def __init__(self) -> None:
        self._operator = Nkey(nkeys.PREFIX_BYTE_OPERATOR)
        self._account = Nkey(nkeys.PREFIX_BYTE_ACCOUNT)

    @property
    def config(self) -> str:
        """The part of a server's configuration that trusts them."""
        bounds = {**UNBOUNDED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
        account = self._operator.sign(self._account.public, {"limits": bounds, "type": "account", "version": 2})
        operator = self._operator.sign(self._operator.public, {"type": "operator", "version": 2})
        return f"operator: {operator}\nresolver: MEMORY\nresolver_preload: {{ {self._account.public}: {account} }}\n"

    def write_creds(self, path: Path, lives_s: int = 0) -> None:
        """The credentials of a new user."""
        user = Nkey()
        token = self._account.sign(user.public, {**UNBOUNDED, "type": "user", "version": 2}, lives_s)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
        )


def _encoded(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
