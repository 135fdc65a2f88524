"""The ends of deliveries are recorded, if there is a history to record them in."""

import asyncio

from recapito.contracts.history import HistoryBounds
from recapito.contracts.ledger import Burial
from recapito.dispatch.lane.attempt_recorder import AttemptRecorder
from recapito.domain.delivery.delivery import Delivery, DeliveryId
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome
from recapito.domain.history.attempt import AttemptQuery, EventDisposition, LaneLabel
from recapito.stores.memory import MemoryHistory

LABEL = LaneLabel(1, 1, "orders", "sub")
DROPPED = EventDisposition(DispositionKind.DROP, reason="TimeToLiveExceeded")
DELIVERY = Delivery(DeliveryId(1, 0), 0, b'{"id":"a"}')
BURIAL = Burial(DeliveryId(1, 0), 0, "box", b'{"id":"a","deliveryAttempts":3}')


def test_without_a_history_nothing_is_recorded() -> None:
    """Deliveries that end without a request, and dead letters, are no trouble."""
    recorder = AttemptRecorder(None, LABEL)
    recorder.ended([DELIVERY], 5, DROPPED)
    recorder.buried([BURIAL], 5, NonRequestOutcome.NOT_SENT, DROPPED)


def test_what_ended_is_recorded_once_and_nothing_for_nothing() -> None:
    """One attempt for all that ended together, none when nothing did."""
    history = MemoryHistory(HistoryBounds(1000, 0), lambda: 5, capacity=10)
    recorder = AttemptRecorder(history, LABEL)
    recorder.ended([], 5, DROPPED)
    assert asyncio.run(history.extent()).attempts == 0
    recorder.ended([DELIVERY, DELIVERY], 5, DROPPED)
    assert asyncio.run(history.extent()).attempts == 1


def test_an_end_without_a_request_took_no_time() -> None:
    """It is neither a probe nor late, has no status, and names the place and the attempts of each event."""
    history = MemoryHistory(HistoryBounds(1000, 0), lambda: 5, capacity=10)
    recorder = AttemptRecorder(history, LABEL)
    tried = Delivery(DeliveryId(7, 2), 0, b'{"id":"b"}', 4)
    recorder.ended([DELIVERY, tried], 5, DROPPED)
    (kept,) = asyncio.run(history.newest_first(AttemptQuery(), None, 10)).value
    attempt = kept.attempt
    assert (attempt.at, attempt.took, attempt.status, attempt.detail) == (5, 0, None, "")
    assert (attempt.probe, attempt.late) == (False, False)
    found = [(event.id, event.identity, event.number) for event in attempt.events()]
    assert found == [("a", DeliveryId(1, 0), 0), ("b", DeliveryId(7, 2), 4)]
