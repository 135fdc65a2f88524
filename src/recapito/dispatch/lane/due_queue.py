"""The parked deliveries of one lane that have come due: fetched from the ledger in slices, never all at once.

A settlement of the lane may overtake a fetch. Rows that were settled while a fetch was under way are left out of its
result, so that no delivery is ever taken from an old row.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from recapito.contracts.ledger import DueDeliveries
from recapito.dispatch.lane.delivery_format import DeliveryFormat
from recapito.dispatch.lane.header_groups import HeaderGroup
from recapito.domain import limits
from recapito.domain.delivery.attributes import Attributes, Header
from recapito.domain.delivery.batch import Company, by_attempts, fill
from recapito.domain.delivery.delivery import DeliveryId, Parked


class DueQueue:
    """A slice of due deliveries, and the instant at which the next ones come due."""

    def __init__(self, next_at: int | None) -> None:
        self.next_at = next_at
        self.fetching = False
        self.size = 0  # the bytes of the queued events
        self._queue: deque[Parked] = deque()
        self._header_group = HeaderGroup()
        self._settled_meanwhile: set[DeliveryId] = set()
        self._parked_meanwhile: int | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_work(self) -> bool:
        return self.next_at is not None or self.fetching or bool(self._queue)

    @property
    def next_fetch_at(self) -> int | None:
        """When to fetch again; None while a delivery is queued or a fetch is under way."""
        return None if self.fetching or self._queue else self.next_at

    def wants_fetch(self, now: int) -> bool:
        """True when nothing is queued and the ledger has deliveries that are due."""
        return not self.fetching and not self._queue and self.next_at is not None and self.next_at <= now

    @property
    def idle(self) -> bool:
        """True when nothing is queued and no fetch is under way."""
        return not self.fetching and not self._queue

    def begin_fetch(self) -> None:
        self.fetching = True
        self._settled_meanwhile.clear()
        self._parked_meanwhile = None

    def end_fetch(self, due: DueDeliveries, busy: set[DeliveryId]) -> list[Parked]:
        """The fetched rows that may be taken now. `busy` are deliveries on the wire or not yet settled."""
        self.fetching = False
        self.next_at = _earlier(due.next_at, self._parked_meanwhile)
        out = busy | self._settled_meanwhile | {parked.delivery.identity for parked in self._queue}
        return [parked for parked in due.parked if parked.delivery.identity not in out]

    def queue(self, parked: Iterable[Parked]) -> None:
        self._queue.extend(parked)
        self.size = sum(len(row.delivery.body) for row in self._queue)

    def let_go(self) -> None:
        """Empty the queue: its deliveries are not to be tried soon, and the ledger has them."""
        if self._queue:
            self.next_at = _earlier(self.next_at, min(row.due_at for row in self._queue))
            self._queue.clear()
            self.size = 0

    def remove(self, gone: Callable[[Parked], bool]) -> list[Parked]:
        """Take the rows out of the queue for which `gone` is true."""
        removed = [row for row in self._queue if gone(row)]
        if removed:
            kept = [row for row in self._queue if not gone(row)]
            self._queue.clear()
            self.queue(kept)
        return removed

    def settled(self, identities: Iterable[DeliveryId], parked: Iterable[Parked]) -> None:
        """A settlement is stored: the rows of `identities` changed, and `parked` are parked now."""
        earliest = min((row.due_at for row in parked), default=None)
        self.next_at = _earlier(self.next_at, earliest)
        if self.fetching:
            self._settled_meanwhile.update(identities)
            self._parked_meanwhile = _earlier(self._parked_meanwhile, earliest)

    def take(
        self, event_limit: int, byte_limit: int, delivery_format: DeliveryFormat, company: Company = by_attempts
    ) -> tuple[list[Parked], tuple[Header, ...]]:
        """The next batch, measured as it will be sent, and the custom headers that its events have in common.

        It has the row that is due first, and of the others those with the same headers that may have as much company.
        """
        attributes = delivery_format.attributes
        event_limit = min(company(self._queue[0].delivery), event_limit) if self._queue else event_limit
        if attributes is not None and attributes.dynamic:
            return self._take_alike(attributes, event_limit, byte_limit, delivery_format, company)
        count = fill(self._sizes(delivery_format, company), event_limit, byte_limit)
        taken = [self._queue.popleft() for _ in range(count)]
        self.size -= sum(len(row.delivery.body) for row in taken)
        return taken, attributes.static if attributes else ()

    def _sizes(self, delivery_format: DeliveryFormat, company: Company) -> Iterator[int]:
        """The sizes of the queued events, up to one that may have less company, or more."""
        most: int | None = None
        for row in self._queue:
            allowed = company(row.delivery)
            if most is not None and allowed != most:
                return
            most = allowed
            yield len(delivery_format.body(row.delivery.body))

    def _take_alike(
        self,
        attributes: Attributes,
        event_limit: int,
        byte_limit: int,
        delivery_format: DeliveryFormat,
        company: Company,
    ) -> tuple[list[Parked], tuple[Header, ...]]:
        self._header_group.begin(attributes)
        alike = list[Parked]()
        count = fill(self._sizes_alike(alike, delivery_format, company), event_limit, byte_limit)
        taken = alike[:count]
        if count == 1:
            self._queue.popleft()
        else:
            gone = {row.delivery.identity for row in taken}
            self._queue = deque([row for row in self._queue if row.delivery.identity not in gone])
        self.size -= sum(len(row.delivery.body) for row in taken)
        return taken, self._header_group.headers()

    def _sizes_alike(self, alike: list[Parked], delivery_format: DeliveryFormat, company: Company) -> Iterator[int]:
        """The sizes of the events with the headers of the first; their rows are added to `alike`."""
        for row in islice(self._queue, limits.LOOK_AHEAD_EVENTS):
            if alike and company(row.delivery) != company(alike[0].delivery):
                continue
            identity, body = row.delivery.identity, row.delivery.body
            if self._header_group.known_to_differ(identity):
                if self._header_group.hopeless:
                    return
            elif self._header_group.alike(identity, body):
                alike.append(row)
                yield len(delivery_format.body(body))

    def discard(self, identity: DeliveryId) -> None:
        """A late answer delivered it: no further attempt is needed."""
        self.remove(lambda row: row.delivery.identity == identity)


def _earlier(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)
