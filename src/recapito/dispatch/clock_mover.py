"""Moving a manual clock: it stops at every instant at which something is due, lets it happen and settle, and goes on.

While a request is open, the mover waits for the answer up to `patience` of wall time before it moves on: an endpoint
that hangs times out when the clock passes 30 seconds, not when the wall does. The mover does not wait for an endpoint
that sleeps by this very clock.
"""

import asyncio
from collections.abc import Callable, Sized
from typing import NamedTuple

from recapito.clock import Clock, ManualClock
from recapito.contracts.ledger import LaneCounts, Ledger
from recapito.dispatch.lane.lane import Lane
from recapito.dispatch.service import DispatchService
from recapito.domain.instant import DAY, MILLISECOND, SECOND
from recapito.errors import StoreFailed

LONGEST_NS = 30 * DAY
LOOK_AGAIN_NS = MILLISECOND // 2


class Books(NamedTuple):
    """The counts of the lanes, the requests sent, and the deliveries not counted yet: unread, or on the wire."""

    attempts: int
    lanes: dict[int, LaneCounts]
    fresh: int

    def since(self, before: "Books") -> dict[str, object]:
        """The difference to earlier books. A lane that has ended since is not in the books any more."""
        pairs = [(now, before.lanes.get(id, LaneCounts())) for id, now in self.lanes.items()]
        return {
            "attempts": self.attempts - before.attempts,
            "delivered": sum(now.delivered - then.delivered for now, then in pairs),
            "deadLettered": sum(now.dead_lettered - then.dead_lettered for now, then in pairs),
            "dropped": sum(sum(now.dropped.values()) - sum(then.dropped.values()) for now, then in pairs),
            "pending": sum(now.pending for now in self.lanes.values()) + self.fresh,
        }


class ClockMover:
    """Moves the clock of a server that runs in one process, one move at a time. `late`: requests answered late."""

    def __init__(
        self,
        clock: ManualClock,
        wall: Clock,
        service: DispatchService,
        ledger: Ledger,
        patience: int = SECOND,
        late: Sized = (),
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._service = service
        self._dispatcher = service.dispatcher
        self._ledger = ledger
        self._patience = patience
        self._late = late
        self._moving = asyncio.Lock()
        self._others: list[Callable[[], bool]] = []
        self._asleep = 0
        self._woken = False

    def wait_for(self, quiet: Callable[[], bool]) -> None:
        """Wait for another part too: `quiet` returns True when it has nothing to do at this instant."""
        self._others.append(quiet)

    def now(self) -> int:
        return self._clock.now()

    async def advance(self, seconds: float) -> dict[str, object]:
        """Move the clock and return what happened. Zero seconds settles what is due now."""
        return await self._move(min(int(seconds * SECOND), LONGEST_NS), until_idle=False)

    async def until_idle(self) -> dict[str, object]:
        """Move from due time to due time until nothing is pending, 30 days at most, and return what happened."""
        return await self._move(LONGEST_NS, until_idle=True)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has moved that far: an endpoint under test waits so, to answer at an instant."""
        self._asleep += 1
        try:
            await self._clock.sleep_until(self._clock.now() + int(seconds * SECOND))
            self._woken = True
        finally:
            self._asleep -= 1

    async def _move(self, duration: int, until_idle: bool) -> dict[str, object]:
        async with self._moving:
            before = await self._books()
            target = self._clock.now() + duration
            await self._settle()
            while not (until_idle and not await self._dispatcher.pending()):
                instant = self._clock.next_instant()
                if instant is None or instant > target:
                    break
                await self._move_to(instant)
            if not until_idle and self._clock.now() < target:
                await self._move_to(target)
            happened = (await self._books()).since(before)
            return {**happened, "idle": not await self._dispatcher.pending()}

    async def _move_to(self, instant: int) -> None:
        self._woken = False
        self._clock.move_to(instant)
        await self._settle()

    async def _settle(self) -> None:
        """Wait until nothing happens any more at this instant, and no endpoint may still answer.

        Patience begins anew with each request that is sent or answered.
        """
        seen, patient_until = self._requests(), self._wall.now() + self._patience
        while True:
            await self._wall.sleep_until(self._wall.now() + LOOK_AGAIN_NS)
            if (requests := self._requests()) != seen:
                seen, patient_until = requests, self._wall.now() + self._patience
            quiet = self._service.quiet() and all(quiet() for quiet in self._others)
            if quiet and (not self._awaited() or self._wall.now() >= patient_until):
                return

    def _requests(self) -> tuple[int, int, int]:
        """The numbers of requests sent, open, and still listened to."""
        return self._dispatcher.attempts, self._dispatcher.under_way, len(self._late)

    def _awaited(self) -> bool:
        """Whether an answer may still come at this instant: from an endpoint that just woke, not one that sleeps."""
        under_way = self._dispatcher.under_way
        return (under_way > 0 or self._woken) and under_way + len(self._late) > self._asleep

    async def _books(self) -> Books:
        lanes = {lane.id: lane.counts for lane in await self._ledger.lanes()}
        return Books(self._dispatcher.attempts, lanes, sum([await _fresh(lane) for lane in self._dispatcher.lanes]))


async def _fresh(lane: Lane) -> int:
    """The number of deliveries of a lane that are unread, or under way for the first time."""
    on_wire = sum(request.pending.events for request in lane.in_flight if request.pending.fresh)
    if lane.books.row.ended or lane.reader.caught_up(lane.subscription, lane.end):
        return on_wire
    try:
        return on_wire + await lane.reader.count_unread(lane.subscription, lane.end)
    except (StoreFailed, LookupError):  # the lane meets the error itself, and stops
        return on_wire
