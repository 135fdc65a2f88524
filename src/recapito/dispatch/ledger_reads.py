"""What lanes want to read from the ledger, one after the other. What was asked and failed is asked again."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from recapito.clock import Clock
from recapito.contracts.ledger import Due, LaneRow, Ledger
from recapito.dispatch.lane.due_queue import DueQueue
from recapito.dispatch.lane.lane import Lane
from recapito.dispatch.signals import Signal
from recapito.domain.delivery.delivery import Parked
from recapito.domain.resources.subscription import Subscription
from recapito.errors import StoreFailed


class LedgerReads:
    """A queue of questions; `bell` rings when there is one, and `run_once` asks them all.

    `renew` begins a lane's row anew that turns out to be damaged.
    """

    def __init__(self, ledger: Ledger, clock: Clock, renew: Callable[[Subscription], Awaitable[LaneRow]]) -> None:
        self._renew = renew
        self.signal = Signal()
        self._ledger = ledger
        self._clock = clock
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()

    def __repr__(self) -> str:
        return f"<Fetches, {len(self._waiting)} waiting>"

    def ask_due(self, lane: Lane) -> None:
        """A lane wants the parked deliveries that have come due."""
        lane.due_queue.begin_fetch()
        self._ask(partial(self._due, lane, lane.due_queue))

    def ask_parked(self, lane: Lane) -> None:
        """A lane whose subscription is deleted wants all that is parked."""
        lane.cancellation.wants_parked = False
        self._ask(partial(self._parked, lane))

    def ask_review(self, lane: Lane) -> None:
        """A lane whose subscription is deleted wants to know whether anything is pending."""
        lane.cancellation.wants_review = False
        self._ask(partial(self._review, lane))

    async def run_once(self) -> None:
        """Ask everything that waits.

        A question that the store cannot answer goes behind the others and is asked again: a page that SQLite cannot
        read holds up its own lane alone.
        """
        while self._waiting:
            fetch = self._waiting.popleft()
            try:
                await fetch()
            except StoreFailed:
                self._waiting.append(fetch)
                raise

    def _ask(self, fetch: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(fetch)
        self.signal.ring()

    async def _due(self, lane: Lane, due_queue: DueQueue) -> None:
        """A lane that began again meanwhile does not want the answer to what it asked before."""
        if lane.due_queue is not due_queue:
            return
        busy = lane.busy  # these may be among the rows, and cannot be taken
        until = lane.due_until(self._clock.now())
        due = await self._ledger.due(lane.id, until, lane.retry_budget.slice + busy, busy + 1)
        newest = await self._newest(lane)
        if newest is not None:
            others = [row for row in due.parked if row.delivery.identity != newest.delivery.identity]
            due = Due([newest, *others], due.next_at)
        if lane.due_queue is due_queue:
            lane.fetched(due)

    async def _newest(self, lane: Lane) -> Parked | None:
        """The newest event that a lane parked unread and has not tried, if the lane wants one for a probe."""
        while (identity := lane.newest_parked()) is not None:
            found = await self._ledger.find(lane.id, identity)
            if isinstance(found, Parked) and not found.delivery.attempts:
                return found
            lane.forget_parked(identity)
        return None

    async def _parked(self, lane: Lane) -> None:
        version = lane.books.row.version
        lane.fetched_parked(await self._ledger.parked(lane.id, lane.books.commit_budget.slice), version)

    async def _review(self, lane: Lane) -> None:
        row = await self._ledger.lane(lane.id)
        if row is not None and row.damaged:
            lane.reload(await self._renew(lane.subscription))
        else:
            lane.reviewed(row)
