"""Follows the hold of one lane from what its endpoint answered, without a look at the lane.

A suspended machine learns of time-outs in an unknown order: then the watch believes what is settled, and
trusts itself again when nothing is open. When a sweep is over, the lane says; that it left nothing out is the law of
`liveness`.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from recapito.domain import limits
from recapito.domain.delivery.hold import CLEAR, Hold, after_failure, after_success, after_sweep
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import MILLISECOND
from recapito.domain.profiles.profile import DelayedDelivery, Profile
from tests.sim.endpoints import Arrival


class HoldWatch:
    """The hold that a lane must have. Time-outs are folded in at each read, in the order of sending."""

    def __init__(self) -> None:
        self._trusted = True
        self._blind_until = 0
        self._states: list[tuple[int, Hold]] = [(0, CLEAR)]
        self._open: dict[Arrival, int] = {}  # with the number of first attempts
        self._probes: set[Arrival] = set()

    @property
    def hold(self) -> Hold:
        """The hold as it must be now."""
        return self._states[-1][1]

    def start(self, hold: Hold, now: int) -> None:
        """The lane begins from what is stored, with nothing under way; what it has not seen yet it still may see."""
        self._states = [(0, hold)]
        self._open.clear()
        self._probes.clear()
        self._trusted = now >= self._blind_until

    def distrust(self, until: int) -> None:
        """Something happened after which the order of things is unknown, at least until then."""
        self._trusted = False
        self._blind_until = until

    def sent(self, rules: DelayedDelivery | None, arrival: Arrival, first_attempts: int) -> str | None:
        """A request goes out; why it should not, if so."""
        now = arrival.sent_at
        self._time_out(rules, now)
        self._open[arrival] = first_attempts
        if not self._trusted or not self.hold.on:
            return None
        if self.hold.holds(now):
            return f"held for another {(self.hold.until - now) / 1e9:.3f} s"
        if self._probes and not self.hold.sweeps:
            return "a probe is under way already"
        if not self.hold.sweeps and len(arrival.events) > 1:
            return "a probe of several events"
        self._probes.add(arrival)
        return None

    def heard(self, profile: Profile, rules: DelayedDelivery | None, arrival: Arrival, now: int) -> None:
        """An answer came back."""
        self._time_out(rules, now)
        assert arrival.outcome is not None
        if arrival in self._open and arrival.outcome.status in profile.status.success:
            del self._open[arrival]
            self._probes.discard(arrival)
            self._become(after_success(self.hold), now)
        elif arrival in self._open:
            self._fail(rules, arrival, arrival.outcome, now)
        elif arrival.outcome.status in profile.status.success and now - arrival.sent_at <= limits.LATE_ANSWER_WAIT_NS:
            self._become(after_success(self.hold), now)

    def settled(self, rules: DelayedDelivery | None, hold: Hold, now: int) -> str | None:
        """A settlement is being made with this hold; what is wrong with it, if anything."""
        self._time_out(rules, now)
        if not self._trusted:
            self._become(hold, now)
            self._trusted = not self._open and now >= self._blind_until
            return None
        if any(_same(hold, possible) for possible in self._possible(now)):
            return None
        if not self.hold.on and hold == replace(self.hold, sweep_at=0):  # nothing waits any more
            self._become(hold, now)
            return None
        if rules is not None and self.hold.sweeps and not self._probes:
            swept_at = hold.sweep_at - rules.sweep_ns
            if self.hold.until <= swept_at <= now and _same(hold, after_sweep(self.hold, rules, swept_at)):
                self._become(hold, swept_at)
                return None
        return f"is settled with {hold}, it should be {self.hold}"

    def _time_out(self, rules: DelayedDelivery | None, now: int) -> None:
        if rules is None and self.hold.on:  # the policy changed while dispatch was down
            self._become(Hold(self.hold.failures), now)
        for arrival in list(self._open):
            late_at = arrival.sent_at + limits.ANSWER_WAIT_NS
            if late_at > now:
                return
            self._fail(rules, arrival, Outcome(Result.TIMED_OUT), late_at)

    def _fail(self, rules: DelayedDelivery | None, arrival: Arrival, outcome: Outcome, at: int) -> None:
        first_attempts, probe = self._open.pop(arrival), arrival in self._probes
        self._probes.discard(arrival)
        self._become(after_failure(self.hold, rules, outcome, at, first_attempts, probe), at)

    def _become(self, hold: Hold, at: int) -> None:
        self._states = [*self._states[-15:], (at, hold)]

    def _possible(self, now: int) -> Iterator[Hold]:
        """The holds that the lane may have now: it may not have processed everything of this very instant."""
        for at, hold in reversed(self._states):
            yield hold
            if at < now:
                return


def _same(hold: Hold, other: Hold) -> bool:
    same = (hold.failures, hold.period, hold.cause) == (other.failures, other.period, other.cause)
    near = abs(hold.until - other.until) <= MILLISECOND and abs(hold.sweep_at - other.sweep_at) <= MILLISECOND
    return same and near
