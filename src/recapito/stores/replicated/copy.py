"""A copy: one file with the content of a stream up to a sequence, which it notes in a table of its own.

The file is a cache and never synced: a copy that was open when the machine stopped is thrown away and loaded again.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from recapito.contracts.stream import StreamMessage
from recapito.errors import StoreDamaged
from recapito.stores.replicated.message import ORIGIN, CommitContent, CommitHead, Kind, checksum, unpack, unpack_rows
from recapito.stores.replicated.rows import NOTE, Digest, Schema
from recapito.stores.sqlite.sql_files import transact

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_MAKE = f"""
CREATE TABLE IF NOT EXISTS {NOTE} (
    boot TEXT NOT NULL, sequence INTEGER NOT NULL, sum BLOB NOT NULL, since INTEGER NOT NULL, floor INTEGER NOT NULL,
    rows INTEGER NOT NULL, digest TEXT NOT NULL, owner TEXT NOT NULL, epoch INTEGER NOT NULL
) STRICT
"""
_READ = f"SELECT sequence, sum, since, floor, rows, digest, owner, epoch FROM {NOTE} WHERE boot = ?"
_INSERT = f"INSERT INTO {NOTE} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = f"UPDATE {NOTE} SET sequence = ?, sum = ?, since = ?, floor = ?, rows = ?, digest = ?, owner = ?, epoch = ?"


class Note(NamedTuple):
    """The place of a copy in its stream.

    sequence, sum: the last message that it has applied, and its checksum.
    since: the first message that it was loaded from.
    floor, digest, owner, epoch: of the last message.
    """

    sequence: int = 0
    sum: bytes = ORIGIN
    since: int = 1
    floor: int = 1
    digest: Digest = Digest()
    owner: str = ""
    epoch: int = 0

    @property
    def partial(self) -> bool:
        """Whether rows may be missing that the owner put again in later messages."""
        return self.floor < self.since

    def after(self, head: CommitHead, sequence: int, sum: bytes) -> "Note":
        """The place after a message."""
        return Note(sequence, sum, self.since, head.floor, head.digest, head.owner, head.epoch)


class Copy:
    """The note of a file, and the application of messages to it, all by the file's one writing connection."""

    def __init__(self, connection: apsw.Connection, keep: bool = False, older: bool = False) -> None:
        """With `keep` the content stays and its place is forgotten: it is about to found a stream.

        With `older` the copy has the schema of before an upgrade: messages of an upgrade that broke off are skipped.
        """
        self.connection = connection
        self._boot = _boot_id()
        self._older = older
        self.note = Note()
        self._parts: list[bytes] = []
        self._parts_end: tuple[int, bytes] | None = None
        connection.execute(_MAKE)
        self.schema = Schema(connection)
        noted: Any = None if keep else connection.execute(_READ, (self._boot,)).fetchone()
        if noted is None:
            self._unchecked(lambda _: self._begin(Note(), keep))
        else:
            sequence, sum, since, floor, rows, digest, owner, epoch = noted
            self.note = Note(sequence, sum, since, floor, Digest(rows, int(digest)), owner, epoch)

    @property
    def end(self) -> tuple[int, bytes]:
        """The sequence and checksum of the last message read, also of one whose commit is not whole yet."""
        return self._parts_end or (self.note.sequence, self.note.sum)

    @property
    def blank(self) -> bool:
        """Whether it has applied nothing since it was made or thrown away."""
        return self.end[0] + 1 == self.note.since

    def restart(self, first: int) -> None:
        """Throw the content away, to load it from the message at `first` on."""
        note = Note() if first == 1 else Note(first - 1, b"", first)
        self._unchecked(lambda _: self._begin(note))

    def apply(self, messages: list[StreamMessage], watch: Callable[[CommitHead], None]) -> None:
        """Apply messages that follow the copy, in one transaction. `watch` sees each head before it is applied."""
        before = self.note, self._parts, self._parts_end
        self._parts = list(self._parts)
        try:
            self._unchecked(lambda _: self._apply_all(messages, watch))
        except BaseException:
            self.note, self._parts, self._parts_end = before
            raise

    def write_note(self, note: Note) -> None:
        """Write the note, inside the transaction that brings the file there."""
        self.connection.execute(_UPDATE, _columns(note))

    def is_whole(self) -> bool:
        """Whether the content is what its owner had at this place; it reads the file whole."""
        return not self.note.partial and self.schema.digest(self.connection) == self.note.digest

    def _unchecked(self, work: Callable[[apsw.Connection], None]) -> None:
        """Run a transaction without foreign keys: a row may come before the one that it refers to."""
        self.connection.pragma("foreign_keys", False)
        try:
            transact(self.connection, work)
        finally:
            self.connection.pragma("foreign_keys", True)

    def _begin(self, note: Note, keep: bool = False) -> None:
        if not keep:
            self.schema.clear(self.connection)
        self.connection.execute(f"DELETE FROM {NOTE}")
        self.connection.execute(_INSERT, (self._boot, *_columns(note)))
        self.note, self._parts, self._parts_end = note, [], None

    def _apply_all(self, messages: list[StreamMessage], watch: Callable[[CommitHead], None]) -> None:
        for message in messages:
            sequence, sum = self.end
            if message.sequence != sequence + 1:
                raise StoreDamaged(f"message {sequence + 1} of the stream is missing")
            content = unpack(message.body, sum or None)
            if self._older and content.head.schema > self.schema.version:
                self._skip(content.head, message.sequence, checksum(message.body))
                continue
            self._check_schema(content.head)
            watch(content.head)
            self._apply(content, message.sequence, checksum(message.body))
        self.write_note(self.note)

    def _apply(self, content: CommitContent, sequence: int, sum: bytes) -> None:
        head = content.head
        if head.kind is Kind.OWN:
            self._parts = []  # the rest of that commit never comes
        else:
            self._parts.append(content.rows)
            if not head.last:
                self._parts_end = sequence, sum
                return
            operations = unpack_rows(b"".join(self._parts))
            self._parts = []
            self.schema.apply(self.connection, operations, self.note.partial)
        self._parts_end = None
        self.note = self.note.after(head, sequence, sum)

    def _skip(self, head: CommitHead, sequence: int, sum: bytes) -> None:
        self._parts, self._parts_end = [], None
        self.note = self.note._replace(sequence=sequence, sum=sum, epoch=max(self.note.epoch, head.epoch))

    def _check_schema(self, head: CommitHead) -> None:
        if head.schema < self.schema.version:
            raise StoreDamaged(
                f"the stream has schema {head.schema}, and this version has {self.schema.version}: stop all nodes, and "
                "run `recapito cluster upgrade`"
            )
        if head.schema != self.schema.version:
            raise StoreDamaged(
                f"node {head.node} writes schema {head.schema}, and this node knows {self.schema.version}: "
                "run the same version of recapito on all nodes"
            )


def is_blank(path: Path) -> bool:
    """Whether a file is a copy that has loaded nothing yet: its first load failed before it met the stream."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            return bool(connection.execute(f"SELECT sum(sequence) = 0 FROM {NOTE}").get)
    except apsw.Error:
        return False


def _columns(note: Note) -> tuple[Any, ...]:
    sequence, sum, since, floor, (rows, digest), owner, epoch = note
    return sequence, sum, since, floor, rows, str(digest), owner, epoch


def _boot_id() -> str:
    """The operating system's name for the time since it was started."""
    return BOOT_ID.read_text("ascii").strip()
