"""Taking fresh events from the log: a reader pages through its topic from the lane's cursor on, and cuts batches.

It holds no events itself: an entry that the cache lacks is wanted, and the dispatcher loads it. The first event that
is not taken is in the next batch. Where headers depend on the event, a batch gathers events like its first one from a
bounded stretch of the log, and leaves those between for the batches that follow
(docs/decisions/0021-batches-by-header-values.md).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from recapito.dispatch.feed.segment_cache import CachedEntry
from recapito.dispatch.feed.topic_feed import TopicFeed
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.header_groups import HeaderGroup
from recapito.dispatch.lane.in_flight import PendingBatch, SegmentSlice
from recapito.domain import limits
from recapito.domain.delivery.attributes import Attributes, Header
from recapito.domain.delivery.cursor import Cursor, LogPosition, Range
from recapito.domain.events.conversion import Convert
from recapito.domain.events.segment import Segment
from recapito.domain.filters.matcher import compile_filter
from recapito.domain.resources.subscription import RetryPolicy, Subscription

ENTRIES_PER_TAKE = 256  # so that a lane whose filter matches nothing gives way to others


class BatchTerms(NamedTuple):
    """How a batch is cut. Events published up to `expired_at` are past their time to live and are cut separately.

    Sizes are those of the schema that is sent; events with different custom headers are never in one batch.
    `slice` bounds the number of expired events in one batch.
    """

    event_limit: int
    byte_limit: int
    expired_at: int
    convert: Convert | None = None
    attributes: Attributes | None = None
    slice: int = limits.PARKED_SLICE


def unlimited_terms(slice: int) -> BatchTerms:
    """For batches that are not sent: `slice` events, of whatever age."""
    return BatchTerms(slice, limits.WINDOW_BYTES, expired_at=-1)


def terms_at(
    now: int, subscription: Subscription, delivery_format: DeliveryFormat, slice: int, policy: RetryPolicy | None = None
) -> BatchTerms:
    """The terms of a subscription, whose retry policy is `policy` if another one is in force."""
    batching, expired_at = subscription.batching, now - (policy or subscription.retry_policy).ttl_ns
    convert, attributes = delivery_format.convert, delivery_format.attributes
    return BatchTerms(batching.event_limit, batching.byte_limit, expired_at, convert, attributes, slice)


class LogReader:
    """Reads one topic in order. `wants` is the position to be loaded before `take` can go on.

    Gaps are the ranges above its place that are taken, or finished, already. `under_way` returns the number of ranges
    that the lane has not finished: together they bound the finished ranges that its cursor may come to have.
    """

    def __init__(self, feed: TopicFeed, cursor: Cursor, under_way: Callable[[], int] = lambda: 0) -> None:
        self._feed = feed
        self._place: LogPosition = cursor.low
        self._gaps = cursor.finished
        self._under_way = under_way
        self._header_group = HeaderGroup()
        self._search = (0, 0)  # for the newest event: the end of the log it began at, and where it goes on
        self.wants: int | None = None

    @property
    def place(self) -> LogPosition:
        """The first place that has not been taken."""
        return self._place

    def next_position(self, subscription: Subscription, end: int) -> int:
        """The first position that may have an event to take, as far as is known without reading; at most `end` + 1."""
        return self._pass_over(subscription, self._place, end, bool(self._gaps))[0][0]

    def caught_up(self, subscription: Subscription, end: int) -> bool:
        """True when nothing up to position `end` is left to take."""
        return self.next_position(subscription, end) > end

    async def count_unread(self, subscription: Subscription, end: int) -> int:
        """The number of events up to position `end` that are left to take; it reads them all, for a manual clock."""
        count = 0
        for position in range(self._place[0], end + 1):
            entry = await self._feed.fetch(position)
            gaps = [(start, stop) for start, stop in self._gaps if start[0] <= position <= stop[0]]
            for i in self._select(entry, subscription, position)[0]:
                place = (position, i)
                count += place >= self._place and not any(start <= place < stop for start, stop in gaps)
        return count

    def take(self, subscription: Subscription, end: int, terms: BatchTerms) -> PendingBatch | None:
        """The next batch from entries up to position `end`; None when there is none, or an entry must be loaded first.

        A batch without events only passes events that do not match.
        """
        if terms.event_limit == 1 and not self._gaps:
            pending = self._take_one(subscription, end, terms)
            if pending is not None:
                return pending
        cut, leapt = self._cut(terms), 0
        for _ in range(ENTRIES_PER_TAKE + 2 * len(self._gaps)):
            if cut.full or cut.place[0] > end:
                break
            gap = self._gaps[leapt] if leapt < len(self._gaps) else None
            if gap is not None and gap[0] == cut.place:
                cut.leap(gap[1])
                leapt += 1
                continue
            (position, offset), passed = self._pass_over(subscription, cut.place, end, gap is not None)
            if passed or position > cut.place[0]:
                cut.pass_over((position, offset), passed, compile_filter(subscription.filter).judges_all)
                continue
            entry = self._feed.get(position)
            if entry is None:
                self.wants = position
                break
            if entry.damaged is not None:
                if cut.place == self._place:
                    return self._pass_damaged(entry.damaged, terms)
                break
            if entry.segment is None:
                cut.place = (position + 1, 0)
                continue
            stop = gap[0][1] if gap is not None and gap[0][0] == position else len(entry.segment)
            segment = entry.segment if terms.convert is None else self._feed.converted(entry, terms.convert)
            cut.add(segment, *self._select(entry, subscription, position), offset, stop)
        pending = cut.pending()
        if pending is not None:
            self._pass(pending.ranges)
            self.wants = None
        return pending

    def _pass(self, ranges: Sequence[Range]) -> None:
        if not self._gaps and len(ranges) == 1 and ranges[0][0] == self._place:
            self._place = ranges[0][1]
            return
        taken = Cursor(self._place, self._gaps).finish_all(ranges)
        self._place, self._gaps = taken.low, taken.finished

    def _cut(self, terms: BatchTerms) -> "_BatchCutter":
        if terms.attributes is None or not terms.attributes.dynamic:
            return _BatchCutter(self._place, terms)
        self._header_group.begin(terms.attributes)
        room = limits.SCATTERED_RANGES - len(self._gaps) - self._under_way()
        return _GroupCutter(self._place, terms, self._header_group, max(min(room // 4, limits.LOAD_RANGES), 1))

    def take_newest(self, subscription: Subscription, end: int, terms: BatchTerms) -> PendingBatch | None:
        """The last event that waits near position `end`, alone; None when there is none, or it must be loaded first.

        Events before it stay to be taken.
        """
        floor = max(self._place[0], end - limits.PROBE_ENTRIES + 1)
        position = self._search[1] if self._search[0] == end else end
        while position >= floor:
            entry = self._feed.get(position)
            if entry is None:
                self.wants = position
                break
            offset = self._last_waiting(entry, subscription, position)
            if offset is not None:
                pending = self._take_alone(entry, subscription, (position, offset), terms)
                self._search = (end, floor - 1 if pending is None else position)  # all before an expired one are too
                return pending
            position -= 1
        self._search = (end, position)  # the cache may lose an entry while the next one is loaded
        return None

    def _last_waiting(self, entry: CachedEntry, subscription: Subscription, position: int) -> int | None:
        """The last event of an entry that the subscription takes and that was not taken."""
        selection, _ = self._select(entry, subscription, position) if entry.segment is not None else ((), ())
        for offset in reversed(selection):
            place = (position, offset)
            if place < self._place:
                return None
            if not any(start <= place < end for start, end in self._gaps):
                return offset
        return None

    def _take_alone(
        self, entry: CachedEntry, subscription: Subscription, place: LogPosition, terms: BatchTerms
    ) -> PendingBatch | None:
        """One event out of its turn: the reader passes it when it comes there."""
        assert entry.segment is not None
        position, offset = place
        segment = entry.segment if terms.convert is None else self._feed.converted(entry, terms.convert)
        if segment.published_at[offset] <= terms.expired_at:
            return None
        after = _place_of(position, offset + 1, segment)
        headers = terms.attributes.headers(segment.stored(offset)) if terms.attributes else ()
        _, evaluated = self._select(entry, subscription, position)
        judged = bisect_left(evaluated, offset + 1) - bisect_left(evaluated, offset)
        segment_slice = SegmentSlice(position, segment, range(offset, offset + 1))
        pending = PendingBatch((segment_slice,), (), ((place, after),), 1, headers, evaluated=judged)
        self._pass(pending.ranges)
        return pending

    def _pass_damaged(self, events: int, terms: BatchTerms) -> PendingBatch:
        """A batch of damaged events only: those of this entry that are not finished, `slice` at most."""
        position, offset = self._place
        finished_later = bool(self._gaps) and self._gaps[0][0][0] == position
        stop = self._gaps[0][0][1] if finished_later else max(events, offset)
        last = min(stop, offset + terms.slice)
        after = (position, last) if last < stop or finished_later else (position + 1, 0)
        pending = PendingBatch((), (), ((self._place, after),), 0, damaged=last - offset)
        self._pass(pending.ranges)
        self.wants = None
        return pending

    def _take_one(self, subscription: Subscription, end: int, terms: BatchTerms) -> PendingBatch | None:
        """The common case in few steps: the next event is cached, matches and has not expired. Otherwise None."""
        position, offset = self._place
        entry = self._feed.get(position) if position <= end else None
        if entry is None or entry.segment is None or entry.segment.only:
            return None
        segment = entry.segment if terms.convert is None else self._feed.converted(entry, terms.convert)
        filter = subscription.filter_at(position)
        taken_all = type(self._feed.select(entry, filter)) is range
        if not taken_all or segment.published_at[offset] <= terms.expired_at:
            return None
        after = (position, offset + 1) if offset + 1 < len(segment.ends) else (position + 1, 0)
        headers = terms.attributes.headers(segment.stored(offset)) if terms.attributes else ()
        segment_slice = SegmentSlice(position, segment, range(offset, offset + 1))
        evaluated = 1 if filter.conditions else 0
        pending = PendingBatch((segment_slice,), (), ((self._place, after),), 1, headers, evaluated=evaluated)
        self._place = after
        return pending

    def _select(
        self, entry: CachedEntry, subscription: Subscription, position: int
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The events of an entry that the subscription takes, and those that its conditions looked at.

        It takes the events that pass its filter, or all of an entry that was redriven for it alone.
        """
        segment = entry.segment
        if segment is not None and segment.only:
            return range(len(segment)) if segment.only == subscription.id else (), ()
        filter = subscription.filter_at(position)
        return self._feed.select(entry, filter), entry.evaluated.get(filter, ())

    def _pass_over(
        self, subscription: Subscription, place: LogPosition, end: int, gap: bool
    ) -> tuple[LogPosition, int]:
        """The place after entries in which, as the tail index knows, no event matches; and the number of their events.

        No entry is passed that may have a gap.
        """
        position, offset = place
        tail = self._feed.tail
        since = subscription.filters[-1]
        if tail is None or offset or gap or since.position > position or position > end:
            return place, 0
        wake_keys = compile_filter(since.filter).wake_keys
        if wake_keys is None:
            return place, 0
        position, passed = tail.search(position, wake_keys, end)
        return (position, 0), passed


class _BatchCutter:
    """A batch being cut: it grows slice by slice up to a limit, a gap, or the border of the expired events."""

    def __init__(self, place: LogPosition, terms: BatchTerms) -> None:
        self.place = place
        self.full = False
        self._start: LogPosition | None = place  # of the range that grows
        self._ranges: list[Range] = []
        self._slices: list[SegmentSlice] = []
        self._unmatched = 0
        self._evaluated = 0
        self._expired = False
        self._terms = terms
        self._events = 0
        self._size = 1  # the opening bracket; each event adds itself and a comma or the closing bracket

    def pending(self) -> PendingBatch | None:
        """The batch; None if nothing was cut."""
        self._end_range(self.place)
        if not self._ranges:
            return None
        return PendingBatch(
            self._slices,
            (),
            self._ranges,
            self._events,
            self._headers() if self._events else (),
            unmatched=self._unmatched,
            expired=self._expired,
            evaluated=self._evaluated,
        )

    def leap(self, place: LogPosition) -> None:
        """The events before `place` are taken already."""
        self.full = True

    def pass_over(self, place: LogPosition, unmatched: int, judged: bool) -> None:
        """Go on from a place: `unmatched` events before it do not match, by wake keys or as conditions `judged`."""
        self.place = place
        self._unmatched += unmatched
        self._evaluated += unmatched if judged else 0

    def add(self, segment: Segment, selection: Sequence[int], evaluated: Sequence[int], offset: int, stop: int) -> None:
        """Take the selected events from `offset` up to `stop` that fit, and pass the others."""
        first, last = bisect_left(selection, offset), bisect_left(selection, stop)
        fits = self._fits(segment, selection, first, last) if first < last else first
        chosen = selection[first:fits]
        after = stop if fits == last else selection[fits]
        if chosen:
            self._slices.append(SegmentSlice(self.place[0], segment, chosen))
            self._events += len(chosen)
        self.full = fits < last or self._room() <= 0
        self._count(evaluated, offset, after, len(chosen))
        self.place = _place_of(self.place[0], after, segment)

    def _count(self, evaluated: Sequence[int], offset: int, after: int, chosen: int) -> None:
        """Count the events from one offset to another, of which `chosen` were taken and `evaluated` looked at."""
        self._unmatched += after - offset - chosen
        if evaluated:
            self._evaluated += bisect_left(evaluated, after) - bisect_left(evaluated, offset)

    def _end_range(self, place: LogPosition) -> None:
        if self._start is not None and self._start < place:
            self._ranges.append((self._start, place))
        self._start = None

    def _headers(self) -> tuple[Header, ...]:
        return self._terms.attributes.static if self._terms.attributes else ()

    def _room(self) -> int:
        """The number of events that may still be added."""
        return (self._terms.slice if self._expired else self._terms.event_limit) - self._events

    def _fits(self, segment: Segment, selection: Sequence[int], first: int, last: int) -> int:
        """The end, in the selection, of the events that fit. Expired events are never mixed with others."""
        living = bisect_right(segment.published_at, self._terms.expired_at)
        expired = selection[first] < living
        if self._slices and expired != self._expired:
            return first
        self._expired = expired
        last = min(last, first + self._room())
        if expired:
            return min(last, bisect_left(selection, living))
        fits = self._fits_bytes(segment, selection, first, last)
        if fits == first and not self._slices:
            self._size += limits.EVENT_BYTES  # the event is larger than a batch should be, and goes alone
            fits = first + 1
        return fits

    def _fits_bytes(self, segment: Segment, selection: Sequence[int], first: int, last: int) -> int:
        """The same for bytes alone; neighbours are found by bisection, others one by one."""
        ends, limit = segment.ends, self._terms.byte_limit
        if isinstance(selection, range):
            start = segment.start(selection[first])
            fits = bisect_right(ends, start + limit - self._size - 1, selection[first], selection[last - 1] + 1)
            fits += first - selection[first]
            if fits > first:
                self._size += ends[selection[fits - 1]] - start + 1
            return fits
        for n in range(first, last):
            size = ends[selection[n]] - segment.start(selection[n]) + 1
            if self._size + size > limit:
                return n
            self._size += size
        return last


class _GroupCutter(_BatchCutter):
    """A batch whose events have the same values in their headers. It leaves others, and looks on behind them.

    Ranges are as few as can be: an event that does not match goes with the event before it, taken or left.
    """

    def __init__(self, place: LogPosition, terms: BatchTerms, header_group: HeaderGroup, range_limit: int) -> None:
        super().__init__(place, terms)
        self._header_group = header_group
        self._range_limit = range_limit
        self._left = 0

    def leap(self, place: LogPosition) -> None:
        if self._start is not None:
            self._end_range(self.place)
            self._begin_range(place)
        self.place = place

    def pass_over(self, place: LogPosition, unmatched: int, judged: bool) -> None:
        if self._start is not None or self._begin_range(self.place):
            super().pass_over(place, unmatched, judged)

    def add(self, segment: Segment, selection: Sequence[int], evaluated: Sequence[int], offset: int, stop: int) -> None:
        first, last = bisect_left(selection, offset), bisect_left(selection, stop)
        living = bisect_right(segment.published_at, self._terms.expired_at)
        if self._expired or (not self._events and first < last and selection[first] < living):
            super().add(segment, selection, evaluated, offset, stop)  # these are not sent: they have no headers
            return
        position, since, chosen, ended = self.place[0], offset, list[int](), stop
        taken = 0  # since then
        for i in selection[first:last]:
            if self._takes(segment, position, i, living):
                if self._start is None:
                    self._start, since, taken = (position, i), i, 0
                chosen.append(i)
                taken += 1
                continue
            if self._start is not None:
                self._count(evaluated, since, i, taken)
                self._end_range((position, i))
            if self.full:
                ended = i
                break
        if self._start is not None:
            self._count(evaluated, since, stop, taken)
        if chosen:
            self._slices.append(SegmentSlice(position, segment, chosen))
        self.full = self.full or self._room() <= 0
        self.place = _place_of(position, ended, segment)

    def _takes(self, segment: Segment, position: int, i: int, living: int) -> bool:
        """Whether an event goes with the batch; if not, the batch may be `full`. Those before `living` are expired."""
        place, header_group = (position, i), self._header_group
        known = header_group.known_to_differ(place)
        if known or i < living or not header_group.alike(place, segment.stored(i)):
            self._left += 1
            self.full = self._left >= limits.LOOK_AHEAD_EVENTS or (known and header_group.hopeless)
            return False
        size = segment.ends[i] - segment.start(i) + 1
        fits = not self._events or (self._room() > 0 and self._size + size <= self._terms.byte_limit)
        if not fits or (self._start is None and len(self._ranges) >= self._range_limit):
            self.full = True
            return False
        self._events += 1
        self._size += size
        return True

    def _begin_range(self, place: LogPosition) -> bool:
        """Begin one more range, if the batch may have it."""
        self.full = len(self._ranges) >= self._range_limit
        self._start = None if self.full else place
        return not self.full

    def _headers(self) -> tuple[Header, ...]:
        return () if self._expired else self._header_group.headers()


def _place_of(position: int, offset: int, segment: Segment) -> LogPosition:
    """A place in a segment; its end is the start of the next position."""
    return (position + 1, 0) if offset == len(segment) else (position, offset)
