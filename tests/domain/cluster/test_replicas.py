"""Copies of streams: a copy that lacks messages is named after two looks, one that is merely busy is not."""

from recapito.domain.cluster.replicas import CopyState, find_faults

WHOLE = CopyState(100, 1, 100)
HOLED = CopyState(60, 1, 100)


def test_whole_copies_have_no_fault() -> None:
    """Copies that grow, and one that is a little behind the others of this moment, are fine."""
    before = {"a": {"S": WHOLE}, "b": {"S": CopyState(98, 1, 98)}}
    now = {"a": {"S": CopyState(150, 1, 150)}, "b": {"S": CopyState(140, 1, 140)}}
    assert find_faults(before, now) == {}


def test_a_hole_must_stay_to_be_named() -> None:
    """A hole in one look may be a change; in both it is a loss, with its server and the remedy."""
    assert find_faults({"a": {"S": WHOLE}, "b": {"S": HOLED}}, {"a": {"S": WHOLE}, "b": {"S": WHOLE}}) == {}
    faults = find_faults({"a": {"S": WHOLE}, "b": {"S": HOLED}}, {"a": {"S": WHOLE}, "b": {"S": HOLED}})
    assert list(faults) == ["b"]
    assert "lacks 40 messages" in faults["b"]
    assert "empty its store directory" in faults["b"]


def test_a_copy_that_does_not_keep_up_is_named() -> None:
    """An end before another copy's end of the last look is lag that stays."""
    faults = find_faults({"a": {"S": WHOLE}, "b": {"S": WHOLE}}, {"a": {"S": WHOLE}, "b": {"S": CopyState(90, 1, 90)}})
    assert "10 messages behind" in faults["b"]


def test_a_server_that_was_silent_is_not_judged() -> None:
    """One look at a server is not enough."""
    assert find_faults({}, {"a": {"S": HOLED}}) == {}
