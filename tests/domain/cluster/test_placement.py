"""Placement: every node gets its share, all agree, and few partitions move when a node comes or goes."""

from itertools import product

from recapito.domain.cluster.member import ClusterMember, NodeState, Sighting
from recapito.domain.cluster.partition import Partition, home_of, home_of_id
from recapito.domain.cluster.placement import able_nodes, heirs_of, place
from recapito.domain.instant import SECOND


def test_each_node_gets_its_share() -> None:
    """Shares differ by one at most; every partition has an owner; the order of nodes does not matter."""
    for partitions, count in product((2, 4, 16), range(1, 9)):
        names = [f"node-{number}" for number in range(count)]
        placed = place(partitions, dict.fromkeys(names, ()))
        assert placed == place(partitions, dict.fromkeys(reversed(names), ()))
        assert sorted(placed) == list(range(partitions))
        shares = [list(placed.values()).count(name) for name in names]
        assert max(shares) - min(shares) <= 1


def test_few_partitions_move() -> None:
    """When one of four nodes goes, at most its own partitions and those that the shares push on move."""
    before = place(64, dict.fromkeys("abcd", ()))
    after = place(64, dict.fromkeys("abc", ()))
    moved = [number for number in range(64) if before[number] != "d" and before[number] != after[number]]
    assert len(moved) <= 16


def test_a_node_gets_no_partition_that_it_lacks() -> None:
    """Another node takes it, above its share; a partition that all lack has no preferred owner."""
    assert set(place(4, {"a": [0, 1, 2, 3], "b": ()}).values()) == {"b"}
    assert place(2, {"a": [0], "b": [0]}).keys() == {1}
    assert place(4, {}) == {}


def test_a_node_that_goes_has_no_share_and_an_heir() -> None:
    """A node that lacks all partitions counts as gone, and the heirs of its partitions are those that get them then."""
    nodes = dict.fromkeys("abc", ())
    before, after = place(8, nodes), place(8, {"a": (), "b": ()})
    assert place(8, {"a": (), "b": (), "c": range(8)}) == after
    assert heirs_of("c", 8, nodes) == after
    assert {after[number] for number, owner in before.items() if owner == "c"} == {"a", "b"}
    assert heirs_of("a", 8, {"a": ()}) == {}


def test_nodes_that_cannot_own_are_left_out() -> None:
    """Drained and starting nodes, and those whose clock is off, are not placed."""

    def seen(name: str, state: NodeState, skew: int = 0, lacks: list[int] | None = None) -> Sighting:
        return Sighting(
            ClusterMember(name, name, "", state, "1", "1.1", 0, 100 * SECOND + skew, lacks or []), 100 * SECOND
        )

    members = [
        seen("a", NodeState.OWNER),
        seen("b", NodeState.STANDBY, lacks=[2]),
        seen("c", NodeState.DRAINED),
        seen("d", NodeState.STARTING),
        seen("e", NodeState.STANDBY, skew=2 * SECOND),
    ]
    assert able_nodes(members) == {"a": [], "b": [2]}


def test_a_name_has_one_home() -> None:
    """The home of a topic depends on its name alone, without regard to case; ids name their partition."""
    homes = {home_of(f"topic-{number}", 4) for number in range(100)}
    assert homes == {0, 1, 2, 3}
    assert home_of("Orders", 4) == home_of("orders", 4) == 1  # stored: it never changes
    assert Partition(home_of("orders", 4), 4).holds("ORDERS")
    assert [home_of_id(Partition(number, 4).first_id + 1) for number in range(4)] == [0, 1, 2, 3]
