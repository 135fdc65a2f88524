"""A vault in a directory: a container is a directory in it, one of an account is one level deeper.

Nothing is ever written outside: below the root no symbolic link is followed, so a name cannot lead out. A file appears
complete or not at all: it is written under another name, synced and renamed, then all directories above it are synced.
"""

import asyncio
import heapq
import os
from contextlib import ExitStack, suppress
from pathlib import Path

from recapito.contracts.vault import VaultUnavailable
from recapito.domain import limits

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryVault:
    """Keeps `root/container/path`. Files are short and written without a thread: dead letters are few and grouped."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable: set[tuple[str, ...]] = set()

    def __repr__(self) -> str:
        return f"<DirectoryVault {self._root}>"

    async def write(self, container: str, path: str, content: bytes) -> None:
        steps = _steps(container, path)
        try:
            with ExitStack() as stack:
                self._write(stack, steps[:-1], steps[-1], content)
        except OSError as error:
            raise VaultUnavailable(f"The vault could not write {self._root / container / path}: {error}") from error

    async def folders(self, container: str) -> frozenset[str]:
        return await asyncio.to_thread(_directories, self._root.joinpath(*_plain(container)))

    async def paths(self, container: str, prefix: str, after: str, limit: int) -> list[str]:
        steps = _steps(container, prefix.rstrip("/"))
        top = self._root / container
        return await asyncio.to_thread(_find, top, self._root.joinpath(*steps), after, limit)

    async def read(self, container: str, path: str) -> bytes | None:
        steps = _steps(container, path)
        try:
            with ExitStack() as stack:
                directory = self._descend(stack, steps[:-1])
                with os.fdopen(os.open(steps[-1], _OPEN_FILE, dir_fd=directory), "rb") as file:
                    return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise VaultUnavailable(f"The vault could not read {self._root / container / path}: {error}") from error

    async def delete(self, container: str, path: str) -> None:
        steps = _steps(container, path)
        try:
            with ExitStack() as stack:
                directory = self._descend(stack, steps[:-1])
                os.unlink(steps[-1], dir_fd=directory)
                os.fsync(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise VaultUnavailable(f"The vault could not remove {self._root / container / path}: {error}") from error

    def _descend(self, stack: ExitStack, steps: list[str]) -> int:
        directory = _open(stack, self._root, None)
        for step in steps:
            directory = _open(stack, step, directory)
        return directory

    def _write(self, stack: ExitStack, directories: list[str], name: str, content: bytes) -> None:
        _make(self._root)
        directory = _open(stack, self._root, None)
        for depth, step in enumerate(directories):
            directory = self._enter(stack, directory, step, tuple(directories[: depth + 1]))
        temporary = f".{name}.tmp"
        try:
            _fill(temporary, content, directory)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)

    def _enter(self, stack: ExitStack, parent: int, step: str, steps: tuple[str, ...]) -> int:
        """Open a directory, which is made if missing; its entry is synced once per process, even if it existed."""
        with suppress(FileExistsError):
            os.mkdir(step, dir_fd=parent)
            self._durable.discard(steps)
        directory = _open(stack, step, parent)
        if steps not in self._durable:
            os.fsync(parent)
            if len(self._durable) >= limits.DEAD_LETTER_DIRECTORIES:
                self._durable.clear()
            self._durable.add(steps)
        return directory


def _steps(container: str, path: str) -> list[str]:
    return [*_plain(container), *_plain(path, deepest=None)]


def _plain(path: str, deepest: int | None = 2) -> list[str]:
    """The steps of a path, if all of them are plain names; a container is one or two."""
    steps = path.split("/")
    if not all(_is_plain(step) for step in steps) or (deepest is not None and len(steps) > deepest):
        raise VaultUnavailable(f"The vault cannot hold {path!r}: not a plain relative path.")
    return steps


def _directories(container: Path) -> frozenset[str]:
    """The directories in a directory, without links; none if it does not exist."""
    try:
        with os.scandir(container) as entries:
            return frozenset(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise VaultUnavailable(f"The vault could not list {container}: {error}") from error


def _find(top: Path, within: Path, after: str, limit: int) -> list[str]:
    """The paths of the files in a directory, relative to `top`, without links and unfinished files."""
    names = [
        f"{os.path.relpath(directory, top)}/{name}"
        for directory, _, files in os.walk(within)
        for name in files
        if not name.startswith(".")
    ]
    return heapq.nsmallest(limit, (name for name in names if name > after))


def _is_plain(step: str) -> bool:
    return step not in ("", ".", "..") and not any(c in step for c in "/\\\0") and step.isprintable()


def _make(directory: Path) -> None:
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(exist_ok=True)
        with ExitStack() as stack:
            os.fsync(_open(stack, directory.parent, None))


def _open(stack: ExitStack, directory: Path | str, parent: int | None) -> int:
    flags = _OPEN_DIRECTORY if parent is None else _OPEN_DIRECTORY | os.O_NOFOLLOW
    fd = os.open(directory, flags, dir_fd=parent)
    stack.callback(os.close, fd)
    return fd


def _fill(name: str, content: bytes, directory: int) -> None:
    with os.fdopen(os.open(name, _CREATE, 0o640, dir_fd=directory), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
