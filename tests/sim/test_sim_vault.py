"""Directed histories: dead letters, and a vault that is not there."""

from collections import Counter

import pytest

from recapito.dispatch.dead_letter_writer import CONTAINER_MISSING, UNAVAILABLE
from recapito.domain.events.schema import DeliverySchema
from recapito.domain.instant import MINUTE, SECOND
from recapito.domain.resources.subscription import DeadLetterDirectory, RetryPolicy
from tests.sim.behaviour import answering, hanging, in_turn
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act
from tests.sim.settlements import decode_record

DAY_S = 86_400.0
BOX = DeadLetterDirectory(name="box")


def bury(outage_s: float, parts: Parts | None = None, profile: str | None = None, missing: bool = False) -> Scene:
    """Three events that die at once, and a vault that is out of reach for so long from when they are due."""

    async def script(scene: Scene) -> None:
        await scene.topic(profile)
        once = RetryPolicy(max_attempts=1)
        await scene.subscribe("dead", answering(500), retry_policy=once, dead_letter=BOX)
        await scene.publish(3)
        await scene.wait(1)
        vault = scene.machine.vault
        lost = vault.missing if missing else vault.down
        lost.add("box")
        scene.oracle.container_lost("box")
        await scene.wait(299 + outage_s)
        lost.clear()
        scene.oracle.container_back("box")
        await scene.quiet()
        await scene.close_the_books()

    return act(script, parts)


def states(scene: Scene) -> set[tuple[State, str | None]]:
    """The states of the deliveries of the one lane."""
    (lane,) = scene.oracle.lanes.values()
    return {(owed.state, owed.reason) for owed in lane.books.owed.values()}


def test_dead_letters_are_written_five_minutes_after_the_last_attempt() -> None:
    """All that died together goes into one file, with the reason and the number of attempts."""
    lanes: list[Watched] = []
    written: list[int] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        once = RetryPolicy(max_attempts=1)
        lanes.append(await scene.subscribe("dead", answering(404), retry_policy=once, dead_letter=BOX))
        await scene.publish(3)
        await scene.quiet()
        await scene.close_the_books()
        written.extend(line[0] for line in scene.oracle.trace if line[1] == "written")

    scene = act(script)
    last = max(owed.arrivals[0].sent_at for owed in lanes[0].books.owed.values())
    assert all(5 * MINUTE <= at - last <= 5 * MINUTE + 5 * SECOND for at in written[-1:])
    (container, path), _ = next(iter(scene.machine.files.files.items()))
    assert container == "box" and path.startswith("DEAD/2027/1/15/8/")
    for owed in lanes[0].books.owed.values():
        assert owed.burial is not None
        record = decode_record(owed.burial.record)
        assert record.deadLetterReason == "MaxDeliveryAttemptsExceeded"
        assert record.deliveryAttempts == 1
        assert record.lastDeliveryOutcome == "NotFound"


def test_dead_letters_that_fall_due_one_by_one_share_files() -> None:
    """After a write a container rests for five seconds: sixty that die in a minute are a dozen files, none late."""

    async def script(scene: Scene) -> None:
        await scene.topic("2019-05")  # which holds back nothing, however often an endpoint fails
        once = RetryPolicy(max_attempts=1)
        await scene.subscribe("dead", answering(500), retry_policy=once, dead_letter=BOX)
        for _ in range(60):
            await scene.publish()
            await scene.wait(1)
        await scene.quiet()
        await scene.close_the_books()

    scene = act(script)
    (lane,) = scene.oracle.lanes.values()
    assert 10 <= len(scene.machine.files.files) <= 14
    for owed in lane.books.owed.values():
        assert owed.burial is not None and owed.named_at is not None
        assert owed.burial.write_at <= owed.named_at <= owed.burial.write_at + 6 * SECOND


def test_a_vault_down_for_less_than_four_hours_loses_nothing() -> None:
    """After 3 hours and 59 minutes everything is written."""
    assert states(bury(239 * 60)) == {(State.DEAD_LETTERED, None)}


def test_a_vault_down_for_more_than_four_hours_loses_and_counts() -> None:
    """After 4 hours dead letters are dropped, counted with their reason."""
    assert states(bury(241 * 60)) == {(State.DROPPED, UNAVAILABLE)}


def test_a_server_can_keep_dead_letters_for_ever() -> None:
    """Set to keep them, a server waits seven days for its vault and loses nothing."""
    assert states(bury(7 * DAY_S, Parts(keep_for_ever=True))) == {(State.DEAD_LETTERED, None)}


def test_a_missing_container_is_waited_for_in_older_profiles() -> None:
    """Until 2021 a container that does not exist is a vault that is down."""
    assert states(bury(3600, missing=True)) == {(State.DEAD_LETTERED, None)}


def test_a_missing_container_drops_at_once_in_newer_profiles() -> None:
    """From 2023 on dead letters for a container that does not exist are dropped, and counted so."""
    assert states(bury(3600, profile="2026-02", missing=True)) == {(State.DROPPED, CONTAINER_MISSING)}


def test_without_a_dead_letter_destination_events_are_dropped_and_counted() -> None:
    """Dead letters are off by default: the reason is all that is kept."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        await scene.subscribe("dead", answering(400))
        await scene.publish(2)
        await scene.quiet()
        await scene.close_the_books()

    assert states(act(script)) == {(State.DROPPED, "UndeliverableDueToHttpBadRequest")}


def written_while_lost(lose: str, one_lane: bool) -> Counter[str]:
    """How many dead letters got to each of two boxes while the first one was lost; all do in the end.

    Two subscriptions have a box each; or one has first the one box and then the other.
    """
    written: Counter[str] = Counter()

    async def script(scene: Scene) -> None:
        await scene.topic()
        lost = getattr(scene.machine.vault, lose)
        lost.add("box-0")
        scene.oracle.container_lost("box-0")
        for n in range(2):
            box = DeadLetterDirectory(name=f"box-{n}")
            name = "dead" if one_lane else f"dead-{n}"
            await scene.subscribe(name, answering(500), retry_policy=RetryPolicy(max_attempts=1), dead_letter=box)
            if one_lane or n:
                for _ in range(3):  # fewer than hold a lane back
                    await scene.publish()
                    await scene.wait(97)
                await scene.wait(310)  # the last of them is due five minutes after it died
        written.update(box for state, box in burials(scene) if state is State.DEAD_LETTERED)
        lost.clear()
        scene.oracle.container_back("box-0")
        await scene.quiet()
        await scene.close_the_books()
        assert Counter(burials(scene)) == {(State.DEAD_LETTERED, "box-0"): 3, (State.DEAD_LETTERED, "box-1"): 3}

    act(script)  # the oracle knows when each of them was due
    return written


def burials(scene: Scene) -> list[tuple[State, str]]:
    """The state of each dead letter, and its container."""
    owed = [owed for lane in scene.oracle.lanes.values() for owed in lane.books.owed.values()]
    return [(one.state, one.burial.container) for one in owed if one.burial is not None]


@pytest.mark.parametrize("lose", ["down", "missing", "hung"])
@pytest.mark.parametrize("one_lane", [False, True])
def test_one_container_does_not_delay_another(lose: str, one_lane: bool) -> None:
    """While a container is out of reach, or hangs, another's dead letters are written on time, even of one lane."""
    assert written_while_lost(lose, one_lane) == {"box-1": 3}


@pytest.mark.parametrize("schema", [DeliverySchema.EVENT_GRID, DeliverySchema.CLOUD_EVENT])
def test_an_attempt_that_a_crash_forgot_does_not_delay_a_dead_letter(schema: DeliverySchema) -> None:
    """A crash takes the third attempt with it, and the event has expired: its letter knows of two."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        policy = RetryPolicy(max_attempts=30, ttl_minutes=1)
        endpoint = in_turn(answering(500), answering(500), hanging())
        await scene.subscribe("dead", endpoint, retry_policy=policy, dead_letter=BOX, delivery_schema=schema)
        await scene.publish()
        await scene.wait(64)  # the third attempt began between 40 and 45 seconds, and has 30
        scene.machine.crash(Role.DISPATCH)
        await scene.wait(120)
        await scene.quiet()
        await scene.close_the_books()

    (lane,) = act(script).oracle.lanes.values()
    (owed,) = lane.books.owed.values()
    assert len(owed.arrivals) == 3 and owed.burial is not None
    record = decode_record(owed.burial.record)
    assert record.deadLetterReason == "TimeToLiveExceeded"
    assert record.deliveryAttempts == 2
    assert owed.burial.write_at == owed.arrivals[1].sent_at + 5 * MINUTE
