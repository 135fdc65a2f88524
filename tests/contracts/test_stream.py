"""The contract of a stream, on the fake and on three real NATS servers."""

from collections.abc import Iterator

import pytest

from recapito.contracts.stream import Stream, StreamFenced, StreamFull, StreamUnknown
from tests.kit.fake_stream import FakeServer, FakeStream
from tests.system.machine import until

LARGE = 1 << 22


def reads(stream: Stream, after: int, limit_bytes: int, leader: bool, expected: list[int]) -> bool:
    """Whether a read returns these sequences; a replica that lags behind the leader is waited for."""
    return until(lambda: [message.sequence for message in stream.read(after, limit_bytes, leader)] == expected, 5)


@pytest.fixture(params=["fake", pytest.param("nats", marks=pytest.mark.xdist_group("nats"))])
def stream(request: pytest.FixtureRequest) -> Iterator[Stream]:
    """An empty stream of each kind."""
    if request.param == "fake":
        yield FakeStream(FakeServer(max_bytes=64 << 20))
    else:
        yield request.getfixturevalue("nats").emptied_streams().log


def test_messages_are_numbered_from_one(stream: Stream) -> None:
    """An acknowledgement is the message's sequence; the messages are read back in their order."""
    assert [stream.publish(body, n) for n, body in enumerate((b"a", b"", b"c"))] == [1, 2, 3]
    assert reads(stream, 0, LARGE, False, [1, 2, 3])
    read = stream.read(0, LARGE, leader=True)
    assert [(message.sequence, message.body) for message in read] == [(1, b"a"), (2, b""), (3, b"c")]
    assert all(message.time for message in read)


def test_a_wrong_expectation_stores_nothing(stream: Stream) -> None:
    """Neither one that is behind nor one that is ahead; the right one still holds afterwards."""
    stream.publish(b"a", 0)
    for wrong in (0, 2, 99):
        with pytest.raises(StreamFenced):
            stream.publish(b"b", wrong)
    assert stream.publish(b"b", 1) == 2
    assert [message.body for message in stream.read(0, LARGE, leader=True)] == [b"a", b"b"]


@pytest.mark.parametrize("leader", [False, True])
def test_a_read_is_bounded(stream: Stream, leader: bool) -> None:
    """It returns at least one message, then about as many bytes as are wanted; nothing is beyond the end."""
    for n in range(4):
        stream.publish(b"%d" % n * 1000, n)
    assert reads(stream, 0, 1, leader, [1])
    assert reads(stream, 2, LARGE, leader, [3, 4])
    assert until(lambda: 1 <= len(stream.read(0, 2000, leader)) < 4, 5)
    assert reads(stream, 4, LARGE, leader, [])


@pytest.mark.parametrize("leader", [False, True])
def test_a_purge_keeps_the_numbers(stream: Stream, leader: bool) -> None:
    """The remaining messages keep their sequences, and the next message has the next one, also when nothing is left."""
    for n in range(3):
        stream.publish(b"x", n)
    stream.purge(3)
    assert reads(stream, 0, LARGE, leader, [3])
    stream.purge(4)
    assert reads(stream, 0, LARGE, leader, [])
    assert stream.publish(b"y", 3) == 4
    assert reads(stream, 0, LARGE, leader, [4])


def test_the_state(stream: Stream) -> None:
    """It has the bounds of the stream, its size, its birth and its three replicas."""
    born = stream.state().created
    stream.publish(b"x" * 1000, 0)
    stream.publish(b"x" * 1000, 1)
    state = stream.state()
    assert (state.first, state.last, state.created) == (1, 2, born)
    assert 2000 <= state.bytes < 4000 < state.max_bytes
    assert state.leader and len(state.replicas) >= 2


def test_the_largest_message(stream: Stream) -> None:
    """A body of the largest size is stored and read back, by any replica and by the leader."""
    body = bytes(range(256)) * (stream.max_body // 256)
    stream.publish(body, 0)
    for leader in (False, True):
        assert reads(stream, 0, 1, leader, [1])
        assert until(lambda leader=leader: [one.body for one in stream.read(0, 1, leader)] == [body], 5)  # type: ignore[misc]


def test_a_full_stream_refuses(stream: Stream) -> None:
    """The message is not stored, and the stream serves those that it has. A purge makes room."""
    body, n = bytes(stream.max_body), 0
    with pytest.raises(StreamFull):
        for n in range(100):
            stream.publish(body, n)
    assert reads(stream, n - 1, 1, False, [n])
    assert reads(stream, n, 1, False, [])
    stream.purge(n)
    assert stream.publish(b"room", n) == n + 1


def test_a_closed_connection() -> None:
    """A verb of a client that is cut off is unknown."""
    stream = FakeStream(FakeServer())
    stream.cut = True
    for verb in (lambda: stream.publish(b"", 0), lambda: stream.read(0, 1), stream.state, lambda: stream.purge(1)):
        with pytest.raises(StreamUnknown):
            verb()
