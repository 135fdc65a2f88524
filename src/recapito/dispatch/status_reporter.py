"""Says how dispatch is: made once a second from what the lanes and the slots know anyway."""

from itertools import islice

from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dispatcher import Dispatcher
from recapito.domain import limits
from recapito.observability.status import BusyLane, Status


class StatusReporter:
    """Reports about a dispatcher. What is told once is forgotten only when `told`."""

    def __init__(self, dispatcher: Dispatcher, context: DispatchContext) -> None:
        self.gauge = context.gauge
        self._dispatcher = dispatcher
        self._context = context

    def report(self) -> Status:
        """Dispatch as it is now."""
        slots = self._context.slots
        lanes = self._dispatcher.lanes
        stopped = {lane.id: lane.stopped for lane in lanes if lane.stopped is not None} | self._dispatcher.left_out
        unmatched = self._context.segments.unmatched
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
            unmatched={topic: unmatched[topic] for topic in list(unmatched)[: limits.STATUS_TOPICS]},
        )

    def told(self, status: Status) -> None:
        """The report is on its way."""
        for topic, events in status.unmatched.items():
            left = self._context.segments.unmatched.pop(topic) - events
            if left:
                self._context.segments.unmatched[topic] = left
