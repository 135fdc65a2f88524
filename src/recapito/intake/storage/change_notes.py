"""Notes of blob changes under way, one small file each: written before the request, removed when its event is stored.

They survive the end of the process, not a power cut, which an Azurite does not survive either: it syncs nothing.
"""

from pathlib import Path
from typing import Protocol

import msgspec

from recapito.domain.storage.blob_change import BlobChange
from recapito.domain.storage.blob_event import BlobFacts
from recapito.observability.journal import Journal

_SUFFIX = ".json"


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


class DirectoryNotes:
    """Files in a directory, which is made when the first note is written."""

    def __init__(self, directory: Path, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._decode = msgspec.json.Decoder(ChangeNote).decode

    def put(self, note: ChangeNote) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        file = self._directory / f"{note.id}{_SUFFIX}"
        new = file.with_suffix(".new")  # a half-written note never has its final name
        new.write_bytes(msgspec.json.encode(note))
        new.replace(file)

    def remove(self, id: str) -> None:
        (self._directory / f"{id}{_SUFFIX}").unlink(missing_ok=True)

    def left(self) -> list[ChangeNote]:
        notes = []
        for file in self._directory.glob(f"*{_SUFFIX}"):
            try:
                notes.append(self._decode(file.read_bytes()))
            except FileNotFoundError:
                continue
            except msgspec.DecodeError as error:  # a person may still read it
                self._journal("blob.note_unreadable", file=file.name, why=str(error))
                file.rename(file.with_suffix(".unreadable"))
        return sorted(notes, key=lambda note: note.at)
