"""Taking fresh events from the log: a reader pages through its topic from the lane's cursor on, and cuts loads.

It holds no events itself: what it needs and the cache lacks, it wants loaded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from recapito.dispatch.flight import Load, Piece
from recapito.dispatch.presentation import Presentation
from recapito.dispatch.segments import CachedEntry, Segments
from recapito.domain import limits
from recapito.domain.attribute import Attributes, Header
from recapito.domain.conversion import Convert
from recapito.domain.cursor import Cursor, Place
from recapito.domain.match import compile_filter
from recapito.domain.segment import Segment
from recapito.domain.subscription import Subscription

ENTRIES_PER_TAKE = 256  # so that a filter that matches nothing gives way to other lanes now and then


class Terms(NamedTuple):
    """How a load is cut. Events published up to `expired_at` are past their time to live and are cut separately.

    Sizes are those of the schema that is sent; events with different custom headers are never in one load.
    """

    event_limit: int
    byte_limit: int
    expired_at: int
    convert: Convert | None = None
    attributes: Attributes | None = None
    slice: int = limits.PARKED_SLICE  # of those that are past their time


def all_at_once(slice: int) -> Terms:
    """How loads are cut that nobody sends: so many events, of whatever age."""
    return Terms(slice, limits.WINDOW_BYTES, expired_at=-1)


def terms_at(now: int, subscription: Subscription, presentation: Presentation, slice: int) -> Terms:
    """How the loads of a subscription are cut at this instant."""
    batching, expired_at = subscription.batching, now - subscription.retry_policy.ttl_ns
    convert, attributes = presentation.convert, presentation.attributes
    return Terms(batching.event_limit, batching.byte_limit, expired_at, convert, attributes, slice)


class FreshReader:
    """Reads one topic in order. `wants` is the position to be loaded before `take` can go on."""

    def __init__(self, topic: int, cursor: Cursor, segments: Segments) -> None:
        self._topic = topic
        self._segments = segments
        self._place: Place = cursor.low
        self._gaps = list(cursor.finished)
        self.wants: int | None = None

    @property
    def place(self) -> Place:
        """The first place that has not been taken."""
        return self._place

    def next_position(self, subscription: Subscription, end: int) -> int:
        """The position up to which there is nothing to take, as far as is known without reading; `end` + 1 if all."""
        return self._pass_over(subscription, self._place, end)[0][0]

    def caught_up(self, subscription: Subscription, end: int) -> bool:
        """True when nothing up to position `end` is left to take."""
        return self.next_position(subscription, end) > end

    def take(self, subscription: Subscription, end: int, terms: Terms) -> Load | None:
        """The next load from entries up to position `end`; None when there is nothing, or it must be loaded first.

        One without events only passes what did not match.
        """
        if terms.event_limit == 1 and not self._gaps:
            load = self._take_one(subscription, end, terms)
            if load is not None:
                return load
        self._jump_over_finished()
        cut = _Cut(self._place, terms)
        for _ in range(ENTRIES_PER_TAKE):
            if cut.full or cut.place[0] > end or self._at_gap(cut.place):
                break
            (position, offset), passed = self._pass_over(subscription, cut.place, end)
            if passed or position > cut.place[0]:
                cut.pass_over((position, offset), passed, compile_filter(subscription.filter).judges_all)
                continue
            entry = self._segments.get(self._topic, position)
            if entry is None:
                self.wants = position
                break
            if entry.segment is None:
                cut.place = (position + 1, 0)
                continue
            stop = self._gaps[0][0][1] if self._gaps and self._gaps[0][0][0] == position else len(entry.segment)
            segment = entry.segment if terms.convert is None else self._segments.converted(entry, terms.convert)
            cut.add(segment, *self._select(entry, subscription, position), offset, stop)
        if cut.place == self._place:
            return None
        load = Load(
            cut.pieces,
            (),
            (self._place, cut.place),
            cut.events,
            cut.headers or (),
            unmatched=cut.unmatched,
            expired=cut.expired,
            evaluated=cut.evaluated,
        )
        self._place = cut.place
        self.wants = None
        return load

    def _take_one(self, subscription: Subscription, end: int, terms: Terms) -> Load | None:
        """The common case in few steps: the next event is here, matches and lives. Otherwise None: see `take`."""
        position, offset = self._place
        entry = self._segments.get(self._topic, position) if position <= end else None
        if entry is None or entry.segment is None or entry.segment.only:
            return None
        segment = entry.segment if terms.convert is None else self._segments.converted(entry, terms.convert)
        filter = subscription.filter_at(position)
        taken_all = type(self._segments.select(self._topic, entry, filter)) is range
        if not taken_all or segment.published_at[offset] <= terms.expired_at:
            return None
        after = (position, offset + 1) if offset + 1 < len(segment.ends) else (position + 1, 0)
        headers = terms.attributes.headers(segment.stored(offset)) if terms.attributes else ()
        piece = Piece(position, segment, range(offset, offset + 1))
        evaluated = 1 if filter.conditions else 0
        load = Load((piece,), (), (self._place, after), 1, headers, evaluated=evaluated)
        self._place = after
        return load

    def _select(
        self, entry: CachedEntry, subscription: Subscription, position: int
    ) -> tuple[Sequence[int], Sequence[int]]:
        """What the subscription takes of an entry, and what its conditions looked at for that.

        It takes what passes its filter, or all that was redriven for it alone.
        """
        segment = entry.segment
        if segment is not None and segment.only:
            return range(len(segment)) if segment.only == subscription.id else (), ()
        filter = subscription.filter_at(position)
        return self._segments.select(self._topic, entry, filter), entry.evaluated.get(filter, ())

    def _pass_over(self, subscription: Subscription, place: Place, end: int) -> tuple[Place, int]:
        """The place after entries of which the tail knows that nothing in them matches, and how many events that is."""
        position, offset = place
        tail = self._segments.tails.get(self._topic)
        since = subscription.filters[-1]
        if tail is None or offset or self._gaps or since.position > position or position > end:
            return place, 0
        words = compile_filter(since.filter).words
        if words is None:
            return place, 0
        position, passed = tail.search(position, words, end)
        return (position, 0), passed

    def _jump_over_finished(self) -> None:
        while self._at_gap(self._place):
            self._place = self._gaps.pop(0)[1]

    def _at_gap(self, place: Place) -> bool:
        return bool(self._gaps) and self._gaps[0][0] == place


class _Cut:
    """A load being cut: grows piece by piece until a limit, or the border between expired and living, is met."""

    def __init__(self, place: Place, terms: Terms) -> None:
        self.place = place
        self.pieces: list[Piece] = []
        self.unmatched = 0
        self.evaluated = 0
        self.full = False
        self.expired = False
        self.headers: tuple[Header, ...] | None = None
        self._terms = terms
        self.events = 0
        self._size = 1  # the opening bracket; each event adds itself and a comma or the closing bracket

    def pass_over(self, place: Place, unmatched: int, judged: bool) -> None:
        """Go on from a place: so many events before it do not match, as their words say or as conditions judged."""
        self.place = place
        self.unmatched += unmatched
        self.evaluated += unmatched if judged else 0

    def add(self, segment: Segment, selection: Sequence[int], evaluated: Sequence[int], offset: int, stop: int) -> None:
        """Take what fits of the selected events from `offset` up to `stop`, and pass what was not selected."""
        first, last = bisect_left(selection, offset), bisect_left(selection, stop)
        fits = self._fits(segment, selection, first, last) if first < last else first
        chosen = selection[first:fits]
        after = stop if fits == last else selection[fits]
        if chosen:
            self.pieces.append(Piece(self.place[0], segment, chosen))
            self.events += len(chosen)
        self.full = fits < last or self._room() <= 0
        self.unmatched += after - offset - len(chosen)
        if evaluated:
            self.evaluated += bisect_left(evaluated, after) - bisect_left(evaluated, offset)
        self.place = (self.place[0] + 1, 0) if after == len(segment) else (self.place[0], after)

    def _room(self) -> int:
        """How many more events may come."""
        return (self._terms.slice if self.expired else self._terms.event_limit) - self.events

    def _fits(self, segment: Segment, selection: Sequence[int], first: int, last: int) -> int:
        """The end, in the selection, of what fits. Expired and living events are never mixed."""
        living = bisect_right(segment.published_at, self._terms.expired_at)
        expired = selection[first] < living
        if self.pieces and expired != self.expired:
            return first
        self.expired = expired
        last = min(last, first + self._room())
        if expired:
            return min(last, bisect_left(selection, living))
        fits = self._fits_bytes(segment, selection, first, last)
        if fits == first and not self.pieces:
            self._size += limits.EVENT_BYTES  # it is larger than a batch should be, and goes alone
            fits = first + 1
        if self._terms.attributes is not None:
            fits = self._same_headers(self._terms.attributes, segment, selection, first, fits)
        return fits

    def _same_headers(
        self, attributes: Attributes, segment: Segment, selection: Sequence[int], first: int, last: int
    ) -> int:
        """The end, in the selection, of those that have the headers of the load."""
        for n in range(first, last):
            headers = attributes.headers(segment.stored(selection[n]))
            if self.headers is None:
                self.headers = headers
            elif headers != self.headers:
                return n
        return last

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
