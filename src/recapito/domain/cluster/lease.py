"""The lease of the owner: who may *try* to own. The streams' fence decides who owns.

The law: a standby tries only if the lease was absent in two looks at least two seconds apart, or if its holder gave it
up. A node that was fenced, or whose claim failed, waits before it tries again, unless another node has held the lease
since. An owner sends nothing unless its lease was renewed within the last four seconds, so that an owner that was
paused sends at most one window.
"""

from typing import NamedTuple

import msgspec

from recapito.domain.instant import SECOND

LIFE_NS = 5 * SECOND
RENEW_NS = SECOND
SEND_NS = 4 * SECOND
ABSENT_NS = 2 * SECOND
FENCED_PAUSE_NS = 10 * SECOND
FENCED_DOUBLINGS = 4
STEADY_NS = 600 * SECOND


class Lease(msgspec.Struct, frozen=True):
    """Who may own. An empty `holder` is a lease that was given up; `term` counts the changes of holders."""

    holder: str = ""
    id: str = ""
    url: str = ""
    term: int = 0

    @property
    def free(self) -> bool:
        """Whether its holder gave it up."""
        return not self.holder


class LeaseSeen(NamedTuple):
    """One look at the lease. None: absent, that is, never taken or run out."""

    lease: Lease | None
    revision: int = 0


class LeaseWatch(NamedTuple):
    """The memory of a standby between two looks; instants are of the monotonic clock, in ns.

    absent_since: the first of the looks in a row that found no lease.
    fenced: the times in a row that this node became owner and lost it at once.
    not_before: it does not try before this.
    """

    absent_since: int | None = None
    fenced: int = 0
    not_before: int = 0


def look(watch: LeaseWatch, seen: LeaseSeen, now: int, ours: str = "") -> tuple[LeaseWatch, bool]:
    """Take in one look: the new memory, and whether the node, whose id is `ours`, should try to take the lease now."""
    if seen.lease is not None and not seen.lease.free and seen.lease.id != ours:
        return watch._replace(absent_since=None, not_before=0), False
    if seen.lease is not None:
        return watch._replace(absent_since=None), seen.lease.free and now >= watch.not_before
    since = now if watch.absent_since is None else watch.absent_since
    return watch._replace(absent_since=since), now - since >= ABSENT_NS and now >= watch.not_before


def unsure(watch: LeaseWatch) -> LeaseWatch:
    """A look failed: the looks before it prove nothing about the time between."""
    return watch._replace(absent_since=None)


def fenced(watch: LeaseWatch, now: int) -> LeaseWatch:
    """Another node wrote to the streams: wait ten seconds, then twice as long each time."""
    pause = FENCED_PAUSE_NS << min(watch.fenced, FENCED_DOUBLINGS)
    return LeaseWatch(fenced=watch.fenced + 1, not_before=now + pause)


def unclaimed(watch: LeaseWatch, now: int) -> LeaseWatch:
    """The streams did not answer a claim: let others try, and try again in ten seconds, however often that happens.

    The wait must not grow: streams that come back after a long time would stand still for as long as it is.
    """
    return watch._replace(absent_since=None, not_before=now + FENCED_PAUSE_NS)


def owned(watch: LeaseWatch, since: int, now: int) -> LeaseWatch:
    """The node was owner since an instant; after a steady time earlier losses are forgotten."""
    return LeaseWatch(fenced=0 if now - since >= STEADY_NS else watch.fenced, not_before=watch.not_before)


def may_send(renewed_at: int, now: int) -> bool:
    """Whether an owner may send a request. `renewed_at`: the instant before its last renewal was asked for."""
    return now - renewed_at < SEND_NS
