"""The seal: what is secret is encrypted at rest (AES-256-GCM) under a key that is in no database.

The key is a file that only its owner may read. What is sealed for one name can not be opened for another.
"""

import os
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from recapito.errors import SettingsError
from recapito.system.secret_file import keep

KEY_BYTES = 32
_NONCE_BYTES = 12
_FORM = b"\x01"  # of what is sealed: this byte, the nonce, the ciphertext with its tag


class SecretBox:
    """Seals and opens under one key, which is read, or made, when it is first needed."""

    def __init__(self, key: Callable[[bool], bytes], random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._key = key
        self._random_bytes = random_bytes
        self._cipher: AESGCM | None = None

    @classmethod
    def in_file(cls, file: Path) -> "SecretBox":
        """A seal whose key is in a file; the first sealing makes it."""
        return cls(lambda make: _read(file, make))

    @classmethod
    def in_memory(cls) -> "SecretBox":
        """A seal whose key ends with the process, for a server that keeps nothing."""
        key = os.urandom(KEY_BYTES)
        return cls(lambda make: key)

    def close(self, content: bytes, name: str) -> bytes:
        """Seal a content for a name."""
        nonce = self._random_bytes(_NONCE_BYTES)
        return _FORM + nonce + self._opened(make=True).encrypt(nonce, content, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """What was sealed for this name. SettingsError if the key is not the one that sealed it."""
        cipher = self._opened(make=False)
        nonce, ciphertext = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            if sealed[:1] == _FORM and len(nonce) == _NONCE_BYTES:
                return cipher.decrypt(nonce, ciphertext, name.encode())
        except InvalidTag:
            pass
        raise SettingsError(f"The key of this server does not open {name}: put the old key back, or set it again.")

    def _opened(self, make: bool) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self._key(make))
        return self._cipher


def _read(file: Path, make: bool) -> bytes:
    """The key in a file; one that is missing is made for what is new, and missed by what is there."""
    if not make and not file.exists():
        raise SettingsError(f"{file}: the key of the connections is missing: put it back, or set them again.")
    key = keep(file, lambda: os.urandom(KEY_BYTES))
    if file.stat().st_mode & 0o077:
        raise SettingsError(f"{file}: others than its owner can read this key: chmod 600 {file}")
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{file}: a key has {KEY_BYTES} bytes, this has {len(key)}: put the old one back.")
    return key
