"""The end of a lane whose subscription is deleted: it cancels the requests under way and drops all that is left.

Every delivery is counted. When the stored books have nothing pending any more, the lane has ended.
"""

from recapito.contracts.ledger import LaneRow
from recapito.dispatch.lane.attempt_recorder import CANCELED, AttemptRecorder
from recapito.dispatch.lane.in_flight import InFlightSet, PendingBatch
from recapito.dispatch.lane.log_reader import LogReader, unlimited_terms
from recapito.dispatch.lane.settlement import LaneBooks
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.vocabulary import DispositionKind
from recapito.domain.history.attempt import EventDisposition
from recapito.domain.resources.subscription import Subscription

DROPPED = EventDisposition(DispositionKind.DROP, reason=CANCELED)


class Cancellation:
    """Cancels what one lane has pending, as much at a time as one commit takes."""

    def __init__(self, books: LaneBooks, in_flight: InFlightSet, reader: LogReader, recorder: AttemptRecorder) -> None:
        self._books = books
        self._in_flight = in_flight
        self._reader = reader
        self._recorder = recorder
        self._wants_parked = self._wants_review = False

    def take_wants(self) -> tuple[bool, bool]:
        """Whether to read the parked deliveries, and whether to review the stored books; each want is taken once."""
        wants = self._wants_parked, self._wants_review
        self._wants_parked = self._wants_review = False
        return wants

    def step(self, subscription: Subscription, end: int, fetching: bool, now: int) -> None:
        """Drop the requests under way and the unread events up to `end`, as many as one commit takes."""
        for request in self._in_flight.cut_all():
            self._recorder.canceled(request, now)
            self._drop(request.pending, request.settled)
        while not self._books.full:
            pending = self._reader.take(subscription, end, unlimited_terms(self._books.commit_budget.slice))
            if pending is None:
                break
            self._recorder.ended(self._drop(pending, set()), now, DROPPED)
        if self._reader.place[0] > (subscription.deleted_position or 0) and self._books.settled:
            self._wants_parked = not fetching and not self._wants_review

    def fetched(self, rows: list[Parked], version: int, now: int) -> None:
        """Drop parked deliveries, read as of a version of the row."""
        if self._books.settled and self._books.row.version == version:  # else they may be settled already
            for row in rows:
                self._books.staged.drop(row.delivery.identity, CANCELED, fresh=False)
            self._recorder.ended([row.delivery for row in rows], now, DROPPED)
            self._wants_review = not rows

    def reviewed(self, row: LaneRow | None) -> bool:
        """Whether the lane ends: its stored books have nothing pending."""
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
