"""Events that may share a request: those whose dynamic headers have the same values.

An event that is compared and left for a later batch is remembered by the hash of its values, so that it is parsed at
most twice, however often batches pass it by.
"""

from collections import Counter

from recapito.domain import limits
from recapito.domain.delivery.attributes import Attributes, Header, Values
from recapito.domain.delivery.cursor import LogPosition


class HeaderGroup:
    """Compares events with the first one of a batch."""

    def __init__(self) -> None:
        self._attributes: Attributes | None = None
        self._values: Values | None = None
        self._hash = 0
        self._left: dict[LogPosition, int] = {}
        self._counts: Counter[int] = Counter()  # of each hash among them

    def __len__(self) -> int:
        return len(self._left)

    def begin(self, attributes: Attributes) -> None:
        """A batch begins: its first event, which is compared next, sets the values.

        More events are remembered than a batch leaves when some went without being compared, as expired ones do.
        """
        if attributes is not self._attributes or len(self._left) > limits.LOOK_AHEAD_EVENTS:
            self._attributes = attributes
            self._left.clear()
            self._counts.clear()
        self._values = None

    def known_to_differ(self, place: LogPosition) -> bool:
        """True when an event need not be compared again: its hash differs from the batch's."""
        return self._values is not None and self._left.get(place, self._hash) != self._hash

    @property
    def hopeless(self) -> bool:
        """True when many of the following events are known, and none of them is alike."""
        return len(self._left) >= limits.LOOK_AHEAD_EVENTS // 2 and not self._counts[self._hash]

    def alike(self, place: LogPosition, stored: bytes) -> bool:
        assert self._attributes is not None
        values = self._attributes.values(stored)
        if self._values is None:
            self._values, self._hash = values, hash(values)
        self._forget(place)
        if values == self._values:
            return True
        self._left[place] = hash(values)
        self._counts[hash(values)] += 1
        return False

    def _forget(self, place: LogPosition) -> None:
        before = self._left.pop(place, None)
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]

    def headers(self) -> tuple[Header, ...]:
        assert self._attributes is not None and self._values is not None
        return self._attributes.headers_of(self._values)
