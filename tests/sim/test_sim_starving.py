"""Directed histories: bad events never starve an endpoint that is well, whatever number of them there is."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from recapito.dispatch.lane.lane import Lane
from recapito.domain.delivery.delivery import timetable
from recapito.domain.delivery.outcome import answered
from recapito.domain.filters.filter import Filter
from recapito.domain.instant import SECOND
from recapito.domain.profiles.profile import EndpointKind, load, names
from recapito.domain.resources.subscription import Batching, RetryPolicy
from tests.sim import liveness, planted
from tests.sim.behaviour import answering
from tests.sim.books import Owed, State
from tests.sim.facts import Watched
from tests.sim.machine import Parts
from tests.sim.scene import Scene, Script, act, requests, sent_at

LONGEST_S = {name: rules.longest_s for name in names() if (rules := load(name).delayed_delivery) is not None}
RARE = Filter(event_types=("Rare",))


def no_jitter(rng: random.Random) -> Callable[[], float]:
    """Retries at the second."""
    return lambda: 0.0


def accepted(lane: Watched) -> list[Owed]:
    """The deliveries of the events that the endpoint accepts."""
    return [owed for owed in lane.books.owed.values() if owed.event.subject != "bad"]


def waits_s(owed: list[Owed]) -> list[float]:
    """How long events waited for their success; one that had none waits forever."""
    return [(o.successes[0].sent_at - o.event.sent_at) / SECOND if o.successes else float("inf") for o in owed]


def few_bad(
    lanes: list[Watched], bad: int, every_s: float, count: int, profile: str | None = None, **settings: Any
) -> Script:
    """N bad events, then good ones one by one."""

    async def script(scene: Scene) -> None:
        await scene.topic(profile)
        lanes.append(await scene.subscribe_picky(**settings))
        rare = "filter" in settings
        if rare:
            await scene.publish(1000, type="Common")  # so that the filter is known to be sparse
        await scene.publish(bad, type="Rare", subject="bad")
        for _ in range(count):
            await scene.wait(every_s)
            await scene.publish(type="Rare", subject="good")
        await scene.wait(300)
        liveness.check_accepted(scene.oracle)

    return script


@pytest.mark.parametrize("profile", names())
@pytest.mark.parametrize("status", [400, 413, 500, 503])
def test_three_bad_events_and_one_good_every_half_hour(profile: str, status: int) -> None:
    """A few bad events delay no good one, for a whole day."""
    lanes: list[Watched] = []
    act(few_bad(lanes, 3, 1800, 48, profile, status=status))
    assert max(waits_s(accepted(lanes[0]))) < 5


@pytest.mark.parametrize(
    "settings", [{}, {"filter": RARE}, {"batching": Batching(10)}], ids=["all", "sparse", "batches"]
)
@pytest.mark.parametrize("profile", [name for name in LONGEST_S if load(name).batching])
def test_ten_bad_events_and_one_good_every_five_seconds(profile: str, settings: dict[str, Any]) -> None:
    """Ten bad events hold the subscription once, until the first probe, which is a good one: the news."""
    lanes: list[Watched] = []
    act(few_bad(lanes, 10, 5, 720, profile, **settings))
    waits = waits_s(accepted(lanes[0]))
    assert len(waits) == 720
    assert max(waits) < 70
    assert sum(wait > 5 for wait in waits) <= 60 / 5 + 1


def test_the_probes_of_a_sparse_lane_go_from_new_to_old() -> None:
    """A held lane that parks its matches unread probes with the newest, then with the one before it."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe_picky(filter=RARE))
        await scene.publish(1000, type="Common")
        await scene.publish(10, type="Rare", subject="bad")
        await scene.wait(30)  # the retries are due before these
        for subject in ("good", "bad", "bad"):
            await scene.publish(1, type="Rare", subject=subject)
        await scene.wait(3600)

    act(script)
    (waited,) = waits_s(accepted(lanes[0]))
    assert waited < 60 + 120 + 240 + 10


def one_good(lanes: list[Watched], profile: str = "2021-03") -> Script:
    """Ten bad events, one good one, and then a bad one before each probe."""

    async def script(scene: Scene) -> None:
        await scene.topic(profile)
        lanes.append(await scene.subscribe_picky())
        await scene.publish(10, subject="bad")
        await scene.wait(1)
        await scene.publish(subject="good")
        for n in range(300):
            await scene.wait(5 if n < 40 else 59)
            await scene.publish(subject="bad")
        liveness.check_accepted(scene.oracle)

    return script


@pytest.mark.parametrize("profile", list(LONGEST_S))
def test_one_good_event_among_ever_more_bad_ones(profile: str) -> None:
    """The good one arrives within the longest hold, though every probe takes a bad one that came after it."""
    lanes: list[Watched] = []
    act(one_good(lanes, profile))
    (waited,) = waits_s(accepted(lanes[0]))
    assert LONGEST_S[profile] / 2 < waited <= LONGEST_S[profile] + 60


def bad_company(lanes: list[Watched]) -> Script:
    """A batch of seven, one of which is bad."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe_picky(batching=Batching(100)))
        scene.become("sub", answering(500))
        await scene.publish(6, subject="good")
        await scene.publish(1, subject="bad")
        await scene.wait(40 * 3600)
        liveness.check_accepted(scene.oracle)

    return script


def test_good_events_in_bad_company() -> None:
    """A batch with a bad event fails as a whole; third attempts go alone, and the good ones arrive."""
    lanes: list[Watched] = []
    act(bad_company(lanes))
    assert 5 < max(waits_s(accepted(lanes[0]))) < 60


def test_a_failed_batch_of_ten_counts_as_ten() -> None:
    """One request that fails with ten events holds the subscription; its retry, at its time, does not go."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500), batching=Batching(100)))
        await scene.publish(9)
        await scene.wait(5)
        assert lanes[0].books.last_row is not None and not lanes[0].books.last_row.hold.on
        await scene.publish(1)
        await scene.wait(1)
        assert lanes[0].books.last_row is not None and lanes[0].books.last_row.hold.failures == 10
        await scene.wait(30)

    act(script)
    assert [len(arrival.events) for arrival in requests(lanes[0])] == [9, 1]


@pytest.mark.parametrize("profile", names())
@pytest.mark.parametrize("status", [408, 500, 503])
def test_a_lone_event_keeps_the_schedule_to_its_end(profile: str, status: int) -> None:
    """Its own retries never hold it back: it is tried as often as the page's schedule says (2019-07: 30 times)."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic(profile)
        lanes.append(await scene.subscribe(behaviour=answering(status, 0.001, 0.002)))
        await scene.publish()
        await scene.quiet(60 * 3600)

    act(script, Parts(jitter=no_jitter))
    expected = timetable(load(profile), EndpointKind.WEBHOOK, RetryPolicy(), answered(status)).attempts
    (owed,) = lanes[0].books.owed.values()
    assert [round(at) for at in sent_at(owed)] == pytest.approx([at / SECOND for at in expected], abs=1)
    if profile == "2019-07" and status == 500:
        assert len(owed.arrivals) == 30


@pytest.mark.parametrize("profile", names())
@pytest.mark.parametrize("policy", [RetryPolicy(4, 1440), RetryPolicy(30, 200), RetryPolicy(11, 600)], ids=str)
def test_a_policy_of_ones_own_is_kept_to_the_attempt(profile: str, policy: RetryPolicy) -> None:
    """Thirty events at a dead endpoint are each tried as often as policy and schedule give, and never held."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic(profile)
        lanes.append(await scene.subscribe(behaviour=answering(500, 0.001, 0.002), retry_policy=policy))
        for _ in range(30):
            await scene.publish()
            await scene.wait(1)
        await scene.quiet(60 * 3600)

    act(script, Parts(jitter=no_jitter))
    expected = timetable(load(profile), EndpointKind.WEBHOOK, policy, answered(500)).attempts
    assert {len(owed.arrivals) for owed in lanes[0].books.owed.values()} == {len(expected)}


def test_a_dead_endpoint_is_left_in_peace() -> None:
    """Retries and new events wait for hours; probes are ever rarer, each with another event; a success clears all."""
    lanes: list[Watched] = []

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe(behaviour=answering(500, 0.1, 0.1)))
        await scene.publish(20)
        await scene.wait(2 * 3600)
        await scene.publish(5)
        await scene.wait(3600)

    act(script)
    sent = requests(lanes[0])
    probes = sent[10:]
    gaps = [(b.sent_at - a.sent_at) / SECOND for a, b in pairwise(sent[9:])]
    assert gaps == pytest.approx([60, 120, 240, 480, 960, 1920, 3840], abs=2)
    ids = [arrival.events[0].id for arrival in probes]
    assert len(set(ids)) == len(ids) and ids[:6] == ["e19", "e18", "e17", "e16", "e15", "e14"]
    assert lanes[0].books.states[State.DELIVERED] == 0


def own_policy(lanes: list[Watched]) -> Script:
    """Bad events under a policy of one's own."""

    async def script(scene: Scene) -> None:
        await scene.topic()
        lanes.append(await scene.subscribe_picky(retry_policy=RetryPolicy(20, 120)))
        await scene.publish(12, subject="bad")
        await scene.quiet(60 * 3600)

    return script


PLANTED: dict[str, tuple[type[Lane], Script, str]] = {
    "retries count": (planted.RecountingLane, few_bad([], 3, 1800, 48), "L2"),
    "a refusal counts": (planted.OffendedLane, few_bad([], 12, 1800, 48, "2019-07", status=400), "L1"),
    "a probe is never fresh": (planted.StubbornLane, few_bad([], 10, 5, 720), "L1"),
    "no sweep": (planted.UnsweptLane, one_good([]), "L1"),
    "always in company": (planted.GregariousLane, bad_company([]), "L1"),
    "a policy of one's own is held": (planted.HoldingLane, own_policy([]), "L2"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_laws_of_liveness_find_a_planted_bug(name: str) -> None:
    """Each of these lanes starves an event, and the laws find it without reading its hold."""
    lane, script, law = PLANTED[name]
    found: list[str] = []

    async def main(scene: Scene) -> None:
        scene.oracle.watches_holds = False
        scene.oracle.on_violation = lambda: found.append(scene.oracle.violations[0].invariant)
        await script(scene)

    with pytest.raises(AssertionError, match=law):
        act(main, Parts(dispatcher=planted.dispatching(lane), jitter=no_jitter))
    assert found[0] == law
