"""The sums of all subscriptions' books: the overview of the whole server.

The sums are made in small slices, and other work runs in between. A request that comes meanwhile gets the same result,
and so does one that comes soon after: sums are made for a tenth of the time at most.
"""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import answer
from recapito.api.auth.management import admit
from recapito.api.docs.documented_route import DocumentedRoute
from recapito.api.operate.lanes import is_failing
from recapito.api.services import Services
from recapito.clock import Clock, SystemClock
from recapito.contracts.ledger import LaneRow
from recapito.domain import limits
from recapito.domain.instant import SECOND, stamp

PATH = "/lanes/totals"
SLICE = 200  # lanes added up without a pause
REST = 10  # times as long as the last sums took, before new ones are made


class LaneSums(msgspec.Struct, rename="camel"):
    """`failing` counts subscriptions that have stopped or fail (`is_failing`).

    `backlog` is the pending deliveries and the unread events of lanes that lag, before their filters.
    """

    subscriptions: int = 0
    failing: int = 0
    matched: int = 0
    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    pending: int = 0
    backlog: int = 0


class LaneTotals:
    def __init__(self, services: Services, wall: Clock | None = None) -> None:
        self._services = services
        self._wall = wall or SystemClock()
        self._summing: asyncio.Task[LaneSums] | None = None
        self._good_until = 0

    def routes(self) -> list[DocumentedRoute]:
        return [DocumentedRoute(PATH, self._show)]

    async def _show(self, request: Request) -> Response:
        await admit(request)
        if self._summing is None or (self._summing.done() and self._wall.now() >= self._good_until):
            self._summing = asyncio.create_task(self._sum())
        totals = await asyncio.shield(self._summing)
        return answer({**msgspec.to_builtins(totals), "now": stamp(self._services.clock.now())})

    async def _sum(self) -> LaneSums:
        services, totals, after, started_at = self._services, LaneSums(), 0, self._wall.now()
        ends = (await services.log.news(0)).ends
        unread: dict[tuple[int, int], int] = {}
        while page := await services.ledger.lanes_after(after, SLICE):
            after = page[-1].id
            for lane in page:
                if not lane.ended:
                    _add(totals, lane, services.dispatch.stopped(lane.id) is not None)
                    await self._add_unread(totals, lane, ends.get(lane.topic, 0), unread)
            await asyncio.sleep(0)
        now = self._wall.now()
        self._good_until = now + max(SECOND, REST * (now - started_at))
        return totals

    async def _add_unread(self, totals: LaneSums, lane: LaneRow, end: int, unread: dict[tuple[int, int], int]) -> None:
        """Lanes of a topic mostly lag together, so a count of events serves many; the number of counts is bounded."""
        place = lane.topic, lane.cursor.low[0]
        if lane.damaged or place[1] > end:
            return
        if place not in unread:
            count = len(unread) < limits.COUNTED_LAGS
            unread[place] = await self._services.log.events(*place, end + 1) if count else end - place[1] + 1
        totals.backlog += unread[place]


def _add(totals: LaneSums, lane: LaneRow, stopped: bool) -> None:
    counts = lane.counts
    totals.subscriptions += 1
    totals.failing += stopped or is_failing(lane)
    totals.matched += counts.matched
    totals.delivered += counts.delivered
    totals.failed += sum(lane.attempts.failed.values())
    totals.dead_lettered += counts.dead_lettered
    totals.dropped += sum(counts.dropped.values())
    totals.pending += counts.pending
    totals.backlog += counts.pending
