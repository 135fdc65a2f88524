"""The whole service, simulated: each seed is a day and more of faults, then healing, then every promise checked."""

from pathlib import Path

import pytest

from recapito.intake.maintenance.retention import RetentionBounds
from tests.sim.__main__ import report
from tests.sim.machine import Parts
from tests.sim.plan import draw_plan
from tests.sim.storage import SqliteStorage
from tests.sim.world import tell

SEEDS = 400
CHUNK = 25
DAY_S = 86_400.0
FOUND = {
    771100612: "a crash forgets the last attempt of a dead letter without a date",
    721478: "a subscription is changed while its lane is opened",
    721816: "a change is stored by an intake that dies before it rings",
    711127: "a change whose commit failed is stored, and nobody rings for it",
    710897: "a lane that has ended is opened while its topic's log is removed",
    501797: "a deleted topic ends the holds of its lanes, and they send",
    4000644: "a row is found damaged while its lane has a sound copy in memory",
    6000183: "a lane sees its new endpoint late, on a slow disk",
    6000822: "the log is trimmed while a lane begins again",
    4302076: "the row of a lane is damaged after its subscription was forgotten",
}


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_seeds(start: int) -> None:
    """Nothing is lost, invented, changed, early, over its limits or stuck, whatever happens."""
    for seed in range(start, start + CHUNK):
        story = tell(seed)
        assert not story.violations, report(story)
        assert story.virtual_s >= DAY_S
        assert story.faults.total() >= 5


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_once_failed(seed: int) -> None:
    """A history in which something was wrong, of the service or of a checker, is lived through again."""
    story = tell(seed)
    assert not story.violations, report(story)


@pytest.mark.parametrize("seed", range(6))
def test_seeds_on_sqlite(seed: int, tmp_path: Path) -> None:
    """The same holds on the embedded store, with real files."""
    story = tell(seed, Parts(storage=SqliteStorage(tmp_path)))
    assert not story.violations, report(story)


@pytest.mark.parametrize("seed", range(6))
def test_seeds_that_keep_what_was_passed(seed: int) -> None:
    """The same holds when the log is trimmed later than it could be."""
    story = tell(seed, Parts(keeping=RetentionBounds(20_000)))
    assert not story.violations, report(story)


def test_every_seed_has_several_kinds_of_faults() -> None:
    """At least five faults of three kinds are planned in each, and no seed has them all."""
    for seed in range(1000):
        plan = draw_plan(seed)
        assert len(set(plan.kinds)) >= 3
        assert sum(len(episode.faults) for episode in plan.episodes) >= 5
        assert len(set(plan.kinds)) < 7
