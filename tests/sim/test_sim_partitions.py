"""Several partitions on several nodes: sound histories, and planted bugs that they find."""

import pytest

from tests.sim import planted_partitions as planted
from tests.sim.partitions import PartitionParts, tell_partitions

ENOUGH = 6  # seeds

BUGS: dict[str, tuple[PartitionParts, tuple[str, ...]]] = {
    "streams without a fence": (planted.UNFENCED, ("commit",)),
    "an owner that sends without a lease": (planted.SENDS_ALWAYS, ("send",)),
    "leases that never end": (planted.FAITHFUL, ("owned",)),
    "peers that show no other node": (planted.LONELY, ("balance",)),
    "a router that miscounts partitions": (planted.MISNUMBERED, ("home",)),
}


@pytest.mark.parametrize("seed", range(4))
def test_nodes_share_partitions_whatever_happens(seed: int) -> None:
    """One node commits in a partition, each has an owner soon, shares are even at rest, and answers come from home."""
    told = tell_partitions(seed)
    assert told.violation == ()
    assert told.counts["answers"] > 100


def test_one_seed_is_one_history() -> None:
    """The same seed gives the same counts."""
    assert tell_partitions(2).counts == tell_partitions(2).counts


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    """A cluster with one of these bugs breaks the law that it must break, within a few histories."""
    parts, laws = BUGS[bug]
    found = next(filter(None, (tell_partitions(seed, parts).violation for seed in range(1, ENOUGH))), ("none",))
    assert found[0] in laws
