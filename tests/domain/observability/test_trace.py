"""The traceparent of the W3C: what is one, and where an event has one."""

import pytest

from recapito.domain.events.segment import Publish, Segment, StampedEvent, pack
from recapito.domain.observability.trace import TraceParent, parse, traceparent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TEXT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (TEXT, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_a_traceparent_is_read(text: str, sampled: bool) -> None:
    """Its ids and whether it is sampled; a later version may have more at its end."""
    assert parse(text) == TraceParent(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{TEXT}-more",
        f"{TEXT} ",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
    ],
)
def test_what_is_no_traceparent(text: str) -> None:
    """Capitals, zeros, a wrong length, the version that is none: all of it is nothing."""
    assert parse(text) is None


def test_it_is_written_as_it_is_read() -> None:
    """A traceparent of ours has version 00."""
    assert str(TraceParent(TRACE, SPAN)) == TEXT
    assert str(TraceParent(TRACE, SPAN, False)).endswith("-00")


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (b'{"id":"1","traceparent":"%b"}' % TEXT.encode(), True),
        (b'{"id":"1"}', False),
        (b'{"data":{"traceparent":"%b"}}' % TEXT.encode(), False),
        (b'{"traceparent":7}', False),
        (b'{"traceparent":"nonsense"}', False),
    ],
)
def test_a_cloud_event_may_have_one(event: bytes, found: bool) -> None:
    """As an attribute of its own; elsewhere in it, or of another type, it is none."""
    assert (traceparent_of(event) is not None) is found


def test_traces_find_their_events_in_a_segment() -> None:
    """Of several publishes in one segment each traced event keeps its own; without any nothing is stored."""
    event = StampedEvent(b"{}", "t", "s", "")
    traced = pack([Publish(1, [event, event]), Publish(1, [event, event], {1: TEXT})])
    assert Segment(*traced).traces == {3: TEXT}
    plain = pack([Publish(1, [event, event]), Publish(1, [event, event])])
    assert Segment(*plain).traces == {} and len(traced[0]) - len(plain[0]) == len(TEXT) + 3
