"""The secret that all nodes of a cluster share: it signs the address of a client whose request a node forwards, and
seals the papers that nodes hand to each other.

A signature is bound to ten seconds of wall time, so that a node signs once for a client and the owner's fast path sees
the same bytes again; one that is older than a minute is worth nothing.
"""

import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from recapito.errors import SettingsError
from recapito.system.secret_file import write

FORWARDED = b"x-recapito-forwarded"
SECRET_BYTES = 32
_STEP_S = 10
_LIFE_S = 60
_NONCE_BYTES = 12
_SIGNED = 512  # addresses whose signatures are kept


class ClusterSecret:
    """Signs and seals under keys that are derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signing = _derive(secret, b"forwarded")
        self._sealing = AESGCM(_derive(secret, b"papers"))
        self._signed: dict[tuple[str, int], bytes] = {}
        self._verified: dict[bytes, tuple[str, int]] = {}

    def __repr__(self) -> str:
        return "<ClusterSecret>"

    @classmethod
    def new(cls) -> "ClusterSecret":
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def from_text(cls, text: str, where: str) -> "ClusterSecret":
        """The secret that `recapito cluster init` printed."""
        try:
            secret = urlsafe_b64decode(text.strip().encode("ascii"))
        except ValueError:
            secret = b""
        if len(secret) != SECRET_BYTES:
            raise SettingsError(f"{where}: this is not the secret of a cluster; `recapito cluster init` made one.")
        return cls(secret)

    @classmethod
    def in_file(cls, path: Path) -> "ClusterSecret":
        """The secret of a node that has joined."""
        try:
            text = path.read_text("ascii")
        except FileNotFoundError:
            raise SettingsError(
                f"{path} is missing: this node has not joined a cluster. Run `recapito cluster init` for the first "
                "node of a cluster, `recapito cluster join` for each other."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from None
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"{path}: others than its owner can read this secret: chmod 600 {path}")
        return cls.from_text(text, str(path))

    def write(self, path: Path) -> None:
        write(path, self.text.encode() + b"\n")

    @property
    def text(self) -> str:
        """The secret itself, for `cluster join`."""
        return urlsafe_b64encode(self._secret).decode()

    def sign(self, address: str, now_s: int) -> bytes:
        """The header value by which the owner knows a client's address."""
        step = now_s // _STEP_S * _STEP_S
        signed = self._signed.get((address, step))
        if signed is None:
            if len(self._signed) >= _SIGNED:
                self._signed.clear()
            signed = self._signed[address, step] = self._value(address, step)
        return signed

    def verify(self, value: bytes, now_s: int) -> str | None:
        """The address in a header value; None if no node of this cluster signed it within the last minute."""
        known = self._verified.get(value)
        if known is None:
            address, _, rest = value.decode("latin-1").partition(" ")
            step, _, _ = rest.partition(" ")
            if not (step.isascii() and step.isdigit() and len(step) < 16):
                return None
            if not hmac.compare_digest(self._value(address, int(step)), value):
                return None
            if len(self._verified) >= _SIGNED:
                self._verified.clear()
            known = self._verified[value] = (address, int(step))
        return known[0] if abs(now_s - known[1]) <= _LIFE_S else None

    def _value(self, address: str, step: int) -> bytes:
        signed = f"{address} {step}"
        mac = hmac.new(self._signing, signed.encode("latin-1", "replace"), "sha256").hexdigest()
        return f"{signed} {mac}".encode("latin-1", "replace")

    def seal(self, name: str, files: dict[str, bytes]) -> bytes:
        """Files for other nodes, encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, msgspec.msgpack.encode(files), name.encode())

    def unseal(self, name: str, sealed: bytes) -> dict[str, bytes] | None:
        """The files that were sealed under this name; None if that was done with another secret."""
        try:
            plain = self._sealing.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except InvalidTag:
            return None
        return msgspec.msgpack.decode(plain, type=dict[str, bytes])


def _derive(secret: bytes, use: bytes) -> bytes:
    return HKDF(hashes.SHA256(), SECRET_BYTES, None, b"recapito cluster " + use).derive(secret)
