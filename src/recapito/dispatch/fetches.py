"""What lanes want to read from the ledger, one after the other. What was asked and failed is asked again."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from recapito.clock import Clock
from recapito.dispatch.alarms import Bell
from recapito.dispatch.lane import Lane
from recapito.store import Ledger


class Fetches:
    """A queue of questions; `bell` rings when there is one, and `run_once` asks them all."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.bell = Bell()
        self._ledger = ledger
        self._clock = clock
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()

    def __repr__(self) -> str:
        return f"<Fetches, {len(self._waiting)} waiting>"

    def ask_due(self, lane: Lane) -> None:
        """A lane wants the parked deliveries that have come due."""
        lane.retries.begin_fetch()
        self._ask(partial(self._due, lane))

    def ask_parked(self, lane: Lane) -> None:
        """A lane whose subscription is deleted wants all that is parked."""
        lane.winding_up.wants_parked = False
        self._ask(partial(self._parked, lane))

    def ask_review(self, lane: Lane) -> None:
        """A lane whose subscription is deleted wants to know whether anything is pending."""
        lane.winding_up.wants_review = False
        self._ask(partial(self._review, lane))

    def ask_reload(self, lane: Lane) -> None:
        """A lane must begin again from what is stored."""
        self._ask(partial(self._reload, lane))

    async def run_once(self) -> None:
        """Ask everything that waits; a question leaves the queue when it is answered."""
        while self._waiting:
            await self._waiting[0]()
            self._waiting.popleft()

    def _ask(self, fetch: Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(fetch)
        self.bell.ring()

    async def _due(self, lane: Lane) -> None:
        retries = lane.retries
        busy = lane.busy  # these may be among the rows, and can not be taken
        due = await self._ledger.due(lane.id, self._clock.now(), lane.retrying.slice + busy, busy + 1)
        if lane.retries is retries:
            lane.fetched(due)

    async def _parked(self, lane: Lane) -> None:
        version = lane.account.row.version
        lane.fetched_parked(await self._ledger.parked(lane.id, lane.account.gathering.slice), version)

    async def _review(self, lane: Lane) -> None:
        lane.reviewed(await self._ledger.lane(lane.id))

    async def _reload(self, lane: Lane) -> None:
        row = await self._ledger.lane(lane.id)
        if row is not None:
            lane.reload(row)
