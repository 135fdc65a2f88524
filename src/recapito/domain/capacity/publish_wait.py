"""How long a publish will wait to be stored, judged by the last commit and by the queue in front of it.

The whole queue goes into one commit, so its length matters only where commits are so large that their time grows with
them: the fixed cost of a commit of one must not be taken for the cost of each of a thousand.
"""

from typing import NamedTuple

LARGE_COMMIT = 64


class LastCommit(NamedTuple):
    """The time that the last commit took, and its number of publishes."""

    took: int = 0
    publishes: int = 0


def expected_wait(last: LastCommit, running_since: int | None, waiting: int, now: int) -> int:
    """The time until a publish that joins the queue now is stored, in nanoseconds.

    `running_since` is the beginning of the commit that is under way, None without one: then nothing is waited for. A
    commit that takes longer than the last one sets the pace itself.
    """
    if running_since is None:
        return 0
    elapsed = now - running_since
    growth = max(1.0, waiting / last.publishes) if last.publishes >= LARGE_COMMIT else 1.0
    return max(0, last.took - elapsed) + max(int(last.took * growth), elapsed)
