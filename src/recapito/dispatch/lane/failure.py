"""Failed deliveries: `decide` chooses whether each is parked, buried or dropped, and the settlement is staged so."""

from recapito.contracts.ledger import Burial
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.dispatch.lane.in_flight import InFlight, PendingBatch, id_origin, output_id
from recapito.dispatch.lane.settlement import SettlementBuilder
from recapito.domain import limits
from recapito.domain.dead_letter.record import record
from recapito.domain.delivery.delivery import TTL_EXCEEDED, Dead, Delivery, Done, Parked, RetryAt, attempted, decide
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.outcome import Outcome
from recapito.domain.delivery.vocabulary import DispositionKind
from recapito.domain.events.schema import InputSchema
from recapito.domain.history.attempt import DELIVERED, EventDisposition
from recapito.domain.instant import MILLISECOND, SECOND
from recapito.domain.observability.diagnostic import delivery_failure
from recapito.domain.profiles.profile import Profile
from recapito.domain.resources.subscription import Subscription
from recapito.observability.diagnostics import DiagnosticLog


class FailureHandler:
    """Parks, buries or drops, by the subscription and the profile of now. `fresh`: the ledger has no row of it yet.

    `resource_id` is the topic's, for diagnostic records; `published` the schema that its events are stored in.
    """

    def __init__(
        self,
        subscription: Subscription,
        resource_id: str,
        published: InputSchema,
        profile: Profile,
        context: DispatchContext,
        staged: SettlementBuilder,
        recorder: AttemptRecorder,
    ) -> None:
        self._subscription = subscription
        self._resource_id = resource_id
        self._published = published
        self._profile = profile
        self._context = context
        self._staged = staged
        self._recorder = recorder

    def failed(self, request: InFlight, outcome: Outcome, now: int, before: Hold, after: Hold) -> None:
        """A request failed, and with it every delivery that it carried, but for those that a late answer settled.

        One draw of chance serves all of them: deliveries that failed together are due together, and share a request.
        """
        self._journal_failure(request, outcome, now, before, after)
        self._staged.failed(outcome.failure, request.pending.events)
        batch, counts = request.pending, not self._profile.is_pressure(outcome)
        deliveries = batch.deliveries()
        if self._context.diagnostics is not None:
            self._diagnose(self._context.diagnostics, deliveries, request.sent_at, outcome, now, after)
        chance = self._context.random()
        dispositions = [
            DELIVERED
            if delivery.identity in request.settled
            else self._retry(attempted(delivery, outcome, request.sent_at, counts), outcome, now, chance, batch)
            for delivery in deliveries
        ]
        self._recorder.failed(request, outcome, now, dispositions)

    def expired(self, delivery: Delivery, now: int, fresh: bool) -> None:
        """The delivery's time to live has passed before its next attempt."""
        self._recorder.ended([delivery], now, self._give_up(delivery, TTL_EXCEEDED, now, fresh))

    def _retry(
        self, delivery: Delivery, outcome: Outcome, now: int, chance: float, pending: PendingBatch
    ) -> EventDisposition:
        disposition = decide(
            self._profile,
            self._subscription.destination.endpoint_kind,
            self._subscription.retry_policy,
            self._subscription.dead_letter is not None,
            delivery,
            outcome,
            now,
            chance,
            pending.events,
        )
        match disposition:
            case RetryAt(due_at, rule):
                self._staged.park(Parked(due_at, delivery), pending.fresh)
                return EventDisposition(DispositionKind.RETRY, due_at, rule)
            case Dead(reason):
                return self._give_up(delivery, reason, now, pending.fresh)
            case Done():
                raise AssertionError("a failed attempt cannot be done")

    def _give_up(self, delivery: Delivery, reason: str, now: int, fresh: bool) -> EventDisposition:
        destination = self._subscription.dead_letter
        self._context.journal(
            "delivery.given_up",
            subscription=self._subscription.name,
            position=delivery.identity.position,
            offset=delivery.identity.offset,
            reason=reason,
            attempts=delivery.attempts,
            dead_letter=destination is not None,
        )
        if destination is None:
            self._staged.drop(delivery.identity, reason, fresh)
            return EventDisposition(DispositionKind.DROP, reason=reason)
        last = delivery.last_attempt_at
        write_at = now if last is None else max(now, last + self._profile.dead_letter.delay_s * SECOND)
        letter = record(
            delivery, reason, self._published, self._subscription.delivery_schema, self._context.extra_fields
        )
        self._staged.bury(Burial(delivery.identity, write_at, destination.container, letter), fresh)
        return EventDisposition(DispositionKind.DEAD_LETTER, write_at, reason=reason)

    def _diagnose(
        self, log: DiagnosticLog, deliveries: list[Delivery], sent_at: int, outcome: Outcome, now: int, hold: Hold
    ) -> None:
        subscription = self._subscription
        origin = id_origin(self._context.log_id, subscription.topic)
        for delivery in deliveries[: limits.DIAGNOSED_EVENTS]:
            system_id = output_id(origin, *delivery.identity)
            log.write(
                delivery_failure(self._resource_id, subscription, delivery, system_id, outcome, sent_at, now, hold)
            )

    def _journal_failure(self, request: InFlight, outcome: Outcome, now: int, before: Hold, after: Hold) -> None:
        self._context.journal(
            "delivery.failed",
            subscription=self._subscription.name,
            events=request.pending.events,
            outcome=outcome.failure,
            status=outcome.status,
            took_ms=(now - request.sent_at) // MILLISECOND,
            failures=after.failures,
            held_s=after.period // SECOND if after.until != before.until else None,
            detail=outcome.detail,
        )
