"""The parked deliveries of one lane that have come due: fetched from the ledger in slices, never all at once.

A fetch may be overtaken by a settlement of the lane. What was settled while a fetch was under way is left out of its
answer, so that no delivery is ever taken from an old row.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from recapito.dispatch.presentation import Presentation
from recapito.domain.attribute import Header
from recapito.domain.batch import fill
from recapito.domain.delivery import Identity, Parked
from recapito.store import Due


class Retries:
    """A slice of due deliveries, and when the next ones come due."""

    def __init__(self, next_at: int | None) -> None:
        self.next_at = next_at
        self.fetching = False
        self.size = 0  # the bytes of the events that are here
        self._queue: deque[Parked] = deque()
        self._settled_meanwhile: set[Identity] = set()
        self._parked_meanwhile: int | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_work(self) -> bool:
        """True when something is parked."""
        return self.next_at is not None or self.fetching or bool(self._queue)

    @property
    def next_fetch_at(self) -> int | None:
        """When the ledger is to be asked again; None while something is here, or asked for."""
        return None if self.fetching or self._queue else self.next_at

    def wants_fetch(self, now: int) -> bool:
        """True when nothing is here and the ledger has something due."""
        return not self.fetching and not self._queue and self.next_at is not None and self.next_at <= now

    def begin_fetch(self) -> None:
        """A fetch starts."""
        self.fetching = True
        self._settled_meanwhile.clear()
        self._parked_meanwhile = None

    def end_fetch(self, due: Due, busy: set[Identity]) -> list[Parked]:
        """A fetch is answered: what of it may be taken now. `busy` are deliveries on the wire or not yet settled."""
        self.fetching = False
        self.next_at = _earlier(due.next_at, self._parked_meanwhile)
        out = busy | self._settled_meanwhile | {parked.delivery.identity for parked in self._queue}
        return [parked for parked in due.parked if parked.delivery.identity not in out]

    def queue(self, parked: Iterable[Parked]) -> None:
        """Keep these for the next batches."""
        self._queue.extend(parked)
        self.size = sum(len(row.delivery.body) for row in self._queue)

    def let_go(self) -> None:
        """Keep nothing: it is not to be tried soon, and the ledger has it."""
        if self._queue:
            self.next_at = _earlier(self.next_at, self._queue[0].due_at)
            self._queue.clear()
            self.size = 0

    def settled(self, identities: Iterable[Identity], parked: Iterable[Parked]) -> None:
        """A settlement of the lane is stored: these rows changed, and these are parked now."""
        earliest = min((row.due_at for row in parked), default=None)
        self.next_at = _earlier(self.next_at, earliest)
        if self.fetching:
            self._settled_meanwhile.update(identities)
            self._parked_meanwhile = _earlier(self._parked_meanwhile, earliest)

    def take(
        self, event_limit: int, byte_limit: int, presentation: Presentation
    ) -> tuple[list[Parked], tuple[Header, ...]]:
        """The next batch, measured as it will be sent, and the custom headers that its events have in common."""
        headers: list[tuple[Header, ...]] = []
        count = fill(self._sizes(presentation, headers), event_limit, byte_limit)
        taken = [self._queue.popleft() for _ in range(count)]
        self.size -= sum(len(row.delivery.body) for row in taken)
        return taken, headers[0] if headers else ()

    def _sizes(self, presentation: Presentation, headers: list[tuple[Header, ...]]) -> Iterator[int]:
        """The sizes of what is queued, as far as the headers are the same."""
        for parked in self._queue:
            if presentation.attributes is not None:
                headers.append(presentation.attributes.headers(parked.delivery.body))
                if headers[-1] != headers[0]:
                    return
            yield len(presentation.body(parked.delivery.body))

    def discard(self, identity: Identity) -> None:
        """A late answer delivered it: it needs no further attempt."""
        kept = [parked for parked in self._queue if parked.delivery.identity != identity]
        self._queue.clear()
        self.queue(kept)


def _earlier(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)
