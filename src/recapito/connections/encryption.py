"""Encryption of secrets at rest (AES-256-GCM), under a key that is in no database.

The key is a file that only its owner may read. A secret encrypted for one name cannot be decrypted for another.
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
_FORM = b"\x01"  # of a ciphertext: this byte, the nonce, the encrypted content with its tag


class SecretBox:
    """Encrypts and decrypts under one key, which is read, or made, when it is first needed."""

    def __init__(self, key: Callable[[bool], bytes], random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._key = key
        self._random_bytes = random_bytes
        self._cipher: AESGCM | None = None

    @classmethod
    def in_file(cls, file: Path) -> "SecretBox":
        """The key is in a file; the first `encrypt` makes it."""
        return cls(lambda make: _read(file, make))

    @classmethod
    def in_memory(cls) -> "SecretBox":
        """The key ends with the process, for a server that keeps nothing."""
        key = os.urandom(KEY_BYTES)
        return cls(lambda make: key)

    def encrypt(self, content: bytes, name: str) -> bytes:
        nonce = self._random_bytes(_NONCE_BYTES)
        return _FORM + nonce + self._aes(make=True).encrypt(nonce, content, name.encode())

    def decrypt(self, encrypted: bytes, name: str) -> bytes:
        """The content that was encrypted for this name. SettingsError if that was done under another key."""
        cipher = self._aes(make=False)
        nonce, ciphertext = encrypted[1 : 1 + _NONCE_BYTES], encrypted[1 + _NONCE_BYTES :]
        try:
            if encrypted[:1] == _FORM and len(nonce) == _NONCE_BYTES:
                return cipher.decrypt(nonce, ciphertext, name.encode())
        except InvalidTag:
            pass
        raise SettingsError(
            f"The key of this server does not decrypt {name}: put the old key back, or set the connection again."
        )

    def _aes(self, make: bool) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self._key(make))
        return self._cipher


def _read(file: Path, make: bool) -> bytes:
    """The key in a file. To encrypt, a missing key is made; to decrypt, it is an error."""
    if not make and not file.exists():
        raise SettingsError(f"{file}: the key of the connections is missing: put it back, or set them again.")
    key = keep(file, lambda: os.urandom(KEY_BYTES))
    if file.stat().st_mode & 0o077:
        raise SettingsError(f"{file}: others than its owner can read this key: chmod 600 {file}")
    if len(key) != KEY_BYTES:
        raise SettingsError(f"{file}: a key has {KEY_BYTES} bytes, this has {len(key)}: put the old one back.")
    return key
