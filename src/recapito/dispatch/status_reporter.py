"""Reports the state of dispatch once a second, from numbers that the lanes and the slots have anyway."""

from itertools import islice

from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dispatcher import Dispatcher
from recapito.domain import limits
from recapito.observability.status import BusyLane, Status


class StatusReporter:
    """`unmatched` of a status is a delta: it is counted anew only after `sent`."""

    def __init__(self, dispatcher: Dispatcher, context: DispatchContext) -> None:
        self.gauge = context.gauge
        self._dispatcher = dispatcher
        self._context = context

    def report(self) -> Status:
        slots = self._context.slots
        lanes = self._dispatcher.lanes
        refused = {lane.id: lane.subscription.name for lane in lanes if lane.refused}
        stopped = {lane.id: lane.stopped for lane in lanes if lane.stopped is not None} | self._dispatcher.left_out
        return Status(
            gauge=self.gauge,
            lanes=len(lanes),
            requests=slots.total,
            open=slots.taken,
            open_bytes=slots.taken_bytes,
            late=len(self._context.late),
            blocked=sum(lane.books.blocked for lane in lanes),
            busy=[BusyLane(lane.id, lane.window.size, len(lane.in_flight)) for lane in lanes if len(lane.in_flight)],
            stopped={
                id: why[: limits.STATUS_REASON_CHARS] for id, why in islice(stopped.items(), limits.STATUS_STOPPED)
            },
            refused=dict(islice(refused.items(), limits.STATUS_STOPPED)),
            unmatched=dict(islice(self._dispatcher.unmatched().items(), limits.STATUS_TOPICS)),
        )

    def sent(self, status: Status) -> None:
        """The status is on its way to intake."""
        self._dispatcher.forget_unmatched(status.unmatched)
