"""Writing dead letters: what is due is grouped, named in a commit, written, and only then counted.

A group is named before it is written, so a write that is repeated after a crash overwrites itself. A vault that is
down is tried again with growing pauses until the profile gives it up; or for ever, if the server is set to.
"""

from collections.abc import Callable
from typing import NamedTuple

from recapito.clock import Clock
from recapito.domain import deadletter, limits
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.profile import DeadLetterRules
from recapito.store import Group, Ledger
from recapito.telemetry import Journal
from recapito.vault import Vault, VaultUnavailable

UNAVAILABLE = "DeadLetterUnavailable"
CONTAINER_MISSING = "DeadLetterContainerMissing"
FIRST_PAUSE_NS = 10 * SECOND
LONGEST_PAUSE_NS = 5 * MINUTE
END_OF_TIME = 1 << 62


class Place(NamedTuple):
    """Of the subscription whose dead letters are written: its name, and the rules of its topic's profile."""

    subscription: str
    rules: DeadLetterRules


class Pause(NamedTuple):
    """A lane whose vault has not answered since some instant: not to be tried before `until`."""

    since: int
    until: int
    length: int


class DeadLetterWriter:
    """Writes one group at a time; `run_once` returns when to come again."""

    def __init__(
        self,
        ledger: Ledger,
        vault: Vault,
        clock: Clock,
        place_of: Callable[[int], Place],
        new_guid: Callable[[], str],
        journal: Journal,
        keep_for_ever: bool = False,
    ) -> None:
        self._ledger = ledger
        self._vault = vault
        self._clock = clock
        self._place_of = place_of
        self._new_guid = new_guid
        self._journal = journal
        self._keep_for_ever = keep_for_ever
        self._paused: dict[int, Pause] = {}

    async def run_once(self) -> int | None:
        """Name the group that is due, or write it if it has its name. Its lane, or None when nothing is due."""
        now = self._clock.now()
        skip = frozenset(lane for lane, pause in self._paused.items() if pause.until > now)
        group = await self._ledger.burials_due(
            now, limits.DEAD_LETTER_GROUP_EVENTS, limits.DEAD_LETTER_GROUP_BYTES, skip
        )
        if group is None:
            return None
        place = self._place_of(group.lane)
        if group.path is None:  # what a late answer takes away before the commit is not in the group that is found next
            path = deadletter.path(place.subscription, now, self._new_guid())
            await self._ledger.name_group(group, path, self._tried_at(group, now))
        else:
            await self._write(group, place, now)
        return group.lane

    async def next_instant(self) -> int | None:
        """When `run_once` has something to do again: a pause ends, or a dead letter of another lane is due."""
        now = self._clock.now()
        paused = {lane: pause.until for lane, pause in self._paused.items() if pause.until > now}
        first = await self._ledger.burials_due(END_OF_TIME, 1, 1, frozenset(paused))
        instants = list(paused.values())
        if first is not None:
            instants.append(first.burials[0].write_at)
        return min(instants, default=None)

    def _tried_at(self, group: Group, now: int) -> int:
        """Since when a new group is being tried: what waited behind another of its lane was tried with that one."""
        pause = self._paused.get(group.lane)
        return now if pause is None else max(pause.since, group.burials[-1].write_at)

    async def _write(self, group: Group, place: Place, now: int) -> None:
        assert group.path is not None
        content = deadletter.array([burial.record for burial in group.burials])
        try:
            await self._vault.write(group.container, group.path, content)
        except VaultUnavailable as error:
            await self._failed(group, place, error, now)
            return
        self._paused.pop(group.lane, None)
        await self._ledger.written(group.lane, group.path)
        self._journal("deadletter.written", subscription=place.subscription, events=len(group.burials), path=group.path)

    async def _failed(self, group: Group, place: Place, error: VaultUnavailable, now: int) -> None:
        assert group.path is not None and group.first_tried_at is not None
        gives_up_at = group.first_tried_at + place.rules.unavailable_s * SECOND
        missing = error.missing and place.rules.missing_container == "drop"
        if not self._keep_for_ever and (missing or now >= gives_up_at):
            reason = CONTAINER_MISSING if missing else UNAVAILABLE
            await self._ledger.abandon(group.lane, group.path, reason)
            self._journal(
                "deadletter.dropped", subscription=place.subscription, events=len(group.burials), reason=reason
            )
            return
        before = self._paused.get(group.lane)
        length = FIRST_PAUSE_NS if before is None else min(before.length * 2, LONGEST_PAUSE_NS)
        until = now + length
        if not self._keep_for_ever and now < gives_up_at:
            until = min(until, gives_up_at)
        self._paused[group.lane] = Pause(now if before is None else before.since, until, length)
        self._journal(
            "deadletter.unavailable", subscription=place.subscription, why=str(error), retry_s=length // SECOND
        )
