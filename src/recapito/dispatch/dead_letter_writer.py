"""Writing dead letters: what is due is grouped, named in a commit, written, and only then counted.

A group is named before it is written, so a write that is repeated after a crash overwrites itself. A vault that is
down is tried again with growing pauses until the profile gives it up; or for ever, if the server is set to. A
container that hangs or is out of reach holds up no other, not even of the same lane. A lane's container rests for a
moment after a write, so that what falls due one by one is not written one by one. Who wants to hear of a blob is told
by a notice in the commit that counts it.
"""

from collections.abc import Callable
from typing import NamedTuple

from recapito.clock import Clock
from recapito.contracts.ledger import DeadLetterGroup, Ledger, SkippedDeadLetters
from recapito.contracts.registry import Registry
from recapito.contracts.vault import Vault, VaultUnavailable
from recapito.dispatch.blob_notices import notice_for
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.domain import limits
from recapito.domain.dead_letter import record
from recapito.domain.dead_letter.parser import count_reasons
from recapito.domain.history.attempt import Ending, Fate, Label, Then
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.profiles.profile import DeadLetterRules
from recapito.observability.journal import Journal

UNAVAILABLE = "DeadLetterUnavailable"
CONTAINER_MISSING = "DeadLetterContainerMissing"
FIRST_PAUSE_NS = 10 * SECOND
LONGEST_PAUSE_NS = 5 * MINUTE
END_OF_TIME = 1 << 62


class Owner(NamedTuple):
    """Of the subscription whose dead letters are written: its name, the rules of its topic's profile, its recorder."""

    subscription: str
    rules: DeadLetterRules
    recorder: AttemptRecorder


def unknown_owner(lane: int, rules: DeadLetterRules) -> Owner:
    """Of a lane whose subscription is not known: an older log.db was put in place. Its dead letters are written too."""
    name = f"lane-{lane}"
    return Owner(name, rules, AttemptRecorder(None, Label(lane, 0, "", name)))


class Pause(NamedTuple):
    """A lane's container that has been out of reach since some instant: not to be tried before `until`."""

    since: int
    until: int
    length: int


class DeadLetterWriter:
    """Writes groups side by side, one per container: `next_group` says which, `write` does it.

    `on_notice` wakes who takes notices over.
    """

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        vault: Vault,
        clock: Clock,
        owner_of: Callable[[int], Owner],
        new_guid: Callable[[], str],
        journal: Journal,
        keep_for_ever: bool = False,
        on_notice: Callable[[], None] = lambda: None,
        group_events: int = limits.DEAD_LETTER_GROUP_EVENTS,
    ) -> None:
        self._group_events = group_events
        self._ledger = ledger
        self._registry = registry
        self._vault = vault
        self._clock = clock
        self._owner_of = owner_of
        self._new_guid = new_guid
        self._journal = journal
        self._keep_for_ever = keep_for_ever
        self._on_notice = on_notice
        self._paused: dict[tuple[int, str], Pause] = {}
        self._resting: dict[tuple[int, str], int] = {}  # until when nothing is written, if it is not a whole group
        self._writing: set[str] = set()

    @property
    def full(self) -> bool:
        """True when no other container can be written to before a write has ended."""
        return len(self._writing) >= limits.DEAD_LETTER_WRITES

    async def next_group(self) -> DeadLetterGroup | None:
        """The group to `write` next, with its name; None when there is none, or none before a write has ended."""
        while not self.full:
            now = self._clock.now()
            group = await self._ledger.burials_due(
                now, self._group_events, limits.DEAD_LETTER_GROUP_BYTES, self._passed(now)
            )
            if group is None:
                return None
            if group.path is not None:
                self._writing.add(group.container)
                return group
            # What a late answer takes away before this commit is not in the group that is found next.
            path = record.path(self._owner_of(group.lane).subscription, now, self._new_guid())
            await self._ledger.name_group(group, path, self._tried_at(group, now))
        return None

    async def write(self, group: DeadLetterGroup) -> None:
        """Write a group, and count it or say when to try again."""
        try:
            await self._write(group, self._owner_of(group.lane), self._clock.now())
        finally:
            self._writing.discard(group.container)

    async def next_instant(self) -> int | None:
        """When there is something to write again, unless a write ends before: a pause ends, or a dead letter is due."""
        now = self._clock.now()
        instants = [pause.until for pause in self._paused.values() if pause.until > now]
        if not self.full:
            awake = await self._first_due(self._passed(now))
            instants += [] if awake is None else [awake]
            if self._resting:
                any_at_all = await self._first_due(
                    SkippedDeadLetters(frozenset(self._writing), self._out_of_reach(now))
                )
                instants += [] if any_at_all is None else [max(any_at_all, min(self._resting.values()))]
        return min(instants, default=None)

    async def _first_due(self, passed: SkippedDeadLetters) -> int | None:
        first = await self._ledger.burials_due(END_OF_TIME, 1, 1, passed)
        return None if first is None else first.burials[0].write_at

    def _passed(self, now: int) -> SkippedDeadLetters:
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        return SkippedDeadLetters(frozenset(self._writing), self._out_of_reach(now) | self._resting.keys())

    def _out_of_reach(self, now: int) -> frozenset[tuple[int, str]]:
        return frozenset(key for key, pause in self._paused.items() if pause.until > now)

    def _tried_at(self, group: DeadLetterGroup, now: int) -> int:
        """Since when a new group is being tried: what waited behind another was tried with that one."""
        pause = self._paused.get((group.lane, group.container))
        return now if pause is None else max(pause.since, group.burials[-1].write_at)

    async def _write(self, group: DeadLetterGroup, owner: Owner, now: int) -> None:
        assert group.path is not None
        content = record.array([burial.record for burial in group.burials])
        try:
            receipt = await self._vault.write(group.container, group.path, content)
        except VaultUnavailable as error:
            await self._failed(group, owner, error, now)
            return
        self._paused.pop((group.lane, group.container), None)
        if _has_room(group, content, self._group_events):
            self._resting[group.lane, group.container] = self._clock.now() + limits.DEAD_LETTER_REST_NS
        stored = None
        if receipt is not None:
            stored = await notice_for(self._registry, group, receipt, len(content), self._clock.now())
        reasons = count_reasons(burial.record for burial in group.burials)
        notice, taken = stored or (None, 0)
        await self._ledger.written(group.lane, group.path, notice, taken, reasons)
        if notice is not None:
            self._on_notice()
        lies = Fate(Then.DEAD_LETTER, where=f"{group.container}/{group.path}")
        owner.recorder.buried(group.burials, self._clock.now(), Ending.DEAD_LETTERED, lies)
        self._journal("deadletter.written", subscription=owner.subscription, events=len(group.burials), path=group.path)

    async def _failed(self, group: DeadLetterGroup, owner: Owner, error: VaultUnavailable, now: int) -> None:
        assert group.path is not None and group.first_tried_at is not None
        gives_up_at = group.first_tried_at + owner.rules.unavailable_s * SECOND
        missing = error.missing and owner.rules.missing_container == "drop"
        if not self._keep_for_ever and (missing or now >= gives_up_at):
            reason = CONTAINER_MISSING if missing else UNAVAILABLE
            await self._ledger.abandon(group.lane, group.path, reason)
            dropped = Fate(Then.DROP, reason=reason)
            owner.recorder.buried(group.burials, now, Ending.DEAD_LETTER_DROPPED, dropped)
            self._journal(
                "deadletter.dropped", subscription=owner.subscription, events=len(group.burials), reason=reason
            )
            return
        before = self._paused.get((group.lane, group.container))
        length = FIRST_PAUSE_NS if before is None else min(before.length * 2, LONGEST_PAUSE_NS)
        until = self._clock.now() + length  # a vault that hung has used up time of its own
        if not self._keep_for_ever and now < gives_up_at:
            until = min(until, gives_up_at)
        self._paused[group.lane, group.container] = Pause(now if before is None else before.since, until, length)
        self._journal(
            "deadletter.unavailable", subscription=owner.subscription, why=str(error), retry_s=length // SECOND
        )


def _has_room(group: DeadLetterGroup, content: bytes, most: int) -> bool:
    """Whether a group holds all that was due when it was named: one that was cut short is nearly full."""
    spare = limits.DEAD_LETTER_GROUP_BYTES - len(content)
    return len(group.burials) < most and spare > 2 * limits.EVENT_BYTES
