"""The waymarks of a forwarded event: kept in order, bounded, and refused where they come back."""

import pytest

from recapito.domain import limits
from recapito.domain.events.passed import check_passed, joined, waymark
from recapito.errors import InvalidInput, LoopDetected

A, B, C = (waymark("log", topic) for topic in (1, 2, 3))


def test_marks_differ_by_topic_and_by_log() -> None:
    """Two topics of one server, and the same topic of two servers, have different waymarks."""
    assert len({A, B, C, waymark("other", 1)}) == 4
    assert waymark("log", 1) == A


def test_a_request_names_all_topics_once() -> None:
    """The header has the waymarks of all its events, each once, and ends with that of the sender."""
    assert joined(["", A, f"{A},{B}"], C) == f"{A},{B},{C}"
    assert joined([], C) == C
    assert check_passed(f"{A}, {B}", C) == f"{A},{B}"


def test_events_that_come_back_are_refused() -> None:
    """The topic that finds its own waymark refuses, and says what to do."""
    with pytest.raises(LoopDetected, match="Delete it"):
        check_passed(f"{B},{A}", A)


def test_a_long_way_is_refused() -> None:
    """An event comes by a bounded number of topics."""
    waymarks = [waymark("log", n) for n in range(10, 10 + limits.PASSED_TOPICS)]
    assert check_passed(",".join(waymarks[:-1]), A)
    with pytest.raises(LoopDetected, match="already"):
        check_passed(",".join(waymarks), A)


@pytest.mark.parametrize("text", ["", "here", A[:-1], f"{A};{B}", A.upper(), f"{A},"])
def test_a_header_that_is_no_list_of_marks_is_refused(text: str) -> None:
    """Nothing else is stored beside an event."""
    with pytest.raises(InvalidInput, match="recapito-passed"):
        check_passed(text, C)
