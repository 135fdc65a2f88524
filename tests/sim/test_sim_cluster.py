"""Two nodes of a replicated store on faulty streams: sound histories, and planted bugs that they find."""

from pathlib import Path

import pytest

from recapito.stores.replicated.database import ReplicatedDatabase
from tests.sim.cluster import tell_cluster
from tests.sim.machine import Parts
from tests.sim.planted_replicas import PLANTED
from tests.sim.storage import ReplicatedStorage
from tests.sim.world import tell

ENOUGH = 10  # seeds; most bugs are found by the first


@pytest.mark.parametrize("seed", range(100, 108))
def test_no_history_loses_a_commit(seed: int, tmp_path: Path) -> None:
    """Whatever the streams do, an acknowledged commit stays, a failed one is whole or absent, and one node owns."""
    told = tell_cluster(seed, tmp_path)
    assert told.violation == ""
    assert told.counts["verbs"] > 20


def test_the_service_on_a_replicated_store(tmp_path: Path) -> None:
    """Every start of a role is a takeover from another node; the oracle of the service finds nothing."""
    story = tell(4, Parts(storage=ReplicatedStorage(tmp_path)))
    assert not story.violations


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: type[ReplicatedDatabase], tmp_path: Path) -> None:
    """A store with one of these bugs is found out within a few histories."""
    for seed in range(ENOUGH):
        directory = tmp_path / str(seed)
        directory.mkdir()
        if tell_cluster(seed, directory, bug).violation:
            return
    pytest.fail(f"{bug.__name__} was not found")
