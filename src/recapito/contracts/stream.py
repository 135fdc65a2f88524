"""The contract of a Stream: messages in one order, replicated by a service that survives the loss of a machine.

A replicated store publishes each commit as messages of a stream; see `stores/replicated`. The verbs block, and any
thread may call them: a commit publishes in the midst of a transaction, in the thread of its file.
"""

from typing import NamedTuple, Protocol


class StreamUnknown(Exception):
    """No answer, or one that proves nothing: whether the message is, or will be, stored is unknown."""


class StreamFenced(StreamUnknown):
    """The stream's last sequence was not the expected one. That alone proves nothing: the message may be stored."""


class StreamFull(Exception):
    """The stream has no room: the message is not stored."""


class StreamMissing(Exception):
    """There is no such stream, or it is not the one that was created: the message names it and the remedy."""


class StreamMessage(NamedTuple):
    """A stored message. `time` is the server's instant of storing it, in nanoseconds."""

    sequence: int
    body: bytes
    time: int


class Replica(NamedTuple):
    """One copy of a stream. `lag` counts the operations that it is behind."""

    server: str
    current: bool
    lag: int = 0


class StreamState(NamedTuple):
    """The servers' view of a stream: a hint, never a verdict. A former leader answers with old numbers.

    created: the instant of its creation, in nanoseconds; a stream that was made again has another one.
    log_id: the id of the log that it was created for.
    partitions: the partitions of the store that it is a part of.
    """

    first: int
    last: int
    bytes: int
    max_bytes: int
    created: int
    log_id: str
    leader: str = ""
    replicas: tuple[Replica, ...] = ()
    partitions: int = 1


class Stream(Protocol):
    """One stream, which has one writer at a time.

    Promises: an acknowledged message is stored on a majority of the replicas and synced there. The sequence of a stored
    message never changes, nor does its body; the next message has the next sequence. A message whose publish raised
    StreamUnknown may be stored at any later time, as long as its expectation holds.
    """

    @property
    def name(self) -> str:
        """For messages to people."""

    @property
    def max_body(self) -> int:
        """The bytes that a message may have."""

    def publish(self, body: bytes, expected: int) -> int:
        """Store a message if the last sequence of the stream is `expected`, and return its sequence.

        Raises StreamFenced, StreamUnknown, StreamFull or StreamMissing.
        """

    def read(self, after: int, limit_bytes: int, leader: bool = False) -> list[StreamMessage]:
        """Messages after a sequence in their order: at least one if there is one, then about `limit_bytes`.

        Any replica may answer, with fewer messages than there are, or with a gap where its copy is damaged; the
        caller checks the sequences. With `leader` the leader answers, message by message. Raises StreamUnknown.
        """

    def state(self) -> StreamState:
        """Raises StreamUnknown or StreamMissing."""

    def purge(self, below: int) -> None:
        """Remove the messages under a sequence. The last sequence of the stream stays. Raises StreamUnknown."""


class Streams(Protocol):
    """The two streams of a partition of a store, as one connection reaches them."""

    @property
    def log(self) -> Stream:
        """The commits of intake's file."""

    @property
    def lanes(self) -> Stream:
        """The commits of dispatch's file."""

    def close(self) -> None:
        """Let go of the connection; verbs under way raise StreamUnknown."""
