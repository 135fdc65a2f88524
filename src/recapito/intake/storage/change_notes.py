"""Notes of blob changes under way: written before the request, removed when its event is stored.

They survive the end of the process, not a power cut, which an Azurite does not survive either: it syncs nothing.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from recapito.domain import limits
from recapito.domain.storage.blob_change import BlobChange
from recapito.domain.storage.blob_event import BlobFacts
from recapito.observability.journal import Journal

_END, _EMPTY = b"\n", b"\0"


class ChangeNote(msgspec.Struct, frozen=True):
    """A change that a client asked for. `facts` are those of the blob before a deletion."""

    id: str
    change: BlobChange
    scheme: str
    at: int
    facts: BlobFacts | None = None


class ChangeNotes(Protocol):
    """Keeps notes."""

    def put(self, note: ChangeNote) -> None: ...

    def remove(self, id: str) -> None: ...

    def left(self) -> list[ChangeNote]:
        """All notes, oldest first."""


class MemoryNotes:
    """For a server that keeps nothing."""

    def __init__(self) -> None:
        self._notes: dict[str, ChangeNote] = {}

    def put(self, note: ChangeNote) -> None:
        self._notes[note.id] = note

    def remove(self, id: str) -> None:
        self._notes.pop(id, None)

    def left(self) -> list[ChangeNote]:
        return list(self._notes.values())


class FileNotes:
    """Notes in the slots of one file, which is made with the first note, and read once.

    A write within a slot puts a note, and a byte removes it. Files of their own would be made, renamed and removed, and
    each of that waits for the file system's journal, which is busy while an Azurite writes.
    """

    def __init__(self, path: Path, journal: Journal) -> None:
        self._path = path
        self._journal = journal
        self._decode = msgspec.json.Decoder(ChangeNote).decode
        self._file: int | None = None
        self._held: dict[str, tuple[int, ChangeNote]] = {}  # the slot of each note
        self._free: list[int] = []
        self._slots = 0

    def put(self, note: ChangeNote) -> None:
        content = msgspec.json.encode(note) + _END
        if len(content) > limits.FRONT_NOTE_BYTES:
            raise OSError("the name of the blob is too long")
        file = self._open(os.O_CREAT)
        slot = self._free.pop() if self._free else self._slots
        try:
            if os.pwrite(file, content, slot * limits.FRONT_NOTE_BYTES) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._clear(file, slot)
            raise
        self._held[note.id] = slot, note
        self._slots = max(self._slots, slot + 1)

    def remove(self, id: str) -> None:
        if id in self._held:
            slot, _ = self._held.pop(id)
            self._clear(self._open(), slot)

    def left(self) -> list[ChangeNote]:
        with suppress(FileNotFoundError):
            self._open()
        return sorted((note for _, note in self._held.values()), key=lambda note: note.at)

    def _clear(self, file: int, slot: int) -> None:
        """Free a slot. A note that cannot be cleared stays until a restart, which finds that its event is stored."""
        with suppress(OSError):
            os.pwrite(file, _EMPTY, slot * limits.FRONT_NOTE_BYTES)
            self._free.append(slot)

    def _open(self, flags: int = 0) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | flags, 0o600)
            self._slots = -(-os.fstat(self._file).st_size // limits.FRONT_NOTE_BYTES)
            for slot in range(self._slots):
                self._read(self._file, slot)
        return self._file

    def _read(self, file: int, slot: int) -> None:
        content = os.pread(file, limits.FRONT_NOTE_BYTES, slot * limits.FRONT_NOTE_BYTES)
        if content.startswith(_EMPTY):
            self._free.append(slot)
            return
        try:
            note = self._decode(content.partition(_END)[0])
            self._held[note.id] = slot, note
        except msgspec.DecodeError as error:  # it stays where it is: a person may still read it
            self._journal("blob.note_unreadable", file=self._path.name, slot=slot, why=str(error))
