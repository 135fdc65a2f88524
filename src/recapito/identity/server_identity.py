"""The identity of a server: the key that signs its tokens, its tenant, and a principal for development.

Each is made once and kept in a directory; without a directory they live as long as the process.
"""

import secrets
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from recapito.errors import SettingsError
from recapito.system.secret_file import keep

_KEY_BITS = 2048
_SECRET_BYTES = 24


class Development(msgspec.Struct, frozen=True):
    """A tenant, and a principal in it with every role. `recapito serve` prints its secret."""

    tenant: str
    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"<Development {self.client_id}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id)]


class ServerIdentity(NamedTuple):
    """The parts of our own token issuer. `development` exists on loopback only."""

    key: rsa.RSAPrivateKey
    tenant: str
    development: Development | None


def prepare(directory: Path | None, tenant: str, for_development: bool) -> ServerIdentity:
    """The identity of a server; missing parts are made. Without a configured tenant it has the one that was made."""
    principal = development(directory)
    principal = msgspec.structs.replace(principal, tenant=tenant or principal.tenant)
    return ServerIdentity(signing_key(directory), principal.tenant, principal if for_development else None)


def signing_key(directory: Path | None) -> rsa.RSAPrivateKey:
    if directory is None:
        return _new_key()
    path = directory / "signing-key.pem"
    try:
        key = serialization.load_pem_private_key(keep(path, _new_pem), None)
    except (ValueError, TypeError):
        raise SettingsError(f"{path} is not a private key; remove it and a new one is made") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise SettingsError(f"{path} is not an RSA key; remove it and a new one is made")
    return key


def development(directory: Path | None) -> Development:
    if directory is None:
        return _new_development()
    path = directory / "development.json"
    try:
        return msgspec.json.decode(keep(path, lambda: msgspec.json.encode(_new_development())), type=Development)
    except msgspec.MsgspecError:
        raise SettingsError(f"{path} is damaged; remove it and a new one is made") from None


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)


def _new_pem() -> bytes:
    return _new_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _new_development() -> Development:
    return Development(str(uuid.uuid4()), str(uuid.uuid4()), secrets.token_hex(_SECRET_BYTES))
