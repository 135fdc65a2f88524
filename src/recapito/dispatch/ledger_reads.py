"""The reads of the ledger that lanes want, one after the other. A read that fails is repeated."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from recapito.clock import Clock
from recapito.contracts.ledger import DueDeliveries, Ledger
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.dispatch.lane.lane import Lane
from recapito.dispatch.signals import Signal
from recapito.domain.delivery.delivery import Parked
from recapito.errors import StoreFailed


class LedgerReads:
    """A queue of reads; `signal` is set when there is one, and `run_once` does them all."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.signal = Signal()
        self._ledger = ledger
        self._clock = clock
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()

    def __repr__(self) -> str:
        return f"<LedgerReads, {len(self._waiting)} waiting>"

    def ask_due(self, lane: Lane) -> None:
        """Read the parked deliveries that have come due."""
        self._ask(partial(self._due, lane, lane.due_queue))

    def ask_parked(self, lane: Lane) -> None:
        """Read all that is parked of a deleted subscription."""
        self._ask(partial(self._parked, lane))

    def ask_review(self, lane: Lane) -> None:
        """Read the books of a deleted subscription."""
        self._ask(partial(self._review, lane))

    async def run_once(self) -> None:
        """Do every waiting read.

        A read that the store cannot do goes behind the others and is repeated: a page that SQLite cannot read holds up
        its own lane alone.
        """
        while self._waiting:
            read = self._waiting.popleft()
            try:
                await read()
            except StoreFailed:
                self._waiting.append(read)
                raise

    def _ask(self, read: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(read)
        self.signal.set()

    async def _due(self, lane: Lane, queue: DueQueue) -> None:
        read = lane.due_read(queue, self._clock.now())
        if read is None:
            return
        if read.rush is not None:
            lane.fetched(read, DueDeliveries(await self._ledger.parked(lane.id, read.limit, read.rush.after), None))
            return
        due = await self._ledger.due(lane.id, read.until, read.limit, read.at_least)
        newest = await self._newest(lane)
        if newest is not None:
            others = [row for row in due.parked if row.delivery.identity != newest.delivery.identity]
            due = DueDeliveries([newest, *others], due.next_at)
        lane.fetched(read, due)

    async def _newest(self, lane: Lane) -> Parked | None:
        """The newest event that a lane parked unread and has not tried, if the lane wants one for a probe."""
        while (identity := lane.newest_parked()) is not None:
            waiting = await self._ledger.find(lane.id, identity)
            if isinstance(waiting, Parked) and not waiting.delivery.attempts:
                return waiting
            lane.forget_parked(identity)
        return None

    async def _parked(self, lane: Lane) -> None:
        version = lane.books.row.version
        lane.fetched_parked(await self._ledger.parked(lane.id, lane.books.commit_budget.slice), version)

    async def _review(self, lane: Lane) -> None:
        row = await self._ledger.lane(lane.id)
        if row is not None and row.damaged:
            lane.settle_anew()
        else:
            lane.reviewed(row)
