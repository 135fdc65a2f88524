"""Follows the hold of one lane from what its endpoint answered, without a look at the lane.

A suspended machine learns of time-outs in an order that nobody can know: then the watch believes what is settled, and
trusts itself again when nothing is open.
"""

from collections.abc import Iterator

from recapito.domain import limits
from recapito.domain.hold import CLEAR, Hold, after_failure
from recapito.domain.instant import MILLISECOND
from recapito.domain.outcome import Result
from recapito.domain.profile import Profile
from tests.sim.endpoints import Arrival


class HoldWatch:
    """What the hold of a lane must be. Time-outs are folded in when somebody looks, in the order of sending."""

    def __init__(self) -> None:
        self._trusted = True
        self._blind_until = 0
        self._states: list[tuple[int, Hold]] = [(0, CLEAR)]
        self._open: dict[Arrival, None] = {}
        self._probe: Arrival | None = None

    @property
    def hold(self) -> Hold:
        """The hold as it must be now."""
        return self._states[-1][1]

    def start(self, hold: Hold) -> None:
        """The lane begins from what is stored, with nothing under way."""
        self._states = [(0, hold)]
        self._open.clear()
        self._probe = None
        self._trusted = True

    def distrust(self, until: int) -> None:
        """Something happened after which the order of things is unknown, at least until then."""
        self._trusted = False
        self._blind_until = until

    def sent(self, profile: Profile, arrival: Arrival) -> str | None:
        """A request goes out; why it should not, if so."""
        now = arrival.sent_at
        self._time_out(profile, now)
        self._open[arrival] = None
        if not self._trusted or not self.hold.on:
            return None
        if self.hold.holds(now):
            return f"held for another {(self.hold.until - now) / 1e9:.3f} s"
        if self._probe is not None:
            return "a probe is under way already"
        self._probe = arrival
        return None

    def heard(self, profile: Profile, arrival: Arrival, now: int) -> None:
        """An answer came back."""
        self._time_out(profile, now)
        assert arrival.outcome is not None
        if arrival in self._open:
            self._conclude(profile, arrival, arrival.outcome.status, arrival.outcome.result, now)
        elif arrival.outcome.status in profile.status.success and now - arrival.sent_at <= limits.LATE_ANSWER_WAIT_NS:
            self._become(CLEAR, now)

    def settled(self, profile: Profile, hold: Hold, now: int) -> str | None:
        """A settlement is being made with this hold; what is wrong with it, if anything."""
        self._time_out(profile, now)
        if not self._trusted:
            self._become(hold, now)
            self._trusted = not self._open and now >= self._blind_until
            return None
        if any(_same(hold, possible) for possible in self._possible(now)):
            return None
        return f"is settled with {hold}, it should be {self.hold}"

    def _time_out(self, profile: Profile, now: int) -> None:
        for arrival in list(self._open):
            late_at = arrival.sent_at + limits.ANSWER_WAIT_NS
            if late_at > now:
                return
            self._conclude(profile, arrival, None, Result.TIMED_OUT, late_at)

    def _conclude(self, profile: Profile, arrival: Arrival, status: int | None, result: Result, at: int) -> None:
        del self._open[arrival]
        probe = arrival is self._probe
        if probe:
            self._probe = None
        if status in profile.status.success:
            self._become(CLEAR, at)
        else:
            self._become(after_failure(self.hold, profile.delayed_delivery, result, at, probe), at)

    def _become(self, hold: Hold, at: int) -> None:
        self._states = [*self._states[-15:], (at, hold)]

    def _possible(self, now: int) -> Iterator[Hold]:
        """What the lane may hold now: it may not have looked at all that happened at this very instant."""
        for at, hold in reversed(self._states):
            yield hold
            if at < now:
                return


def _same(hold: Hold, other: Hold) -> bool:
    same = (hold.failures, hold.period, hold.cause) == (other.failures, other.period, other.cause)
    return same and abs(hold.until - other.until) <= MILLISECOND
