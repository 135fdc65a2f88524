"""The end of a lane whose subscription is deleted: what is under way is cancelled, all that is left is dropped.

Everything is counted. When the stored books say that nothing is pending any more, the lane has ended.
"""

from recapito.contracts.ledger import LaneRow
from recapito.dispatch.lane.attempt_recorder import CANCELED, AttemptRecorder
from recapito.dispatch.lane.books import LaneBooks
from recapito.dispatch.lane.in_flight import PendingBatch
from recapito.dispatch.lane.in_flight_set import InFlightSet
from recapito.dispatch.lane.log_reader import LogReader, unlimited_terms
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.history.attempt import Fate, Then
from recapito.domain.resources.subscription import Subscription

DROPPED = Fate(Then.DROP, reason=CANCELED)


class Cancellation:
    """Winds up what one lane has. `wants_parked` and `wants_review` are what it needs of the ledger to go on."""

    def __init__(self, books: LaneBooks, in_flight: InFlightSet, reader: LogReader, recorder: AttemptRecorder) -> None:
        self._books = books
        self._in_flight = in_flight
        self._reader = reader
        self._recorder = recorder
        self.wants_parked = self.wants_review = False

    def step(self, subscription: Subscription, end: int, fetching: bool, now: int) -> None:
        """Drop what is under way and what is unread up to `end`, as much as one commit takes."""
        for request in self._in_flight.cut_all():
            self._recorder.canceled(request, now)
            self._drop(request.pending, request.settled)
        while not self._books.full:
            pending = self._reader.take(subscription, end, unlimited_terms(self._books.commit_budget.slice))
            if pending is None:
                break
            self._recorder.ended(self._drop(pending, set()), now, DROPPED)
        if self._reader.place[0] > (subscription.deleted_position or 0) and self._books.settled:
            self.wants_parked = not fetching and not self.wants_review

    def fetched(self, rows: list[Parked], version: int, now: int) -> None:
        """Parked deliveries came from the ledger, as of a version: they are dropped."""
        if self._books.settled and self._books.row.version == version:  # else they may be settled already
            for row in rows:
                self._books.staged.drop(row.delivery.identity, CANCELED, fresh=False)
            self._recorder.ended([row.delivery for row in rows], now, DROPPED)
            self.wants_review = not rows

    def reviewed(self, row: LaneRow | None) -> bool:
        """The stored books: whether the lane ends."""
        over = row is not None and not row.counts.pending
        if over:
            self._books.staged.ended = True
        return over

    def _drop(self, pending: PendingBatch, settled: set[DeliveryId]) -> list[Delivery]:
        if pending.fresh:
            self._books.pass_over(pending)
        deliveries = pending.deliveries()
        for delivery in deliveries:
            if delivery.identity not in settled:
                self._books.staged.drop(delivery.identity, CANCELED, pending.fresh)
        return deliveries
