"""The end of a lane whose subscription is deleted: what is under way is cancelled, all that is left is dropped.

Everything is counted. When the stored books say that nothing is pending any more, the lane has ended.
"""

from recapito.contracts import store
from recapito.dispatch.lane.attempt_recorder import CANCELED, Recorder
from recapito.dispatch.lane.books import Account
from recapito.dispatch.lane.in_flight import Load
from recapito.dispatch.lane.in_flight_set import Flights
from recapito.dispatch.lane.log_reader import FreshReader, all_at_once
from recapito.domain.delivery.delivery import Delivery, Identity, Parked
from recapito.domain.history.attempt import Fate, Then
from recapito.domain.resources.subscription import Subscription

DROPPED = Fate(Then.DROP, reason=CANCELED)


class WindingUp:
    """Winds up what one lane has. `wants_parked` and `wants_review` are what it needs of the ledger to go on."""

    def __init__(self, account: Account, flights: Flights, reader: FreshReader, recorder: Recorder) -> None:
        self._account = account
        self._flights = flights
        self._reader = reader
        self._recorder = recorder
        self.wants_parked = self.wants_review = False

    def step(self, subscription: Subscription, end: int, fetching: bool, now: int) -> None:
        """Drop what is under way and what is unread up to `end`, as much as one commit takes."""
        for flight in self._flights.cut_all():
            self._recorder.canceled(flight, now)
            self._drop(flight.load, flight.settled)
        while not self._account.full:
            load = self._reader.take(subscription, end, all_at_once(self._account.gathering.slice))
            if load is None:
                break
            self._recorder.ended(self._drop(load, set()), now, DROPPED)
        if self._reader.place[0] > (subscription.deleted_position or 0) and self._account.settled:
            self.wants_parked = not fetching and not self.wants_review

    def fetched(self, rows: list[Parked], version: int, now: int) -> None:
        """Parked deliveries came from the ledger, as of a version: they are dropped."""
        if self._account.settled and self._account.row.version == version:  # else they may be settled already
            for row in rows:
                self._account.stage.drop(row.delivery.identity, CANCELED, fresh=False)
            self._recorder.ended([row.delivery for row in rows], now, DROPPED)
            self.wants_review = not rows

    def reviewed(self, row: store.Lane | None) -> bool:
        """The stored books: whether the lane ends."""
        over = row is not None and not row.counts.pending
        if over:
            self._account.stage.ended = True
        return over

    def _drop(self, load: Load, settled: set[Identity]) -> list[Delivery]:
        if load.fresh:
            self._account.pass_over(load)
        deliveries = load.deliveries()
        for delivery in deliveries:
            if delivery.identity not in settled:
                self._account.stage.drop(delivery.identity, CANCELED, load.fresh)
        return deliveries
