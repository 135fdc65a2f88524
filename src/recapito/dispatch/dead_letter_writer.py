"""Writing dead letters: those that are due are grouped, named in a commit, written, and only then counted.

A group is named before it is written, so a write that is repeated after a crash overwrites itself. A vault that is down
is tried again with growing pauses until the profile gives it up; or forever, if the server is set to. A container that
hangs or is out of reach holds up no other, not even of the same lane. A lane's container rests for a moment after a
write, so that letters that fall due one by one are not written one by one. If the storage account of a blob has a
system topic with subscriptions, the commit that counts the blob stores a notice, from which intake makes an event.
Where the topic may be in another partition, each blob has a notice.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from recapito.clock import Clock
from recapito.contracts.ledger import DeadLetterGroup, Ledger, SkippedDeadLetters
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Registry, has_subscription, system_topic_of
from recapito.contracts.vault import Receipt, Vault, VaultUnavailable
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.dispatch.signals import Signal, StoreRetry, Timers
from recapito.domain import limits
from recapito.domain.dead_letter import record
from recapito.domain.dead_letter.blob_notice import BlobNotice, encode_notice
from recapito.domain.dead_letter.parser import count_reasons
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome
from recapito.domain.history.attempt import EventDisposition, LaneLabel
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.profiles.profile import DeadLetterRules
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.domain.resources.topic import TopicKind
from recapito.errors import RecordDamaged, StoreFailed
from recapito.observability.journal import Journal

UNAVAILABLE = "DeadLetterUnavailable"
CONTAINER_MISSING = "DeadLetterContainerMissing"
FIRST_PAUSE_NS = 10 * SECOND
LONGEST_PAUSE_NS = 5 * MINUTE
END_OF_TIME = 1 << 62


class Owner(NamedTuple):
    """The subscription that dead letters belong to: its name, its topic's rules, its recorder, its lane's `wake`."""

    subscription: str
    rules: DeadLetterRules
    recorder: AttemptRecorder
    wake: Callable[[], None] = lambda: None


def unknown_owner(lane: int, rules: DeadLetterRules) -> Owner:
    """The owner of an unknown subscription, because an older log.db was put in place: its letters are written too."""
    name = f"lane-{lane}"
    return Owner(name, rules, AttemptRecorder(None, LaneLabel(lane, 0, "", name)))


class Pause(NamedTuple):
    """A lane's container is out of reach since an instant, and is not tried before `until`."""

    since: int
    until: int
    length: int


class DeadLetterWriter:
    """Writes groups side by side, one for each container.

    - `owner_of`: returns the owner of a lane's dead letters.
    - `burials`: set when a delivery was buried.
    - `housekeeping`: the clock of pauses after the store failed.
    - `keep_for_ever`: a vault that is down is never given up.
    - `on_notice`: called when a notice was stored, to wake intake.
    - `alone`: no other partition can have a system topic.
    """

    def __init__(
        self,
        ledger: Ledger,
        registry: Registry,
        vault: Vault,
        clock: Clock,
        owner_of: Callable[[int], Owner],
        burials: Signal,
        housekeeping: Clock,
        new_guid: Callable[[], str],
        journal: Journal,
        keep_for_ever: bool = False,
        on_notice: Callable[[], None] = lambda: None,
        group_events: int = limits.DEAD_LETTER_GROUP_EVENTS,
        alone: bool = True,
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
        self._alone = alone
        self._paused: dict[tuple[int, str], Pause] = {}
        self._resting: dict[tuple[int, str], int] = {}  # until when nothing is written, if it is not a whole group
        self._writing: set[str] = set()
        self._burials = burials
        self._timers = Timers(clock)
        self._retry = StoreRetry(housekeeping, journal)
        self._writes: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Write dead letters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._timers.run())
            await self._retry.run(self._burials, lambda: self._start_writes(tasks))

    def quiet(self) -> bool:
        """True when nothing is written until a delivery is buried or the clock brings something."""
        return not self._writes and self._burials.idle and self._timers.idle

    async def _start_writes(self, tasks: asyncio.TaskGroup) -> None:
        while (group := await self.next_group()) is not None:
            write = tasks.create_task(self._write_and_go_on(group))
            self._writes.add(write)
            write.add_done_callback(self._writes.discard)
        instant = await self.next_instant()
        if instant is not None:
            self._timers.set(self, instant, self._burials.set)

    async def _write_and_go_on(self, group: DeadLetterGroup) -> None:
        try:
            await self.write(group)
        except StoreFailed as error:
            await self._retry.pause(error)
        self._owner_of(group.lane).wake()
        self._burials.set()

    @property
    def full(self) -> bool:
        """True when no other container can be written to before a write has ended."""
        return len(self._writing) >= limits.DEAD_LETTER_WRITES

    async def next_group(self) -> DeadLetterGroup | None:
        """The group to `write` next, named; None when none is due, or none may be written before a write has ended."""
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
            # A letter that a late answer takes away before this commit is not in the group that is found next.
            path = record.path(self._owner_of(group.lane).subscription, now, self._new_guid())
            await self._ledger.name_group(group, path, self._tried_at(group, now))
        return None

    async def write(self, group: DeadLetterGroup) -> None:
        """Write a group, and count it or pause its container."""
        try:
            await self._write(group, self._owner_of(group.lane), self._clock.now())
        finally:
            self._writing.discard(group.container)

    async def next_instant(self) -> int | None:
        """When to look again, unless a write ends before: a pause ends, or a dead letter is due."""
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
        """Since when a new group is being tried: letters that waited behind another group were tried with that one."""
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
            stored = await notice_for(self._registry, group, receipt, len(content), self._clock.now(), self._alone)
        reasons = count_reasons(burial.record for burial in group.burials)
        notice, taken = stored or (None, 0)
        await self._ledger.written(group.lane, group.path, notice, taken, reasons)
        if notice is not None:
            self._on_notice()
        lies = EventDisposition(DispositionKind.DEAD_LETTER, where=f"{group.container}/{group.path}")
        owner.recorder.buried(group.burials, self._clock.now(), NonRequestOutcome.DEAD_LETTERED, lies)
        self._journal("deadletter.written", subscription=owner.subscription, events=len(group.burials), path=group.path)

    async def _failed(self, group: DeadLetterGroup, owner: Owner, error: VaultUnavailable, now: int) -> None:
        assert group.path is not None and group.first_tried_at is not None
        gives_up_at = group.first_tried_at + owner.rules.unavailable_s * SECOND
        missing = error.missing and owner.rules.missing_container == "drop"
        if not self._keep_for_ever and (missing or now >= gives_up_at):
            reason = CONTAINER_MISSING if missing else UNAVAILABLE
            await self._ledger.abandon(group.lane, group.path, reason)
            dropped = EventDisposition(DispositionKind.DROP, reason=reason)
            owner.recorder.buried(group.burials, now, NonRequestOutcome.DEAD_LETTER_DROPPED, dropped)
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


class StoredNotice(NamedTuple):
    """The notice that the ledger keeps, and the number up to which intake has taken notices over."""

    notice: bytes
    taken: int


async def notice_for(
    registry: Registry, group: DeadLetterGroup, receipt: Receipt, length: int, now: int, alone: bool = True
) -> StoredNotice | None:
    """The notice of a group that was just written as a blob; None if its account has no subscribed system topic.

    Unless this partition is `alone`, another one may have such a topic, and each blob has a notice.
    None also if a record is damaged that only notices need: dead letters do not wait for it. Dead letters of a system
    topic's own subscriptions make no notices: each would make another, forever.
    """
    assert group.path is not None
    container = parse_resource_id(group.container)
    try:
        if alone and not await _has_listener(registry, container.top.text):
            return None
        if not await _may_tell(registry, group.lane):
            return None
        taken = int(await registry.document(TAKEN_KIND, TAKEN) or 0)
    except RecordDamaged:
        return None
    notice = BlobNotice(
        account=container.top.text,
        container=container.name,
        path=group.path,
        at=now,
        length=length,
        url=receipt.url,
        etag=receipt.etag,
        request_id=receipt.request_id,
        client_request_id=receipt.client_request_id,
    )
    return StoredNotice(encode_notice(notice), taken)


async def _has_listener(registry: Registry, account: str) -> bool:
    listener = await system_topic_of(registry, account)
    return listener is not None and await has_subscription(registry, listener)


async def _may_tell(registry: Registry, lane: int) -> bool:
    subscription = await registry.subscription_by_id(lane)
    topic = None if subscription is None else await registry.topic_by_id(subscription.topic)
    return topic is not None and topic.kind is not TopicKind.SYSTEM
