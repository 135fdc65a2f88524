"""Directed histories: answers that come after the thirty seconds."""

import pytest

from recapito.domain.instant import SECOND
from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from tests.sim.behaviour import HEALTHY, Behaviour, after, hanging, in_turn
from tests.sim.books import Owed, State
from tests.sim.facts import Watched
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act, sent_at


def deliver(*replies: Behaviour, parts: Parts | None = None) -> tuple[Owed, Scene]:
    """One event to an endpoint that answers its attempts like this, one after the other."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        scene.faults.quick_disk = True
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=in_turn(*replies)))
        await scene.publish()
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script, parts or Parts(jitter=lambda rng: lambda: 0.0))
    (owed,) = lanes[0].books.owed.values()
    return owed, scene


def test_a_late_success_removes_the_parked_retry() -> None:
    """A success 35 seconds after sending settles the delivery; its retry, due at 40 seconds, never goes."""
    owed, _ = deliver(after(35))
    assert owed.state is State.DELIVERED
    assert sent_at(owed) == [0]


def test_a_late_success_settles_whatever_attempt_it_answers() -> None:
    """The first attempt's success comes at 60 seconds, when the second has failed and the third is parked."""
    owed, _ = deliver(after(60), after(1, 500))
    assert owed.state is State.DELIVERED
    assert [round(at) for at in sent_at(owed)] == [0, 40]


def test_a_retry_on_the_wire_finishes_and_parks_nothing() -> None:
    """A late success comes while the retry is under way: its time-out counts for nothing."""
    owed, _ = deliver(after(45), hanging())
    assert owed.state is State.DELIVERED
    assert [round(at) for at in sent_at(owed)] == [0, 40]


def test_a_retry_on_the_wire_may_succeed_too() -> None:
    """Both attempts succeed: the delivery is counted once."""
    owed, scene = deliver(after(45), after(10))
    assert owed.state is State.DELIVERED
    row = scene.oracle.lanes[1].books.last_row
    assert row is not None and row.counts.delivered == 1


def test_a_late_failure_changes_nothing() -> None:
    """The retry goes when the time-out said, whatever the first attempt answers in the end."""
    owed, _ = deliver(after(35, 404), HEALTHY)
    assert owed.state is State.DELIVERED
    assert [round(at) for at in sent_at(owed)] == [0, 40]


def test_nobody_listens_after_three_minutes() -> None:
    """The exchange is cut 180 seconds after sending; what comes later is not heard."""
    owed, _ = deliver(after(181), after(200), HEALTHY)
    assert owed.arrivals[0].heard_at is None
    assert owed.arrivals[0].aborted_at == pytest.approx(owed.arrivals[0].sent_at + 180 * SECOND, abs=1000)
    assert [round(at) for at in sent_at(owed)] == [0, 40, 100]


def test_a_success_that_a_sleeping_machine_reads_too_late_does_not_count() -> None:
    """The machine sleeps past the 180 seconds and hears the answer before it cuts the exchange: it tries again."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        scene.faults.quick_disk = True
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=in_turn(after(77.001), after(200), HEALTHY)))
        await scene.publish()
        await scene.wait(1)
        (owed,) = lanes[0].books.owed.values()
        await scene.clock.sleep_until(owed.arrivals[0].sent_at + 77 * SECOND)
        assert [round(at) for at in sent_at(owed)] == [0, 40]  # the second timed out at 70, the third is due at 100
        scene.clock.suspend(200 * SECOND)
        scene.oracle.suspended()
        await scene.quiet()
        await scene.close_the_books()

    act(script, Parts(jitter=lambda rng: lambda: 0.0))
    (owed,) = lanes[0].books.owed.values()
    assert owed.state is State.DELIVERED
    assert owed.arrivals[0].heard_at is not None and owed.arrivals[0].aborted_at is None
    assert len(owed.arrivals) == 3


def test_a_late_success_at_the_last_moment_counts() -> None:
    """At 179 seconds it is still listened to."""
    owed, _ = deliver(after(179), hanging(), hanging(), hanging())
    assert owed.state is State.DELIVERED
    assert owed.success_at == pytest.approx(owed.arrivals[0].sent_at + 179 * SECOND, abs=1000)


def test_a_late_success_takes_back_a_dead_letter() -> None:
    """The last attempt times out and is buried; its success within three minutes delivers it after all."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(
            await scene.subscribe(
                behaviour=after(100),
                retry_policy=RetryPolicy(max_attempts=1),
                dead_letter=DeadLetterDirectory(name="box"),
            )
        )
        await scene.publish()
        await scene.wait(60)
        assert [owed.state for owed in lanes[0].books.owed.values()] == [State.BURIED]
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script)
    assert [owed.state for owed in lanes[0].books.owed.values()] == [State.DELIVERED]
    assert not scene.machine.files.files
