"""Records a lane's attempts in history: one for each request when it ends, and one for deliveries that end without.

It changes nothing and waits for nothing: a request that succeeded costs one value in a list.
"""

from collections.abc import Sequence

from recapito.contracts.history import History
from recapito.contracts.ledger import Burial
from recapito.dispatch.lane.in_flight import InFlight
from recapito.domain.dead_letter.parser import attempts_of
from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome
from recapito.domain.events.segment import id_of
from recapito.domain.history.attempt import Attempt, EventDisposition, LaneLabel

CANCELED = str(Result.CANCELED)  # the reason of drops after a subscription was deleted


class AttemptRecorder:
    """The attempts of one lane; without a history it records nothing."""

    def __init__(self, history: History | None, label: LaneLabel) -> None:
        self._history = history
        self._label = label

    def delivered(self, request: InFlight, outcome: Outcome, now: int) -> None:
        """A request succeeded, in time or late."""
        if self._history is not None:
            ids, positions, offsets, numbers = request.pending.columns()
            self._history.record(
                Attempt(
                    self._label,
                    request.sent_at,
                    now - request.sent_at,
                    Result.SUCCESS,
                    outcome.status,
                    "",
                    request.probe,
                    request.late,
                    ids,
                    positions,
                    offsets,
                    numbers,
                    headers=outcome.headers,
                )
            )

    def failed(self, request: InFlight, outcome: Outcome, now: int, dispositions: Sequence[EventDisposition]) -> None:
        """A request failed; `dispositions` has one for each of its events."""
        if self._history is not None:
            ids, positions, offsets, numbers = request.pending.columns()
            self._history.record(
                Attempt(
                    self._label,
                    request.sent_at,
                    now - request.sent_at,
                    outcome.failure,
                    outcome.status,
                    outcome.detail,
                    request.probe,
                    False,
                    ids,
                    positions,
                    offsets,
                    numbers,
                    dispositions,
                    outcome.headers,
                )
            )

    def canceled(self, request: InFlight, now: int) -> None:
        """A request was aborted because its subscription is deleted."""
        dispositions = [EventDisposition(DispositionKind.DROP, reason=CANCELED)] * request.pending.events
        self.failed(request, Outcome(Result.CANCELED, detail="the subscription was deleted"), now, dispositions)

    def buried(
        self, burials: Sequence[Burial], now: int, ending: NonRequestOutcome, disposition: EventDisposition
    ) -> None:
        """Dead letters were written, or given up."""
        if self._history is not None:
            ids = [id_of(burial.record) for burial in burials]
            numbers = [attempts_of(burial.record) for burial in burials]
            self._record(now, ending, ids, [burial.identity for burial in burials], numbers, disposition)

    def ended(self, deliveries: Sequence[Delivery], now: int, disposition: EventDisposition) -> None:
        """Deliveries ended without a request."""
        if self._history is not None and deliveries:
            ids = [id_of(delivery.body) for delivery in deliveries]
            identities = [delivery.identity for delivery in deliveries]
            self._record(
                now,
                NonRequestOutcome.NOT_SENT,
                ids,
                identities,
                [delivery.attempts for delivery in deliveries],
                disposition,
            )

    def _record(
        self,
        now: int,
        ending: NonRequestOutcome,
        ids: Sequence[str],
        identities: Sequence[DeliveryId],
        numbers: Sequence[int],
        disposition: EventDisposition,
    ) -> None:
        assert self._history is not None
        self._history.record(
            Attempt(
                label=self._label,
                at=now,
                took=0,
                outcome=ending,
                status=None,
                detail="",
                probe=False,
                late=False,
                ids=ids,
                positions=[(1, identity.position) for identity in identities],
                offsets=[identity.offset for identity in identities],
                numbers=numbers,
                dispositions=[disposition] * len(ids),
            )
        )
