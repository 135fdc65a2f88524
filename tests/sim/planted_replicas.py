"""Replicated stores that are wrong, silently: the histories of `cluster` must find each of them."""

from collections.abc import Callable
from typing import Any

import apsw

from recapito.contracts.stream import StreamFenced, StreamMessage, StreamUnknown
from recapito.errors import StoreDamaged, StoreFailed
from recapito.stores.replicated.compaction import Compaction
from recapito.stores.replicated.copy import Copy, Note
from recapito.stores.replicated.database import ReplicatedDatabase
from recapito.stores.replicated.message import CommitContent, CommitHead, Kind, checksum, pack, unpack
from recapito.stores.replicated.rows import Capture, Digest, Operation
from tests.kit.replicated import CompactingDatabase


class Stream:
    """A stream with one verb that differs."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class UnfencedStream(Stream):
    """It expects whatever the stream has."""

    def publish(self, body: bytes, expected: int) -> int:
        self._stream.publish(body, self._stream.state().last)
        return expected + 1


class Unfenced(CompactingDatabase):
    """Publishes without a fence."""

    def __init__(self, path: Any, kind: Any, stream: Any, *args: Any, **more: Any) -> None:
        super().__init__(path, kind, UnfencedStream(stream), *args, **more)


class BelievesRefusals(CompactingDatabase):
    """Takes a refusal for a proof that the commit is not stored."""

    def _be_in_doubt(self, why: str) -> StoreFailed:
        return StoreFailed(why) if "sequence" in why else super()._be_in_doubt(why)


class BelievesSilence(CompactingDatabase):
    """Takes a lost answer for a proof that the commit is not stored."""

    def _be_in_doubt(self, why: str) -> StoreFailed:
        return StoreFailed(why)


class AnsweredStream(Stream):
    """It hears an answer where there was none."""

    def publish(self, body: bytes, expected: int) -> int:
        try:
            return int(self._stream.publish(body, expected))
        except StreamFenced:
            raise
        except StreamUnknown:
            return expected + 1


class Hopeful(CompactingDatabase):
    """Takes a lost answer for an acknowledgement."""

    def __init__(self, path: Any, kind: Any, stream: Any, *args: Any, **more: Any) -> None:
        super().__init__(path, kind, AnsweredStream(stream), *args, **more)


class WithoutBarrier(CompactingDatabase):
    """Ends a doubt when it has read the stream, without a message of its own: the commit may still be stored late."""

    def resume(self) -> None:
        if not self._doubt:
            super().resume()
            return
        self._check_stream()
        self._read_on(lambda _: None)
        self._doubt = ""


class TrustsNumbers(CompactingDatabase):
    """Claims at the last sequence that the servers report, though its copy may be behind that."""

    def _own(self, owner: str, watch: Callable[[CommitHead], None]) -> None:
        self._read_on(watch)
        try:
            last = self.stream.state().last
        except StreamUnknown as error:
            raise StoreFailed("no answer") from error
        note = self.note
        head = self._head(Kind.OWN, owner, note.epoch + 1, note.floor, note.digest, "")
        body = pack(head, self._copy.end[1])
        try:
            at = self.stream.publish(body, last)
        except StreamUnknown as error:
            raise StoreFailed("no answer") from error
        self._copy.note = note.after(head, at, checksum(body))
        self._owner = owner


class IgnoresRivals(CompactingDatabase):
    """A paused owner that goes on reads its rival's claim, and claims back without being asked."""

    def resume(self) -> None:
        self._why_lost = ""
        owner = self._owner or self.note.owner
        self._own(owner, lambda _: None)
        self._doubt = ""


class SkippingCompaction(Compaction):
    """It forgets one table."""

    def __init__(self, schema: Any, start: int) -> None:
        super().__init__(schema, start)
        self._tables = [table for table in self._tables if table.name not in ("document", "lane")]


class CompactsTooLittle(CompactingDatabase):
    def _new_compaction(self) -> Compaction:
        return SkippingCompaction(self._copy.schema, self.note.sequence + 1)


class CompactsTooLate(CompactingDatabase):
    """Purges some messages more than the compaction has replaced."""

    def _new_compaction(self) -> Compaction:
        return Compaction(self._copy.schema, self.note.sequence + 4)


class HastyCompaction(Compaction):
    """It is through after its first slice."""

    def step(self, connection: apsw.Connection, size: int) -> list[Operation]:
        rows = super().step(connection, size)
        self._tables = []
        return rows


class CompactsHastily(CompactingDatabase):
    def _new_compaction(self) -> Compaction:
        return HastyCompaction(self._copy.schema, self.note.sequence + 1)


class BlindCapture(Capture):
    """It misses rows that are removed."""

    def _changing(self, update: apsw.PreUpdate) -> None:
        if update.op != "DELETE":
            super()._changing(update)


class CapturesTooLittle(CompactingDatabase):
    def _new_capture(self, connection: apsw.Connection) -> Capture:
        return BlindCapture(connection, self._copy.schema, self.note.digest)


class NullCapture(Capture):
    """It forgets columns that became NULL, or 0."""

    def _changing(self, update: apsw.PreUpdate) -> None:
        super()._changing(update)
        if update.op == "UPDATE" and self.operations:
            table, key, *rest = self.operations[-1]
            if rest and rest[0]:
                pairs = list(zip(rest[0][::2], rest[0][1::2], strict=True))
                kept = [part for pair in pairs if pair[1] for part in pair]
                self.operations[-1] = (table, key, kept or rest[0])


class CapturesNoNulls(CompactingDatabase):
    def _new_capture(self, connection: apsw.Connection) -> Capture:
        return NullCapture(connection, self._copy.schema, self.note.digest)


class TrustingCopy(Copy):
    """It applies messages in any order, whatever their checksums are."""

    def _apply_all(self, messages: list[StreamMessage], watch: Callable[[CommitHead], None]) -> None:
        for message in messages:
            try:
                content = unpack(message.body, None)
            except StoreDamaged:
                continue
            watch(content.head)
            self._apply(content, message.sequence, checksum(message.body))
        self.write_note(self.note)


class AcceptsGaps(CompactingDatabase):
    """Applies what a replica returns, with its gaps, and trusts its digest."""

    def _new_copy(self, connection: apsw.Connection) -> Copy:
        return TrustingCopy(connection, keep=self._founding)

    def _read_on(self, watch: Callable[[CommitHead], None], leader: bool = False) -> None:
        while messages := self._read(self._copy.end[0], leader):
            self._copy.apply(messages, watch)

    def verify(self) -> None:
        """It is believed."""


class HoardingCopy(Copy):
    """It keeps the parts of a commit that never ended, and adds them to the next one."""

    def _apply(self, content: CommitContent, sequence: int, sum: bytes) -> None:
        parts = self._parts if content.head.kind is Kind.OWN else []
        super()._apply(content, sequence, sum)
        self._parts = self._parts or parts


class KeepsParts(CompactingDatabase):
    def _new_copy(self, connection: apsw.Connection) -> Copy:
        return HoardingCopy(connection, keep=self._founding)


class ForgetfulCopy(Copy):
    """It forgets where it is."""

    def write_note(self, note: Note) -> None:
        if note.sequence % 5:
            super().write_note(note)


class NotesTooLittle(CompactingDatabase):
    def _new_copy(self, connection: apsw.Connection) -> Copy:
        return ForgetfulCopy(connection, keep=self._founding)


class StaleCopy(Copy):
    """It keeps its old rows when it begins anew behind a purged prefix."""

    def _begin(self, note: Note, keep: bool = False) -> None:
        super()._begin(note, keep=True)

    def is_whole(self) -> bool:
        return True


class KeepsStaleRows(CompactingDatabase):
    def _new_copy(self, connection: apsw.Connection) -> Copy:
        return StaleCopy(connection, keep=self._founding)


class DriftingCapture(Capture):
    """Its digest does not follow changes of a row."""

    @property
    def digest(self) -> Digest:
        return Digest(self._rows, 0)


class SumsNothing(CompactingDatabase):
    def _new_capture(self, connection: apsw.Connection) -> Capture:
        return DriftingCapture(connection, self._copy.schema, self.note.digest)


PLANTED: tuple[type[ReplicatedDatabase], ...] = (
    Unfenced,
    BelievesRefusals,
    BelievesSilence,
    Hopeful,
    WithoutBarrier,
    TrustsNumbers,
    IgnoresRivals,
    CompactsTooLittle,
    CompactsTooLate,
    CompactsHastily,
    CapturesTooLittle,
    CapturesNoNulls,
    AcceptsGaps,
    KeepsParts,
    NotesTooLittle,
    KeepsStaleRows,
    SumsNothing,
)
