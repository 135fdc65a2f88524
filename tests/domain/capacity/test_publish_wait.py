"""How long a publish is expected to wait."""

import pytest

from recapito.domain.capacity.publish_wait import LARGE_COMMIT, LastCommit, expected_wait

LARGE = LastCommit(1000, LARGE_COMMIT)


@pytest.mark.parametrize(
    ("last", "running_since", "waiting", "now", "wait"),
    [
        (LastCommit(), None, 0, 9, 0),
        (LARGE, None, 10 * LARGE_COMMIT, 9, 0),
        (LARGE, 0, 0, 0, 2000),
        (LARGE, 0, 0, 400, 1600),
        (LARGE, 0, 10 * LARGE_COMMIT, 400, 10_600),
        (LastCommit(1000, 1), 0, 10_000, 400, 1600),
        (LARGE, 0, 0, 5000, 5000),
        (LastCommit(), 0, 10_000, 7, 7),
    ],
    ids=["idle", "idle after load", "just begun", "half done", "long queue", "small commit", "hangs", "first"],
)
def test_the_expected_wait(last: LastCommit, running_since: int | None, waiting: int, now: int, wait: int) -> None:
    """The rest of the running commit and the next one, which grows with the queue if the last was large."""
    assert expected_wait(last, running_since, waiting, now) == wait
