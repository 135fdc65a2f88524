"""Directed histories: subscriptions and topics that change while events are on their way."""

from recapito.domain.filter import Filter
from recapito.domain.subscription import RetryPolicy
from tests.sim.behaviour import HEALTHY, answering, hanging
from tests.sim.books import State
from tests.sim.facts import Watched
from tests.sim.faults import Role
from tests.sim.scene import Scene, act, requests

DELETED = "Canceled"


def test_a_deleted_subscription_is_cancelled() -> None:
    """What is unread, parked and under way is dropped and counted; open requests are cut; nothing more is sent."""
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
    assert (first.state, first.reason) == (State.DROPPED, "UndeliverableDueToHttpNotFound")
    assert second.state is State.DELIVERED and len(second.arrivals) > 3


def test_a_deleted_topic_takes_its_subscriptions_with_it() -> None:
    """What they had pending is dropped and counted; a new topic of that name starts empty."""
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
