"""The tail of a topic's log: which words its last entries hold, so that a lane passes what it does not want at once.

A word is an event type, a topic of a domain, or a filter (`domain.match`): a filter has to be watched, and is known
from then on. The law: what the tail does not know is read.
"""

from bisect import bisect_left
from collections.abc import Iterable

from recapito.domain import limits
from recapito.domain.filters.filter import Filter
from recapito.domain.filters.matcher import Word

ANY = ""  # the word of an entry that everybody must look at


class Tail:
    """Knows the entries from `first` to `end`, at most so many of them."""

    def __init__(self, entries: int = limits.TAIL_ENTRIES) -> None:
        self._entries = entries
        self._watched: dict[Filter, int] = {}  # and from which position on
        self.restart(1)

    def __repr__(self) -> str:
        return f"<Tail from {self.first} to {self.end}, {len(self._places)} words>"

    @property
    def end(self) -> int:
        """The last position that it knows."""
        return self.first + len(self._words) - 1

    @property
    def watched(self) -> Iterable[Filter]:
        """The filters that are among the words of what is added."""
        return self._watched

    def watch(self, filter: Filter) -> None:
        """Know a filter from the next entry on."""
        self._watched.setdefault(filter, self.end + 1)

    def unwatch(self, filter: Filter) -> None:
        """Know a filter no longer."""
        self._watched.pop(filter, None)

    def restart(self, position: int) -> None:
        """Forget all entries, and go on from this position."""
        self.first = position
        self._words: list[list[Word]] = []  # by position
        self._passed = [0]  # how many events lie before each position
        self._places: dict[Word, list[int]] = {}  # word -> positions, ascending
        self._watched = dict.fromkeys(self._watched, position)

    def add(self, words: list[Word], events: int) -> None:
        """Learn the words of the entry at the next position, and how many events it has."""
        if len(words) > limits.TAIL_WORDS:
            words = [ANY]
        for word in words:
            self._places.setdefault(word, []).append(self.end + 1)
        self._words.append(words)
        self._passed.append(self._passed[-1] + events)
        if len(self._words) > self._entries:
            self.forget(self.first + self._entries // 2)

    def forget(self, below: int) -> None:
        """Forget the positions under `below`."""
        count = max(0, min(below, self.end + 1) - self.first)
        gone = self._words[:count]
        del self._words[:count], self._passed[:count]
        self.first += count
        for word in {word for words in gone for word in words}:
            places = self._places[word]
            del places[: bisect_left(places, self.first)]
            if not places:
                del self._places[word]

    def knows(self, first: int, last: int) -> bool:
        """Whether all of these positions are known."""
        return self.first <= first and last <= self.end

    def words(self, first: int, last: int) -> dict[Word, None]:
        """The distinct words at these positions, which are known, in the order in which they lie there."""
        entries = self._words[first - self.first : last + 1 - self.first]
        return dict.fromkeys(word for words in entries for word in words)

    def search(self, position: int, words: Iterable[Word], end: int) -> tuple[int, int]:
        """The first position from this one on, up to `end` + 1, that holds one of the words or is not known.

        And how many events lie before it.
        """
        if not self.knows(position, position):
            return position, 0
        found = min(end, self.end) + 1
        for word in (ANY, *words):
            if isinstance(word, Filter) and position < self._watched.get(word, position + 1):
                return position, 0
            places = self._places.get(word)
            if places is not None and places[-1] >= position:
                found = min(found, places[bisect_left(places, position)])
        return found, self._passed[found - self.first] - self._passed[position - self.first]
