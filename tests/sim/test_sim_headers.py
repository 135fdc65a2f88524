"""Directed histories: batches of events whose headers differ."""

import pytest

from recapito.domain.resources.subscription import Batching, DynamicAttribute, RetryPolicy
from tests.sim.behaviour import HEALTHY, after, in_turn
from tests.sim.books import State
from tests.sim.endpoints import Arrival
from tests.sim.facts import Watched
from tests.sim.machine import Parts
from tests.sim.scene import Scene, act, requests

BY_SUBJECT = (DynamicAttribute("X-Subject", "Subject"),)
EVENTS = 30
NO_JITTER = Parts(jitter=lambda rng: lambda: 0.0)


def subjects(number: int) -> list[str]:
    return [f"to/{n}" for n in range(number)]


def subjects_of(arrival: Arrival) -> set[str]:
    return {event.subject for event in arrival.events}


@pytest.mark.parametrize(("values", "limit", "fewest"), [(2, 100, 2), (2, 4, 8), (3, 5, 6), (30, 100, 30)])
def test_as_few_requests_as_the_limits_allow(values: int, limit: int, fewest: int) -> None:
    """Each request has the events of one subject, and as many of them as it may: thirty of two subjects are two."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2021-03")
        lanes.append(await scene.subscribe(batching=Batching(limit, 1024), attributes=BY_SUBJECT))
        await scene.people.publish("orders", EVENTS, subjects(values))
        await scene.wait(60)
        await scene.close_the_books()

    act(script)
    sent = requests(lanes[0])
    assert all(len(subjects_of(arrival)) == 1 for arrival in sent)
    assert len(sent) == fewest
    assert lanes[0].books.states[State.DELIVERED] == EVENTS


def test_retries_too() -> None:
    """Events that failed and are due at the same time go again in as few requests."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic("2021-03")
        failing = in_turn(after(1, 500), after(1, 500), HEALTHY)
        settings = {"batching": Batching(100, 1024), "retry_policy": RetryPolicy(5, 60), "attributes": BY_SUBJECT}
        lanes.append(await scene.subscribe(behaviour=failing, **settings))
        await scene.people.publish("orders", EVENTS, subjects(2))
        await scene.wait(600)
        await scene.close_the_books()

    act(script, NO_JITTER)
    assert [(len(subjects_of(arrival)), arrival.batch.events) for arrival in requests(lanes[0])] == [(1, 15)] * 4
    assert lanes[0].books.states[State.DELIVERED] == EVENTS
