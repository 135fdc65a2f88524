"""Wrong parts of what Event Grid does not have: limits of subscriptions, and replays."""

import msgspec
from msgspec.structs import replace

from recapito.contracts.log import NewSegment
from recapito.dispatch.capacity import Pace
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.lane.lane import Lane
from recapito.domain.events.segment import REPLAYED, Columns
from recapito.domain.filters.filter import TAKE_ALL
from recapito.domain.resources.subscription import FilterSince, Subscription
from recapito.intake.publish.replayer import Replayed, Replayer
from tests.sim.planted import dispatching


class GreedyPace(Pace):
    """Allows one request more than its limit."""

    def room(self, room: int, open: int) -> int:
        return super().room(room, max(open - 1, 0))


class HastyPace(Pace):
    """Takes a request for one event, however many it has."""

    def sent(self, events: int, now: int) -> None:
        super().sent(1, now)


class WastefulPace(Pace):
    """Spends the rate of each event ten times."""

    def sent(self, events: int, now: int) -> None:
        super().sent(events * 10, now)


def pacing(pace: type[Pace]) -> type[Dispatcher]:
    """A dispatcher whose lanes keep their limits in another way."""

    class PacedLane(Lane):
        def _use(self, subscription: Subscription) -> None:
            if type(self._pace) is not pace:
                self._pace = pace()
            super()._use(subscription)

    return dispatching(PacedLane)


class EagerReplayer(Replayer):
    """Replays what the lane has not passed."""

    async def _passed(self, subscription: Subscription) -> int:
        return await self._log.end(subscription.topic)


class OpenReplayer(Replayer):
    """Replays events that the filter does not take."""

    async def _gather(self, subscription: Subscription, first: int, until: int) -> tuple[Replayed, list[NewSegment]]:
        opened = replace(subscription, filters=(FilterSince(0, TAKE_ALL),))
        return await super()._gather(opened, first, until)


class DriftingReplayer(Replayer):
    """Names the position after the one that an event comes from."""

    async def _append(self, subscription: Subscription, segments: list[NewSegment], result: Replayed) -> None:
        await super()._append(subscription, [_drifted(segment) for segment in segments], result)


def _drifted(segment: NewSegment) -> NewSegment:
    columns = msgspec.msgpack.decode(segment.columns, type=Columns)
    origin = f"{REPLAYED}{int(columns.origin.removeprefix(REPLAYED)) + 1}"
    return segment._replace(columns=msgspec.msgpack.encode(replace(columns, origin=origin)))
