"""Files with secrets: only their owner may read them, and they appear complete or not at all."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from recapito.errors import SettingsError
from recapito.system.durable_names import make_directory, sync_directory

PRIVATE = 0o600
PUBLIC = 0o644


def keep(path: Path, make: Callable[[], bytes]) -> bytes:
    """The content of the file. A missing file is made; if two processes make it, both take the first one's."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        _put(path, make(), PRIVATE, _link)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    return path.read_bytes()


def write(path: Path, content: bytes, mode: int = PRIVATE) -> bytes:
    """Write a file in one step, with its directory if that is missing, and return the content."""
    _put(path, content, mode, os.replace)
    return content


def _put(path: Path, content: bytes, mode: int, place: Callable[[str, Path], None]) -> None:
    try:
        make_directory(path.parent)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # only its owner can read it
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            place(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
        sync_directory(path.parent)  # secrets encrypted under a key must not outlive it
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None


def _link(name: str, path: Path) -> None:
    with suppress(FileExistsError):
        os.link(name, path)
