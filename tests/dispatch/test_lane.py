"""One lane by itself, stepped by hand: which requests it starts, and what they make of its window and its books."""

from collections.abc import Callable
from typing import Any

from recapito.clock import ManualClock
from recapito.contracts.ledger import DueDeliveries, LaneCounts, LaneRow
from recapito.contracts.log import Entry
from recapito.dispatch.capacity import Slots, Window
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.dispatch.lane.lane import Lane
from recapito.domain import limits
from recapito.domain.delivery.batch import Batch
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import CLEAR, Hold
from recapito.domain.delivery.outcome import Outcome, answered
from recapito.domain.events.schema import InputSchema
from recapito.domain.instant import DAY, HOUR, SECOND
from recapito.domain.profiles.profile import load
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.destination import Destination
from recapito.domain.resources.subscription import Batching
from recapito.observability.journal import silent
from recapito.senders.memory import MemoryExchange
from recapito.stores.memory import MemoryLog
from tests.dispatch.shelf import TOPIC, Shelf, entry
from tests.kit.dispatch import PROFILE
from tests.kit.resources import a_subscription

NOW = 2 * DAY
PROBES = Hold(10, NOW, 10 * SECOND, sweep_at=NOW + HOUR)  # one probe may go now


class Endpoint:
    """A sender that keeps each batch, and its answer for the test to give."""

    def __init__(self) -> None:
        self.got: list[Batch] = []
        self.answers: list[Callable[[Outcome], None]] = []

    def send(self, destination: Destination, batch: Batch, answer: Callable[[Outcome], None]) -> MemoryExchange:
        self.got.append(batch)
        self.answers.append(answer)
        return MemoryExchange(None)

    async def close(self) -> None:
        """There is nothing to close."""


def lane_on(
    endpoint: Endpoint,
    entries: list[Entry],
    hold: Hold = CLEAR,
    next_due_at: int | None = None,
    window: int = limits.WINDOW_START,
    random: Callable[[], float] = lambda: 0.0,
    **settings: Any,
) -> Lane:
    """A lane at the beginning of a log of these entries."""
    context = DispatchContext(
        log_id="log",
        clock=ManualClock(NOW),
        sender=endpoint,
        segments=SegmentCache(MemoryLog()),
        slots=Slots(),
        late=LateAnswers(),
        random=random,
        journal=silent,
        window=lambda: Window(window),
    )
    feed = Shelf(entries)
    feed.end = len(entries)
    row = LaneRow(1, TOPIC, "log", 1, Cursor((1, 0)), hold, LaneCounts(), next_due_at=next_due_at)
    subscription = a_subscription(topic=TOPIC, **settings)
    return Lane(row, subscription, InputSchema.EVENT_GRID, load(PROFILE), context, feed, lambda lane: None)


def fresh(position: int, *sizes: int) -> Entry:
    """A segment whose events have not expired."""
    return entry(position, list(sizes), published_at=NOW)


def test_a_probe_that_succeeds_begins_with_a_small_window() -> None:
    """After a hold the endpoint gets its backlog one request at a time, however large the window was."""
    endpoint = Endpoint()
    lane = lane_on(endpoint, [fresh(1, *[9] * 20)], PROBES, window=8)
    lane.step(NOW)
    assert len(endpoint.got) == 1
    endpoint.answers[0](answered(200))
    lane.step(NOW + SECOND)
    assert (lane.window.size, len(endpoint.got)) == (1, 2)


def test_a_late_success_begins_with_a_small_window() -> None:
    """A request of ten events that takes too long holds the lane; its late success ends the hold as a probe's does."""
    endpoint = Endpoint()
    lane = lane_on(endpoint, [fresh(1, *[9] * 10)], window=8, batching=Batching(max_events=10))
    lane.step(NOW)
    lane.step(NOW + limits.ANSWER_WAIT_NS)
    assert lane.books.hold.on and lane.window.size == 4
    endpoint.answers[0](answered(200))
    lane.step(NOW + limits.ANSWER_WAIT_NS + SECOND)
    assert not lane.books.hold.on and lane.window.size == 1


def test_a_probe_waits_for_the_deliveries_that_are_due() -> None:
    """The lane fetches them first, so that expired ones are given up before a probe goes."""
    endpoint = Endpoint()
    lane = lane_on(endpoint, [fresh(1, 9)], PROBES, next_due_at=NOW)
    assert lane.step(NOW).due
    assert endpoint.got == []
    read = lane.due_read(lane.due_queue, NOW)
    assert read is not None
    old = Parked(NOW, Delivery(DeliveryId(0, 0), NOW - DAY, b"{}", attempts=1))
    lane.fetched(read, DueDeliveries([old], None))
    lane.step(NOW)
    assert [batch.body for batch in endpoint.got] == [b"[xxxxxxxxx]"]
    assert lane.books.identities() == {old.delivery.identity}


def test_a_lane_with_many_bytes_under_way_starts_no_request() -> None:
    """One large request may fill a lane; when it is answered and settled, the next one goes."""
    endpoint = Endpoint()
    lane = lane_on(endpoint, [fresh(1, limits.WINDOW_BYTES, 9)])
    lane.step(NOW)
    assert lane.in_flight.full and len(endpoint.got) == 1
    endpoint.answers[0](answered(200))
    lane.step(NOW)
    lane.end_commit(lane.books.begin_commit())
    lane.step(NOW)
    assert not lane.in_flight.full and len(endpoint.got) == 2


def test_a_delivery_that_is_not_settled_is_work() -> None:
    """An answered delivery counts as work until its settlement is stored."""
    endpoint = Endpoint()
    lane = lane_on(endpoint, [fresh(1, 9)])
    lane.step(NOW)
    endpoint.answers[0](answered(200))
    lane.step(NOW)
    assert not len(lane.in_flight) and lane.has_work()
    settlement = lane.books.begin_commit()
    assert lane.has_work()
    lane.end_commit(settlement)
    assert not lane.has_work()


def test_a_sweep_ends_when_everything_was_read() -> None:
    """A lane that must pace itself sends nothing for a while; its sweep goes on with the next event all the same."""
    endpoint = Endpoint()
    sweeps = Hold(10, NOW, 10 * SECOND, sweep_at=NOW)
    lane = lane_on(endpoint, [fresh(1, 9, 9, 9)], sweeps, own_options=DeliveryOptions(events_per_second=1))
    for now, sent, still_sweeps in ((NOW, 2, True), (NOW + 2 * SECOND, 3, False)):
        lane.step(now)
        assert len(endpoint.got) == sent
        while endpoint.answers:
            endpoint.answers.pop()(answered(500))
        lane.step(now)
        lane.end_commit(lane.books.begin_commit())
        lane.step(now)
        assert lane.books.hold.sweeps is still_sweeps


def test_a_held_lane_wants_no_new_entry() -> None:
    """A lane at the end of its log reads the next entry at once, so the feed loads it; a held lane does not."""
    assert lane_on(Endpoint(), []).at_tail(0)
    assert not lane_on(Endpoint(), [], PROBES).at_tail(0)


def test_a_failed_batch_is_retried_as_one() -> None:
    """Its events are due at one instant, whatever chance adds to the delay: otherwise each would be a request."""
    endpoint, draws = Endpoint(), iter(n / 10 for n in range(10))
    lane = lane_on(
        endpoint,
        [fresh(1, *[9] * 5)],
        random=lambda: next(draws),
        batching=Batching(max_events=5),
    )
    lane.step(NOW)
    endpoint.answers[0](answered(500))
    lane.step(NOW + SECOND)
    parked = lane.books.begin_commit().park
    assert (len(parked), len({one.due_at for one in parked})) == (5, 1)
