"""The marker of a damaged file: `damaged.json` in the data directory, from the first sign until a person removes it.

Whichever role sees a sign leaves it. While it is there nothing is accepted and nothing is trimmed, after a restart too.
"""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from recapito.system.durable_names import sync_directory

FILE = "damaged.json"
SIGNS = 10  # more of them say no more


class Sign(msgspec.Struct, frozen=True):
    """What was seen of a file, and when."""

    file: str
    why: str
    at: str


UNREADABLE = Sign(FILE, "the marker itself cannot be read", "")
_decode = msgspec.json.Decoder(list[Sign]).decode


def read(directory: Path) -> list[Sign]:
    """The signs that were left; none for a directory that nobody doubts."""
    try:
        return _decode((directory / FILE).read_bytes()) or [UNREADABLE]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError):
        return [UNREADABLE]


def leave(directory: Path, file: str, why: str) -> None:
    """Add a sign, durably, once. A disk that cannot take it is no reason to fail: who saw the sign fails by itself."""
    signs = read(directory)
    if len(signs) >= SIGNS or any((sign.file, sign.why) == (file, why) for sign in signs):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    unfinished = directory / f"{FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, msgspec.json.encode([*signs, Sign(file, why, at)]))
            os.fsync(handle)
        finally:
            os.close(handle)
        unfinished.rename(directory / FILE)
        sync_directory(directory)


def clear(directory: Path) -> bool:
    """Remove the marker; whether there was one."""
    try:
        (directory / FILE).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True


def reason(directory: Path) -> str:
    """Why nothing is accepted, for publishers and operators; empty without a marker."""
    for sign in read(directory):
        return (
            f"{sign.file} may be damaged ({sign.why}): run `recapito doctor --data {directory}`, which says what to do."
        )
    return ""
