"""Replay: kept events of a topic's log, delivered to one subscription again, a bounded number in each call.

A replayed event is a new delivery, as a redriven one is: a segment of the topic's log that only that subscription
takes, and whose origin names the position that it comes from. The subscription's filter of now selects the events;
their data stays as it was published. A call reads entries that the lane has passed, so nothing comes twice by itself.
"""

from collections.abc import Callable
from typing import NamedTuple

from recapito.clock import Clock
from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Entry, EntryKind, Log, NewSegment
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.events.segment import REPLAYED, Publish, Segment, StampedEvent, pack
from recapito.domain.filters.matcher import select
from recapito.domain.instant import stamp
from recapito.domain.resources.subscription import Subscription
from recapito.errors import Conflict, InvalidInput
from recapito.intake.resources.not_found import subscription_missing
from recapito.observability.journal import Journal

_READ_BYTES = 1  # one entry
_ENTRY_BYTES = 1000  # what an entry costs whatever its size


class ReplayStart(NamedTuple):
    """The start of a replay: a position of the topic's log, or an instant."""

    position: int | None = None
    since: int | None = None


class Replayed(NamedTuple):
    """The result of one call: entries from `start` on were read; `next` is None at the end, which is at `until`.

    `damaged` counts entries that could not be read.
    """

    start: int
    until: int
    next: int | None
    selected: int
    done: int
    damaged: int


class Replayer:
    """Replays events.

    log, registry, ledger: the stores; the ledger is only read.
    clock: the service's clock, for the time of publishing.
    enabled: the setting that allows it.
    check_open: raises Busy while intake takes no events.
    on_append: called after each commit, and after one that failed: it may be stored nevertheless.
    journal: gets one line for each call.
    """

    def __init__(
        self,
        log: Log,
        registry: Registry,
        ledger: Ledger,
        clock: Clock,
        enabled: bool,
        check_open: Callable[[], None],
        on_append: Callable[[], None],
        journal: Journal,
    ) -> None:
        self._log = log
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self._enabled = enabled
        self._check_open = check_open
        self._on_append = on_append
        self._journal = journal

    async def replay(self, id: int, start: ReplayStart, until: int | None, dry_run: bool = False) -> Replayed:
        """Replay entries from `start` up to `until`, or to the place of the lane, as many as one commit takes."""
        if not self._enabled:
            raise Conflict("ReplayIsOff", "This server replays no events: set history.replay to allow it.")
        subscription = await self._registry.subscription_by_id(id)
        if subscription is None or subscription.deleted_position is not None:
            raise subscription_missing(str(id))
        passed = await self._passed(subscription)
        until = passed if until is None else min(until, passed)
        try:
            first = await self._start(subscription.topic, start, until)
            result, segments = await self._gather(subscription, first, until)
        except LookupError:  # trimmed while it was read
            kept = await self._log.first(subscription.topic)
            raise _beyond(kept, None, "position") from None
        if segments and not dry_run:
            self._check_open()
            result = result._replace(done=result.selected)
            await self._append(subscription, segments, result)
        return result

    async def _passed(self, subscription: Subscription) -> int:
        """The last position that the lane has passed whole."""
        lane = await self._ledger.lane(subscription.id)
        return (subscription.created_position if lane is None else lane.cursor.low[0]) - 1

    async def _start(self, topic: int, start: ReplayStart, until: int) -> int:
        """The first position to read; InvalidInput if it is not kept, with the place from which on it is."""
        kept = await self._log.first(topic)
        wanted = start.position
        if start.since is not None:
            wanted = await self._position_at(topic, start.since, kept, until)
            first_at = await self._time_at(topic, kept, until) if kept > 1 else None
            if first_at is not None and start.since < first_at:
                raise _beyond(kept, first_at, "since")
        assert wanted is not None
        if wanted < kept:
            raise _beyond(kept, await self._time_at(topic, kept, until), "position")
        return wanted

    async def _position_at(self, topic: int, instant: int, low: int, until: int) -> int:
        """The first position whose events were published at an instant or later, by bisection."""
        high = until + 1
        while low < high:
            middle = (low + high) // 2
            published_at = await self._time_at(topic, middle, until)
            if published_at is None or published_at >= instant:
                high = middle
            else:
                low = middle + 1
        return low

    async def _time_at(self, topic: int, position: int, until: int) -> int | None:
        """The time of the first events at a position or behind it; None if there are none up to `until`."""
        while position <= until:
            [entry, *_] = await self._log.read(topic, position, _READ_BYTES)
            if entry.kind is EntryKind.SEGMENT:
                return Segment(entry.columns, entry.body).published_at[-1]
            position += 1
        return None

    async def _gather(self, subscription: Subscription, first: int, until: int) -> tuple[Replayed, list[NewSegment]]:
        """The segments of one commit: as many entries as fit, at least one."""
        now, position = self._clock.now(), first
        selected = damaged = size = read = 0
        segments: list[NewSegment] = []
        while position <= until and size < limits.SEGMENT_BYTES and read < limits.REPLAY_READ_BYTES:
            for entry in await self._log.read(subscription.topic, position, limits.SEGMENT_BYTES):
                if entry.position > until or size >= limits.SEGMENT_BYTES:
                    break
                position = entry.position + 1
                read += len(entry.body) + _ENTRY_BYTES
                damaged += entry.kind is EntryKind.DAMAGED
                events = _events(subscription, entry)
                if events:
                    origin = f"{REPLAYED}{entry.position}"
                    packed = pack([Publish(now, events)], subscription.id, origin)
                    segments.append(NewSegment(subscription.topic, len(events), *packed))
                    selected += len(events)
                    size += len(packed[1])
        following = position if position <= until else None
        return Replayed(first, until, following, selected, 0, damaged), segments

    async def _append(self, subscription: Subscription, segments: list[NewSegment], result: Replayed) -> None:
        try:
            positions = await self._log.append(segments)
        except KeyError:
            raise subscription_missing(str(subscription.id)) from None
        finally:
            self._on_append()
        self._journal(
            "subscription.replayed",
            subscription=subscription.name,
            lane=subscription.id,
            start=result.start,
            events=result.done,
            positions=[positions[0], positions[-1]],
        )


def _events(subscription: Subscription, entry: Entry) -> list[StampedEvent]:
    """The events of an entry that the subscription's filter takes. Redriven and replayed ones are repetitions."""
    if entry.kind is not EntryKind.SEGMENT:
        return []
    segment = Segment(entry.columns, entry.body)
    if segment.only:
        return []
    return [_stamped(segment, i) for i in select(subscription.filter, segment).chosen]


def _stamped(segment: Segment, i: int) -> StampedEvent:
    domain_topic = segment.domain_topics[segment.domain_topic_of[i]] if segment.domain_topics else ""
    version = segment.versions[segment.version_of[i]]
    return StampedEvent(segment.event(i), segment.type(i), segment.subjects[i], version, domain_topic, segment.id(i))


def _beyond(kept: int, first_at: int | None, target: str) -> InvalidInput:
    published = "" if first_at is None else f", published at {stamp(first_at)}"
    message = f"The log no longer has these events: it begins at position {kept}{published}. Replay from there."
    return InvalidInput("BeyondKeptEvents", message, target)
