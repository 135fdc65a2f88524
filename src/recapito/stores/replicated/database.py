"""A file whose commits are published to a stream before they are made.

The owner of a stream publishes; all others follow. One loop serves a claim, a restart and a doubt: read the stream to
its end and apply it, then publish `OWN`, expecting that end. If that is acknowledged, the copy is complete, and no
message that was on its way can be stored any more; otherwise the stream has moved, and the loop reads on. So no verdict
rests on a refusal, or on the servers' numbers.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

import apsw

from recapito.contracts.stream import Stream, StreamFull, StreamMessage, StreamMissing, StreamUnknown
from recapito.domain import limits
from recapito.errors import StoreDamaged, StoreFailed, StoreLost
from recapito.observability.journal import Journal, silent
from recapito.stores.replicated.compaction import Compaction, Fill
from recapito.stores.replicated.copy import Copy, Note
from recapito.stores.replicated.marker import Marker
from recapito.stores.replicated.message import (
    OVERHEAD_BYTES,
    CommitHead,
    Kind,
    checksum,
    cut,
    pack,
    pack_rows,
    plain_size,
)
from recapito.stores.replicated.rows import Capture, Digest, Diverged, Operation
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import LOG, FileKind, FileMedium
from recapito.stores.sqlite.files.volume import Ballast
from recapito.stores.sqlite.sql.registry_sql import begin_ids
from recapito.stores.sqlite.sql_files import transact
from recapito.system.durable_names import sync_directory

T = TypeVar("T")
READ_BYTES = 4 * limits.MB
OWN_TRIES = 20
RESTARTS = 5  # of one load: the owner may purge meanwhile
PAUSE_S = 0.05  # after the first failure; doubled up to:
LONGEST_PAUSE_S = 1.0
MARK_EVERY_S = 1.0
COUNT_EVERY = 256  # commits
ROOM_REMEDY = "edit it to have a larger max_bytes, on servers with room for it"
FOUNDING_BYTES = 1 * limits.MB  # of rows in a commit


class ReplicatedDatabase(Database):
    """A copy of a stream, and the stream's owner once it has claimed it.

    threaded: a doubt is resolved in a thread of its own, and until then every verb fails at once. Without it, each verb
    tries to resolve it.
    lost: called once, by any thread, when another node owns the stream or the copy is spoilt.
    """

    SLICE_BYTES: ClassVar[int] = (
        limits.COMPACTION_SLICE_BYTES
    )  # of rows put again in a commit, besides twice its own bytes

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        stream: Stream,
        node: str,
        medium: FileMedium,
        *,
        threaded: bool = True,
        founding: bool = False,
        ballast: Ballast | None = None,
        journal: Journal = silent,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream = stream
        self._node = node
        self._threaded = threaded
        self._founding = founding
        self._marker = Marker(marker_file(path))
        self._lost = lost
        self._owner = ""  # the id of our claim
        self._why_lost = ""
        self._doubt = ""
        self._resolver: threading.Thread | None = None
        self._ending = threading.Event()
        self.fill = Fill()
        self._commits = 0
        self._compaction: Compaction | None = None
        self._compact_now = False
        self._purge_below = 0
        self._marked_at = 0.0
        super().__init__(path, kind, medium=medium, ballast=ballast, journal=journal)

    @property
    def note(self) -> Note:
        """The place of the copy in the stream."""
        return self._copy.note

    @property
    def in_doubt(self) -> bool:
        """Whether the outcome of a commit is unknown."""
        return bool(self._doubt)

    def await_certainty(self) -> None:
        """Wait for the end of a doubt, if there is one and a thread resolves it."""
        if self._resolver is not None:
            self._resolver.join()

    def catch_up(self) -> int:
        """Apply the messages that the stream has by now, of any owner, and return the last sequence."""
        self._check_stream()
        self._read_on(lambda _: None)
        self._mark()
        return self.note.sequence

    def verify(self) -> None:
        """Read the copy whole; load it again, from the leader, if it is not what its owner had."""
        if not self._copy.is_whole():
            self._journal("replica.reloaded", stream=self.stream.name, sequence=self.note.sequence)
            self._copy.restart(1)
            self._read_on(lambda _: None, leader=True)
            if not self._copy.is_whole():
                raise StoreDamaged(f"stream {self.stream.name} does not have all rows that its owner stored")

    def digest(self) -> Digest:
        """The digest of the copy, by reading it whole."""
        return self._copy.schema.digest(self._copy.connection)

    def claim(self) -> int:
        """Own the stream and fence every other owner; return the epoch."""
        owner = secrets.token_hex(8)
        self.catch_up()
        self.verify()
        self._own(owner, lambda _: None)
        self._journal("replica.claimed", stream=self.stream.name, epoch=self.note.epoch)
        return self.note.epoch

    def resume(self) -> None:
        """Continue the claim that the file notes, after a restart or a doubt. StoreLost if another has claimed."""
        if self._why_lost:
            raise StoreLost(self._why_lost)
        owner = self._owner = self._owner or self.note.owner
        if not owner:
            self._lose(f"no node has claimed stream {self.stream.name} for this directory")

        def watch(head: CommitHead) -> None:
            if head.owner != owner:
                self._lose(f"node {head.node} owns stream {self.stream.name} now")

        self._check_stream()
        self._own(owner, watch)
        if self._doubt:
            self._journal("replica.doubt_ended", stream=self.stream.name, sequence=self.note.sequence)
        self._doubt = ""

    def found(self, first_id: int = 0) -> None:
        """Publish the content of the file as the beginning of an empty stream. A new log gives ids above `first_id`."""
        self._check_stream()
        if first_id and self._kind == LOG:
            transact(self._copy.connection, lambda connection: begin_ids(connection, first_id))
        self._own(secrets.token_hex(8), lambda _: None)
        self._publish_all()
        self.verify()
        self._mark()

    def found_anew(self) -> None:
        """Publish the content again, as the new beginning of the stream, and purge what was before: its schema is old.

        The file is at the end of the stream, by a claim under the old schema.
        """
        start = self.note.sequence + 1
        self._purge_below = start  # no compaction meanwhile
        self._copy.note = self.note._replace(floor=start)
        self._own(self.note.owner, lambda _: None)
        self._publish_all()
        try:
            self.stream.purge(start)
        except (StreamUnknown, StreamMissing) as error:
            raise StoreFailed(f"stream {self.stream.name} cannot be purged: {error}") from error
        self.verify()
        self._mark()

    def _publish_all(self) -> None:
        """Publish all rows, as commits of moderate size."""
        compaction, digest = Compaction(self._copy.schema, 1), Digest()
        while not compaction.done:
            rows = compaction.step(self._copy.connection, FOUNDING_BYTES)
            digest = self._copy.schema.sum_up(rows, digest)
            note = self._publish(rows, digest)
            transact(self._copy.connection, lambda _, note=note: self._copy.write_note(note))  # type: ignore[misc]
            self._copy.note = note

    def meet_damage(self, why: str) -> None:
        """Leave the damaged row to the stream, which has it whole: the copy is thrown away when it is opened next."""
        spoilt_file(self.path).touch()
        self._lose(f"the copy of stream {self.stream.name} is spoilt: {why}")

    def suspect(self, why: str) -> bool:
        new = super().suspect(why)
        with contextlib.suppress(StoreLost):
            self.meet_damage(why)
        return new

    def checkpoint(self) -> None:
        """Also purge the stream, compact it if it is filling up, and move the marker."""
        if self._doubt or self._why_lost or self._connection is None:
            return
        super().checkpoint()
        if not self._owner:
            return
        if self._purge_below:
            with contextlib.suppress(StreamUnknown, StreamMissing):
                self.stream.purge(self._purge_below)
                self._purge_below = 0
                self._measure()
        if self.fill.is_over(limits.COMPACTION_FILL) and (self._compaction is not None or self._wants_compaction()):
            with contextlib.suppress(StoreFailed):
                self._compact_now = True
                self._commit(lambda _: None, drains=True)
            self._compact_now = False
        if time.monotonic() - self._marked_at >= MARK_EVERY_S:
            self._mark()

    def close(self) -> None:
        self._ending.set()
        self.await_certainty()
        if self._owner and not self._doubt and not self._why_lost:
            self._mark()
        super().close()

    def _open(self, make: bool) -> apsw.Connection:
        connection = super()._open(make)
        try:
            self._copy = self._new_copy(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _connected(self, news: bool = True) -> apsw.Connection:
        if self._why_lost:
            raise StoreLost(self._why_lost)
        if self._doubt and not self._threaded:
            self.resume()
        if self._doubt:
            raise StoreFailed(self._doubt)
        return super()._connected(news)

    def _transact(self, connection: apsw.Connection, work: Callable[[apsw.Connection], T], drains: bool) -> T:
        if not self._owner:
            raise StoreLost(f"this node does not own stream {self.stream.name}")
        note: Note | None = None

        def publish(connection: apsw.Connection) -> T:
            nonlocal note
            with self._new_capture(connection) as capture:
                result = work(connection)
            if capture.operations and not drains and self._is_full():
                raise StoreFailed(f"stream {self.stream.name} is full, at {self.fill.bytes} bytes: {ROOM_REMEDY}")
            if capture.operations or self._compact_now:
                note = self._publish(capture.operations, capture.digest)
                self._copy.write_note(note)
            return result

        try:
            result = transact(connection, publish)
        except apsw.Error as error:
            if note is None:
                raise
            raise self._be_in_doubt(f"{self.path.name}: {error}, after its commit was published") from error
        if note is not None:
            self._copy.note = note
        return result

    def _publish(self, operations: list[Operation], digest: Digest) -> Note:
        """Publish a commit, and return the place after it."""
        rows = pack_rows([*operations, *self._put_again(operations)])
        note, commit = self.note, secrets.token_hex(8)
        floor = self._compaction.start if self._compaction is not None and self._compaction.done else note.floor
        head = self._head(Kind.ROWS, self._owner, note.epoch, floor, digest, commit)
        sequence, sum = note.sequence, note.sum
        for part, last in cut(rows, self.stream.max_body - OVERHEAD_BYTES):
            body = pack(head if last else head.unfinished(), sum, part)
            try:
                self._acknowledged(self.stream.publish(body, sequence), sequence + 1)
            except StreamFull as error:
                self._compaction = None
                self.fill = self.fill._replace(bytes=self.fill.max_bytes)
                if sequence > note.sequence:
                    raise self._be_in_doubt(f"stream {self.stream.name} is full: {ROOM_REMEDY}") from error
                raise StoreFailed(f"stream {self.stream.name} is full: {ROOM_REMEDY}") from error
            except (StreamUnknown, StreamMissing) as error:
                raise self._be_in_doubt(f"stream {self.stream.name}: {error or type(error).__name__}") from error
            sequence, sum = sequence + 1, checksum(body)
            self.fill = self.fill._replace(bytes=self.fill.bytes + len(body))
        self.fill = self.fill.after(len(rows), plain_size(rows))
        if floor > note.floor:
            self._purge_below, self._compaction = floor, None
        self._commits += 1
        if self._commits % COUNT_EVERY == 0:
            self.fill = self.fill._replace(living=self._living_bytes())
        return note.after(head, sequence, sum)

    def _put_again(self, operations: list[Operation]) -> list[Operation]:
        """The rows to put again with a commit: while a compaction is under way, a slice of them."""
        if self._compaction is None and self._wants_compaction() and not self._purge_below:
            self._compaction = self._new_compaction()
        if self._compaction is None:
            return []
        written = sum(len(value) for operation in operations for value in operation[1] if isinstance(value, bytes))
        return self._compaction.step(self._copy.connection, self.SLICE_BYTES + 2 * written)

    def _new_copy(self, connection: apsw.Connection) -> Copy:
        return Copy(connection, self._founding, older=self._kind.version is not None)

    def _new_capture(self, connection: apsw.Connection) -> Capture:
        return Capture(connection, self._copy.schema, self.note.digest)

    def _new_compaction(self) -> Compaction:
        return Compaction(self._copy.schema, self.note.sequence + 1)

    def _wants_compaction(self) -> bool:
        return self.fill.wants_compaction

    def _own(self, owner: str, watch: Callable[[CommitHead], None]) -> None:
        """Read to the end and publish `OWN` there, until that is acknowledged."""
        for attempt in range(OWN_TRIES):
            self._read_on(watch, leader=attempt > 0)
            note = self.note
            epoch = note.epoch if note.owner == owner else note.epoch + 1
            sequence, sum = self._copy.end
            body = pack(self._head(Kind.OWN, owner, epoch, note.floor, note.digest, secrets.token_hex(8)), sum)
            try:
                at = self.stream.publish(body, sequence)
            except StreamUnknown:
                if not self._threaded or self._ending.wait(min(PAUSE_S * 2**attempt, LONGEST_PAUSE_S)):
                    break
                continue
            except StreamFull as error:
                raise StoreFailed(f"stream {self.stream.name} is full: {ROOM_REMEDY}") from error
            except StreamMissing as error:
                raise StoreFailed(f"stream {self.stream.name}: {error}") from error
            self._acknowledged(at, sequence + 1)
            self._copy.apply([StreamMessage(at, body, 0)], watch)
            self._owner, self._compaction = owner, None
            self._measure()
            self._mark()
            return
        raise StoreFailed(f"stream {self.stream.name} does not acknowledge this node as its owner")

    def _read_on(self, watch: Callable[[CommitHead], None], leader: bool = False) -> None:
        """Apply the rest of the stream. A gap or a damaged message is read again from the leader.

        If the leader has the gap too, its prefix was purged, and the copy begins anew; so does one that has diverged.
        """
        super()._connected()
        messages = self._read(self._copy.end[0], leader)
        loads = messages and self._copy.blank and not self._founding  # a founder's file has rows that no stream has yet
        with self._loading() if loads else contextlib.nullcontext():
            self._apply_rest(messages, watch, leader)

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """A load from the beginning, without indexes.

        If the process or the machine ends meanwhile, the copy is thrown away when it is opened next.
        """
        connection, spoilt = self._copy.connection, spoilt_file(self.path)
        spoilt.touch()
        sync_directory(spoilt.parent)
        indexes = self._copy.schema.drop_indexes(connection)
        try:
            yield
        finally:
            self._copy.schema.make_indexes(connection, indexes)
            spoilt.unlink()

    def _apply_rest(self, messages: list[StreamMessage], watch: Callable[[CommitHead], None], leader: bool) -> None:
        ask_leader, restarts = leader, 0
        while messages:
            gap = messages[0].sequence != self._copy.end[0] + 1
            try:
                if gap and ask_leader:
                    restarts = self._restart(messages[0].sequence, restarts)
                self._copy.apply(_dense(messages), watch)
                ask_leader = leader
                super().checkpoint()
            except Diverged as error:
                self._journal("replica.diverged", stream=self.stream.name, why=error)
                restarts = self._restart(1, restarts)
            except StoreDamaged:
                if ask_leader:
                    raise
                ask_leader = True
            messages = self._read(self._copy.end[0], ask_leader)

    def _restart(self, first: int, restarts: int) -> int:
        """Throw the copy away and load it from a message on; an owner's is never thrown away."""
        if self._owner or restarts == RESTARTS:
            raise StoreDamaged(f"stream {self.stream.name} has lost messages before {first}, or does not fit its copy")
        self._copy.restart(first)
        return restarts + 1

    def _read(self, after: int, leader: bool) -> list[StreamMessage]:
        try:
            return self.stream.read(after, READ_BYTES, leader)
        except (StreamUnknown, StreamMissing) as error:
            raise StoreFailed(f"stream {self.stream.name} cannot be read: {error}") from error

    def _check_stream(self) -> None:
        try:
            state = self.stream.state()
        except (StreamUnknown, StreamMissing) as error:
            raise StoreFailed(f"stream {self.stream.name} cannot be reached: {error}") from error
        self._marker.check(self.stream.name, state)
        if state.last < self.note.sequence:
            raise StoreFailed(
                f"stream {self.stream.name} ends at {state.last}, before its copy, at {self.note.sequence}"
            )

    def _acknowledged(self, at: int, expected: int) -> None:
        if at != expected:
            self._lose(f"stream {self.stream.name} acknowledged sequence {at}, where {expected} was the next")

    def _be_in_doubt(self, why: str) -> StoreFailed:
        self._doubt, self._compaction = why, None
        self._journal("replica.doubt", stream=self.stream.name, why=why)
        if self._threaded:
            self._resolver = threading.Thread(target=self._resolve, name=f"doubt-{self.path.stem}", daemon=True)
            self._resolver.start()
        return StoreFailed(why)

    def _resolve(self) -> None:
        pause = PAUSE_S
        while not self._ending.wait(pause):
            try:
                self.resume()
                return
            except StoreLost:
                return
            except (StoreFailed, apsw.Error) as error:
                self._journal("replica.doubt_lasts", stream=self.stream.name, why=error)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _lose(self, why: str) -> None:
        if not self._why_lost:
            self._why_lost = why
            self._journal("replica.lost", stream=self.stream.name, why=why)
            self._lost()
        raise StoreLost(why)

    def _head(self, kind: Kind, owner: str, epoch: int, floor: int, digest: Digest, commit: str) -> CommitHead:
        return CommitHead(kind, owner, self._node, epoch, commit, self._copy.schema.version, floor, digest)

    def _is_full(self) -> bool:
        """Whether only the verbs that finish work may still write; before it refuses, it asks the servers again."""
        if not self.fill.is_over(limits.STREAM_WRITES_FILL):
            return False
        self._measure()
        return self.fill.is_over(limits.STREAM_WRITES_FILL)

    def _measure(self) -> None:
        with contextlib.suppress(StreamUnknown, StreamMissing):
            state = self.stream.state()
            self.fill = self.fill._replace(bytes=state.bytes, max_bytes=state.max_bytes, living=self._living_bytes())

    def _living_bytes(self) -> int:
        connection = self._copy.connection
        pages = int(connection.pragma("page_count")) - int(connection.pragma("freelist_count"))
        return pages * int(connection.pragma("page_size"))

    def _mark(self) -> None:
        self._marked_at = time.monotonic()
        self._marker.move(self.note.sequence)


def marker_file(path: Path) -> Path:
    """The marker beside a copy."""
    return path.with_suffix(".stream.json")


def spoilt_file(path: Path) -> Path:
    """Its existence says that a copy is to be thrown away."""
    return path.with_suffix(".spoilt")


def _dense(messages: list[StreamMessage]) -> list[StreamMessage]:
    """The messages before the first gap."""
    first = messages[0].sequence
    return [message for n, message in enumerate(messages) if message.sequence == first + n]
