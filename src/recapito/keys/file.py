"""Files with secrets: only their owner may read them, and they appear whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from recapito.errors import SettingsError

PRIVATE = 0o600
PUBLIC = 0o644


def keep(path: Path, make: Callable[[], bytes]) -> bytes:
    """What the file holds; if there is none yet, it is made."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return write(path, make())
    except OSError as error:
        raise SettingsError(f"{path} can not be read: {error.strerror}") from None


def write(path: Path, content: bytes, mode: int = PRIVATE) -> bytes:
    """Write a file in one step, with its directory if that is missing; what was written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # only its owner can read it
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"{path} can not be written: {error.strerror}") from None
    return content
