"""Says how dispatch is: made once a second from what the lanes and the slots know anyway."""

from itertools import islice

from recapito.dispatch.context import Equipment
from recapito.dispatch.dispatcher import Dispatcher
from recapito.domain import limits
from recapito.observability.status import BusyLane, Status


class Reporter:
    """Reports about a dispatcher. What is told once is forgotten only when `told`."""

    def __init__(self, dispatcher: Dispatcher, equipment: Equipment) -> None:
        self.gauge = equipment.gauge
        self._dispatcher = dispatcher
        self._equipment = equipment

    def report(self) -> Status:
        """Dispatch as it is now."""
        slots = self._equipment.slots
        lanes = self._dispatcher.lanes
        stopped = {lane.id: lane.stopped for lane in lanes if lane.stopped is not None} | self._dispatcher.left_out
        unmatched = self._equipment.segments.unmatched
        return Status(
            gauge=self.gauge,
            lanes=len(lanes),
            requests=slots.total,
            open=slots.taken,
            open_bytes=slots.taken_bytes,
            late=len(self._equipment.late),
            blocked=sum(lane.account.blocked for lane in lanes),
            busy=[BusyLane(lane.id, lane.window.size, len(lane.flights)) for lane in lanes if len(lane.flights)],
            stopped={
                id: why[: limits.STATUS_REASON_CHARS] for id, why in islice(stopped.items(), limits.STATUS_STOPPED)
            },
            unmatched={topic: unmatched[topic] for topic in list(unmatched)[: limits.STATUS_TOPICS]},
        )

    def told(self, status: Status) -> None:
        """The report is on its way."""
        for topic, events in status.unmatched.items():
            left = self._equipment.segments.unmatched.pop(topic) - events
            if left:
                self._equipment.segments.unmatched[topic] = left
