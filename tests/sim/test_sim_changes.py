"""Directed histories: subscriptions and topics that change while events are on their way."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from recapito.domain.filters.filter import Filter
from recapito.domain.resources.subscription import RetryPolicy
from tests.sim.behaviour import HEALTHY, answering, hanging
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act, requests

DELETED = "Canceled"


def test_a_deleted_subscription_is_cancelled() -> None:
    """Unread, parked and open deliveries are dropped and counted; open requests are cut; nothing more is sent."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(3)
        await scene.wait(5)
        scene.become("sub", hanging())
        await scene.publish(10)
        await scene.wait(10)
        assert lanes[0].books.states[State.PARKED] == 3
        await scene.people.delete_subscription("orders", "sub")
        await scene.wait(60)
        await scene.quiet()
        await scene.close_the_books()

    act(script)
    assert {(owed.state, owed.reason) for owed in lanes[0].books.owed.values()} == {(State.DROPPED, DELETED)}
    assert any(arrival.aborted_at is not None for arrival in requests(lanes[0]))
    assert max(arrival.sent_at for arrival in requests(lanes[0])) <= (lanes[0].deleted_at or 0)


def test_a_name_used_again_is_another_subscription() -> None:
    """A subscription created under a deleted one's name gets none of its events, holds or attempts."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(15)
        await scene.wait(30)
        await scene.people.delete_subscription("orders", "sub")
        lanes.append(await scene.subscribe(behaviour=HEALTHY))
        await scene.publish(2)
        await scene.quiet()
        await scene.close_the_books()

    act(script)
    old, new = lanes
    assert old.id != new.id
    assert len(new.books.owed) == 2
    assert {owed.state for owed in new.books.owed.values()} == {State.DELIVERED}


def test_a_filter_counts_from_its_place_in_the_log() -> None:
    """Events published before a filter changes are matched by the old one, however late they are read."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(filter=Filter(event_types=("A",))))
        scene.machine.crash(Role.DISPATCH)
        await scene.publish(2, type="A")
        await scene.publish(2, type="B")
        await scene.subscribe(filter=Filter(event_types=("B",)))
        await scene.publish(3, type="A")
        await scene.publish(3, type="B")
        await scene.quiet()
        await scene.close_the_books()

    act(script)
    assert [owed.event.type for owed in lanes[0].books.owed.values()] == ["A"] * 2 + ["B"] * 3


def test_a_new_destination_counts_for_what_is_parked() -> None:
    """Destination and policy are those of now: the retry goes to the new endpoint."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe("old", answering(500)))
        await scene.publish()
        await scene.wait(5)
        draft = scene.people.fixed_draft("old", "new")
        await scene.people.put_subscription("orders", draft)
        await scene.quiet()

    act(script)
    assert [arrival.url.split("/")[2] for arrival in requests(lanes[0])] == ["old", "new"]


def test_a_shorter_policy_counts_at_the_next_attempt() -> None:
    """A policy that is already exhausted lets the attempt that is due go, and no other."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish()
        await scene.wait(45)
        await scene.subscribe(behaviour=answering(500), retry_policy=RetryPolicy(max_attempts=2))
        await scene.quiet()

    act(script)
    (owed,) = lanes[0].books.owed.values()
    assert len(owed.arrivals) == 4
    assert owed.reason == "MaxDeliveryAttemptsExceeded"


def test_a_topic_may_change_its_profile() -> None:
    """From the change on the topic's deliveries follow the new profile."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2021-03")
        lanes.append(await scene.subscribe(behaviour=answering(404)))
        await scene.publish()
        await scene.wait(5)
        assert await scene.people.put_topic("orders", "2019-05") is not None
        await scene.wait(5)
        await scene.publish()
        await scene.wait(600)
        scene.become("sub", HEALTHY)
        await scene.quiet()

    act(script)
    first, second = lanes[0].books.owed.values()
    assert first.state == State.DROPPED
    assert first.reason == "UndeliverableDueToHttpNotFound"
    assert second.state is State.DELIVERED and len(second.arrivals) > 3


def test_a_deleted_topic_takes_its_subscriptions_with_it() -> None:
    """Their pending deliveries are dropped and counted; a new topic of that name starts empty."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(4)
        await scene.wait(30)
        await scene.people.delete_topic("orders")
        await scene.topic()
        lanes.append(await scene.subscribe())
        await scene.publish(1)
        await scene.quiet()
        await scene.close_the_books()

    act(script)
    assert {owed.reason for owed in lanes[0].books.owed.values()} == {DELETED}
    assert [owed.state for owed in lanes[1].books.owed.values()] == [State.DELIVERED]


def test_a_deleted_topic_ends_no_hold() -> None:
    """The server's default profile knows no holds; the lanes of a deleted topic do not fall back to it and send."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2020-10")
        lanes.extend([await scene.subscribe(f"sub-{n}", answering(500)) for n in range(8)])
        await scene.publish(15)
        await scene.wait(300)
        await scene.people.delete_topic("orders")
        await scene.quiet()
        await scene.close_the_books()

    act(script, Parts(default_profile="2019-05"))
    for lane in lanes:
        assert max(arrival.sent_at for arrival in requests(lane)) <= (lane.deleted_at or 0)


class DeletingRegistry:
    """Has a topic deleted when its subscription has just been read."""

    def __init__(self, log: Any, delete: Callable[[], Awaitable[None]]) -> None:
        self._log = log
        self._delete = delete

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def subscription_by_id(self, id: int) -> Any:
        found = await self._log.subscription_by_id(id)
        await self._delete()
        return found


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_that_is_deleted_while_dispatch_starts_sends_nothing(seed: int) -> None:
    """Dispatch has read the subscription as it was, and finds no topic: it does not guess the schema and send."""
    lanes: list[Watched] = []
    staged: list[Scene] = []
    parts = Parts()

    async def delete() -> None:
        await staged[0].people.delete_topic("orders")

    async def script(scene: Scene) -> None:
        staged.append(scene)
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500)))
        await scene.publish(3)
        await scene.wait(30)
        parts.log = lambda log: DeletingRegistry(log, delete)
        scene.machine.crash(Role.DISPATCH)
        await scene.publish(3)
        await scene.quiet()
        await scene.close_the_books()

    act(script, parts, seed)
    assert {(owed.state, owed.reason) for owed in lanes[0].books.owed.values()} == {(State.DROPPED, DELETED)}
    assert max(arrival.sent_at for arrival in requests(lanes[0])) <= (lanes[0].deleted_at or 0)


def test_the_end_of_a_hold_by_a_new_destination_is_stored() -> None:
    """Nothing is due just then, and the hold is stored as ended all the same: a crash does not bring it back."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(503, retry_after_s=3000)))
        await scene.publish(10)
        await scene.wait(30)
        held = lanes[0].books.last_row
        assert held is not None and held.hold.on
        scene.become("sub", HEALTHY)
        await scene.people.put_subscription("orders", scene.people.fixed_draft("sub", "sub"))
        await scene.wait(2)  # sooner than a cursor that passed nothing is stored
        scene.machine.crash(Role.DISPATCH)
        await scene.wait(100)
        row = lanes[0].books.last_row
        assert row is not None and not row.hold.on
        await scene.quiet()

    act(script)


class SweepingRegistry:
    """Has the janitor make his rounds when a subscription has just been read."""

    def __init__(self, log: Any, sweep: Callable[[], Awaitable[None]]) -> None:
        self._log = log
        self._sweep = sweep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def subscription_by_id(self, id: int) -> Any:
        found = await self._log.subscription_by_id(id)
        await self._sweep()
        return found


def test_a_topic_that_is_forgotten_while_dispatch_starts_is_no_alarm() -> None:
    """A lane that has ended wants nothing of the log, which may be gone before it is known to be."""
    staged: list[Scene] = []
    parts = Parts()

    async def sweep() -> None:
        for _ in range(3):
            await staged[0].machine.request(staged[0].machine.sweep)

    async def script(scene: Scene) -> None:
        staged.append(scene)
        scene.machine.janitor_every_s = 1e9
        await scene.topic()
        lane = await scene.subscribe()
        await scene.publish(3)
        await scene.wait(30)
        await scene.people.delete_topic("orders")
        await scene.wait(30)
        assert lane.books.ended
        parts.log = lambda log: SweepingRegistry(log, sweep)
        scene.machine.crash(Role.DISPATCH)
        await scene.wait(100)
        await scene.quiet()
        await scene.close_the_books()

    act(script, parts)
