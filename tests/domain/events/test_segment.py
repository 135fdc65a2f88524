"""Segments: what is packed comes out again, byte for byte, and neighbours are one slice."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from recapito.domain.events.segment import Publish, Segment, StampedEvent, id_of, pack

stamped = st.builds(
    StampedEvent,
    body=st.binary(min_size=2, max_size=30),
    type=st.sampled_from(["a", "b", "Ünïcode.Type"]),
    subject=st.text(max_size=5),
    data_version=st.sampled_from(["", "1", "2.0"]),
)
traces = st.dictionaries(st.integers(0, 5), st.text(max_size=3), max_size=2)
publishes = st.lists(st.builds(Publish, st.integers(0, 2**62), st.lists(stamped, max_size=6), traces), max_size=6)


@given(publishes)
def test_round_trip(publishes: list[Publish]) -> None:
    """Each event comes out of its segment with its bytes, type, subject, version and publish time, in order."""
    segment = Segment(*pack(publishes))
    events = [(publish.published_at, event) for publish in publishes for event in publish.events]
    assert len(segment) == len(events)
    assert segment.published_at == [at for at, _ in events]
    assert segment.subjects == [event.subject for _, event in events]
    for i, (_, event) in enumerate(events):
        assert segment.event(i) == event.body
        assert segment.type(i) == event.type
        assert segment.versions[segment.version_of[i]] == event.data_version


@given(publishes, st.data())
def test_neighbours_are_one_slice(publishes: list[Publish], data: st.DataObject) -> None:
    """Any run of neighbours lies in the body joined by commas, ready to be sent."""
    segment = Segment(*pack(publishes))
    first = data.draw(st.integers(0, len(segment)))
    last = data.draw(st.integers(first, len(segment)))
    if first == last:
        return
    bodies = [segment.event(i) for i in range(first, last)]
    assert segment.body[segment.start(first) : segment.ends[last - 1]] == b",".join(bodies)


def test_ids() -> None:
    """Ids are read from their column, in another schema too; of a segment from before there was one, from the event."""
    events = [StampedEvent(b'{"id":"%d"}' % n, "t", "s", "", "", f"column {n}") for n in range(3)]
    packed, body = pack([Publish(0, events)])
    segment = Segment(packed, body)
    assert [segment.id(i) for i in range(3)] == [f"column {n}" for n in range(3)]
    assert segment.converted(lambda event: b"x").id(1) == "column 1"
    old = Segment(msgspec.msgpack.encode(msgspec.msgpack.decode(packed)[:-2]), body)
    assert [old.id(i) for i in range(3)] == ["0", "1", "2"]
    assert old.converted(lambda event: b"x").id(1) == "1"
    assert [id_of(event) for event in (b"", b"{}", b'{"id":5}', b'{"id":"5"}')] == ["", "", "", "5"]


def test_types_and_versions_are_kept_once() -> None:
    """A type or version that repeats is stored once."""
    events = [StampedEvent(b"{}", "t", str(n), "1") for n in range(100)]
    segment = Segment(*pack([Publish(0, events)]))
    assert segment.types == ["t"]
    assert segment.versions == ["1"]


def test_repr_shows_no_content() -> None:
    """A segment in a log line is its size, not its events."""
    segment = Segment(*pack([Publish(0, [StampedEvent(b'{"secret":1}', "t", "s", "")])]))
    assert repr(segment) == "<Segment of 1 events, 12 bytes>"
