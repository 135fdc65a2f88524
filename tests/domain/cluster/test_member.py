"""Members: who may join, and whose clock is wrong."""

from recapito.domain.cluster.member import (
    CLOCK_OFF_NS,
    ClusterMember,
    NodeState,
    Sighting,
    admission_problem,
    clock_problem,
)


def sighting(name: str = "a", id: str = "1", formats: str = "1.1", wall: int = 0, heard_at: int = 0) -> Sighting:
    member = ClusterMember(name, id, f"http://{name}", NodeState.STANDBY, "1.0", formats, 0, wall)
    return Sighting(member, heard_at)


def test_members_of_the_same_formats_may_join() -> None:
    """Another name and the same formats are welcome; so is the node itself."""
    assert admission_problem("b", "2", "1.1", [sighting()]) is None
    assert admission_problem("a", "1", "1.1", [sighting()]) is None


def test_a_name_that_lives_is_refused() -> None:
    """Two nodes of one name are told which one lives, and where."""
    assert "'a' lives, at http://a" in str(admission_problem("a", "2", "1.1", [sighting()]))


def test_another_format_is_refused_with_the_remedy() -> None:
    """A node of another version is told both formats, and how to upgrade."""
    problem = str(admission_problem("b", "2", "2.1", [sighting()]))
    assert "1.1" in problem
    assert "2.1" in problem
    assert "stop all nodes" in problem


def test_a_clock_may_be_off_by_a_second() -> None:
    """More than a second ahead or behind is a problem that names the node."""
    assert clock_problem(sighting(wall=CLOCK_OFF_NS)) is None
    assert "'a' is 1.5 s ahead of" in str(clock_problem(sighting(wall=3 * CLOCK_OFF_NS // 2)))
    assert "behind" in str(clock_problem(sighting(heard_at=2 * CLOCK_OFF_NS)))
