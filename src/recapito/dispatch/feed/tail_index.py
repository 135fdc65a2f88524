"""An index of the last entries of a topic's log by wake key: a lane passes entries that it cannot match in one step.

A wake key is an event type, a topic of a domain, or a filter (`domain.filters.matcher`): a filter has to be watched,
and is known from then on. The law: an entry that the index does not know is read.
"""

from bisect import bisect_left
from collections.abc import Iterable

from recapito.domain import limits
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import WakeKey

ANY = ""  # the key of an entry that every lane must look at


class TailIndex:
    """Knows the entries from `first` to `end`, `entries` at most."""

    def __init__(self, entries: int = limits.TAIL_ENTRIES) -> None:
        self._entries = entries
        self._watched: dict[Filter, int] = {}  # and from which position on
        self.restart(1)

    def __repr__(self) -> str:
        return f"<TailIndex from {self.first} to {self.end}, {len(self._places)} keys>"

    @property
    def end(self) -> int:
        return self.first + len(self._wake_keys) - 1

    @property
    def watched(self) -> Iterable[Filter]:
        """The filters that are among the keys of added entries."""
        return self._watched

    def watch(self, filter: Filter) -> None:
        """Know a filter from the next entry on."""
        self._watched.setdefault(filter, self.end + 1)

    def unwatch(self, filter: Filter) -> None:
        self._watched.pop(filter, None)

    def restart(self, position: int) -> None:
        """Forget all entries, and go on from this position."""
        self.first = position
        self._wake_keys: list[list[WakeKey]] = []  # by position
        self._passed = [0]  # the number of events before each position
        self._places: dict[WakeKey, list[int]] = {}  # ascending positions
        self._watched = dict.fromkeys(self._watched, position)

    def add(self, wake_keys: list[WakeKey], events: int) -> None:
        """Add the entry at the next position: its keys, and the number of its events."""
        if len(wake_keys) > limits.TAIL_WAKE_KEYS:
            wake_keys = [ANY]
        for wake_key in wake_keys:
            self._places.setdefault(wake_key, []).append(self.end + 1)
        self._wake_keys.append(wake_keys)
        self._passed.append(self._passed[-1] + events)
        if len(self._wake_keys) > self._entries:
            self.forget(self.first + self._entries // 2)

    def forget(self, below: int) -> None:
        count = max(0, min(below, self.end + 1) - self.first)
        gone = self._wake_keys[:count]
        del self._wake_keys[:count], self._passed[:count]
        self.first += count
        for wake_key in {wake_key for wake_keys in gone for wake_key in wake_keys}:
            places = self._places[wake_key]
            del places[: bisect_left(places, self.first)]
            if not places:
                del self._places[wake_key]

    def knows(self, first: int, last: int) -> bool:
        return self.first <= first and last <= self.end

    def wake_keys(self, first: int, last: int) -> dict[WakeKey, None]:
        """The distinct keys at these positions, which must be known, in the order of the log."""
        entries = self._wake_keys[first - self.first : last + 1 - self.first]
        return dict.fromkeys(wake_key for wake_keys in entries for wake_key in wake_keys)

    def search(self, position: int, wake_keys: Iterable[WakeKey], end: int) -> tuple[int, int]:
        """The first position from this one on, up to `end` + 1, that has one of the keys or is not known.

        Also returns the number of events before it.
        """
        if not self.knows(position, position):
            return position, 0
        found = min(end, self.end) + 1
        for wake_key in (ANY, *wake_keys):
            if isinstance(wake_key, Filter) and position < self._watched.get(wake_key, position + 1):
                return position, 0
            places = self._places.get(wake_key)
            if places is not None and places[-1] >= position:
                found = min(found, places[bisect_left(places, position)])
        return found, self._passed[found - self.first] - self._passed[position - self.first]
