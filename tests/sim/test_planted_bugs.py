"""The checkers are checked: each planted bug must be found, within a few seeds, by an invariant that it breaks."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from tests.sim import planted, planted_stores
from tests.sim.machine import Parts
from tests.sim.plan import HOUR_S, draw_plan
from tests.sim.planted import MeddlingRegistry, MeddlingSender
from tests.sim.planted_stores import PlantedStorage
from tests.sim.world import tell

SEEDS = 80  # the rarest of these bugs shows in one of twenty
DAMAGES = 20

BUGS: dict[str, tuple[Callable[[], Parts], set[str]]] = {
    "a log that acknowledges without storing": (
        lambda: Parts(storage=PlantedStorage(log=planted_stores.ForgetfulLog)),
        {"I3"},
    ),
    "a log that changes a byte": (lambda: Parts(storage=PlantedStorage(log=planted_stores.CarelessLog)), {"I3"}),
    "a publisher that answers before the commit": (lambda: Parts(publisher=planted.HastyPublisher), {"I3"}),
    "a publisher that stores what it refused": (lambda: Parts(publisher=planted.WaveringPublisher), {"refused"}),
    "a ledger that loses a parked row": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.LossyLedger)),
        {"I1", "I2"},
    ),
    "a ledger that counts a delivery twice": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.GenerousLedger)),
        {"I1"},
    ),
    "a ledger that moves the cursor before the outcome": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.RashLedger)),
        {"I2"},
    ),
    "a ledger that returns rows early": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.EarlyLedger)),
        {"I9"},
    ),
    "a ledger that forgets attempts": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.ForgetfulLedger)),
        {"I9"},
    ),
    "a ledger that counts a late answer twice": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.DoubtfulLedger)),
        {"I1"},
    ),
    "a ledger that renames a group of dead letters": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.RenamingLedger)),
        {"I5", "I11", "I1"},
    ),
    "a log that stalls at a damaged entry": (lambda: Parts(log=planted.StallingLog), {"I16", "I17", "I18"}),
    "a log that skips a damaged entry": (lambda: Parts(log=planted.SkippingLog), {"I1"}),
    "a ledger that keeps no damaged entry": (
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.CarefreeLedger)),
        {"damage"},
    ),
    "a janitor that trims above a cursor": (
        lambda: Parts(storage=PlantedStorage(seen_by_intake=planted_stores.OptimisticLedger)),
        {"I2", "I24"},
    ),
    "a vault that claims to have written": (lambda: Parts(vault=planted.BoastfulVault), {"I11"}),
    "a sender that writes JSON anew": (
        lambda: Parts(sender=partial(MeddlingSender, request=planted.reserialised)),
        {"I7"},
    ),
    "a sender that mixes up the headers": (
        lambda: Parts(sender=partial(MeddlingSender, request=planted.StickyHeaders())),
        {"headers"},
    ),
    "a sender that takes an error for a success": (
        lambda: Parts(sender=partial(MeddlingSender, answer=planted.believing)),
        {"I2", "hold"},
    ),
    "a sender that takes a success for an error": (
        lambda: Parts(sender=partial(MeddlingSender, answer=planted.doubting)),
        {"I8", "I9", "hold"},
    ),
    "a sender that sends twice": (lambda: Parts(sender=partial(MeddlingSender, times=2)), {"I9"}),
    "late answers that are ignored": (lambda: Parts(late=planted.DeafExchanges), {"late"}),
    "slots that are never given back": (lambda: Parts(slots=lambda: planted.LeakySlots(24)), {"I16", "I17", "I18"}),
    "a dispatcher that does not hear": (lambda: Parts(dispatcher=planted.DrowsyDispatcher), {"I12", "I16", "I17"}),
    "a dispatcher that sends though nothing is stored": (
        lambda: Parts(dispatcher=planted.CarefreeDispatcher),
        {"I8"},
    ),
    "dead letters before their time": (lambda: Parts(dispatcher=planted.HastyUndertaker), {"I11"}),
    "a clock that goes too fast": (lambda: Parts(dispatch_clock=planted.FastClock), {"I9", "I14", "hold"}),
    "retries before their time": (lambda: Parts(jitter=lambda rng: lambda: -0.5), {"I9"}),
    "a batch one over its limit": (
        lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.larger_batches)),
        {"batch"},
    ),
    "a filter that is ignored": (lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.no_filter)), {"I6"}),
    "a filter that works backwards": (
        lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.newest_filter)),
        {"I1", "I6"},
    ),
    "a time to live that is too short": (
        lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.short_life)),
        {"I14"},
    ),
    "too many attempts": (lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.tireless)), {"I9"}),
    "a deletion that goes unnoticed": (
        lambda: Parts(log=partial(MeddlingRegistry, subscription=planted.undying)),
        {"I6", "I1", "I16"},
    ),
    "holds that are ignored": (
        lambda: Parts(log=partial(MeddlingRegistry, topic=planted.impatient)),
        {"hold", "I9", "I10"},
    ),
}

ROTS: dict[str, tuple[str, Callable[[], Parts], set[str]]] = {
    "a ledger that believes a damaged lane": (
        "lane",
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.TrustingLedger)),
        {"damage", "I1", "I2"},
    ),
    "a ledger that keeps what is read again": (
        "lane",
        lambda: Parts(storage=PlantedStorage(ledger=planted_stores.HoardingLedger)),
        {"I1"},
    ),
    "a damaged lane that begins at the end": ("lane", lambda: Parts(dispatcher=planted.ForwardDispatcher), {"I2"}),
    "a damaged lane that stops": ("lane", lambda: Parts(dispatcher=planted.ForgetfulDispatcher), {"I24"}),
    "a damaged lane that nobody looks at": (
        "lane",
        lambda: Parts(dispatcher=planted.ForgivingDispatcher),
        {"damage", "I16", "I18", "I20"},
    ),
    "a registry that serves a damaged record": (
        "record",
        lambda: Parts(storage=PlantedStorage(log=planted_stores.CredulousLog)),
        {"damage"},
    ),
    "a registry that shows no damaged record": (
        "record",
        lambda: Parts(storage=PlantedStorage(log=planted_stores.SilentLog)),
        {"damage", "I2", "I5"},
    ),
}


@pytest.mark.parametrize("name", ROTS)
def test_a_planted_bug_about_damage_is_found(name: str) -> None:
    """The same, in histories in which much rots."""
    kind, make, invariants = ROTS[name]
    for seed in range(SEEDS):
        plan = draw_plan(seed)
        rng = random.Random(f"{seed}/rots")
        plan.damages_s = [(rng.uniform(HOUR_S, plan.horizon_s - HOUR_S), kind) for _ in range(DAMAGES)]
        plan.redrives_s = plan.replays_s = []
        story = tell(seed, make(), plan)
        if story.violations:
            assert story.violations[0].invariant in invariants, str(story.violations[0])
            return
    pytest.fail(f"{SEEDS} seeds did not notice {name}")


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    """A checker notices, within a few seeds."""
    make, invariants = BUGS[name]
    for seed in range(SEEDS):
        story = tell(seed, make())
        if story.violations:
            assert story.violations[0].invariant in invariants, str(story.violations[0])
            return
    pytest.fail(f"{SEEDS} seeds did not notice {name}")
