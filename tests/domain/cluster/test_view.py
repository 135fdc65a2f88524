"""The view of a cluster: which problems take a node out of service."""

import pytest

from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView


@pytest.mark.parametrize("name", ["monitors", "replicas", "store", "clock"])
def test_a_node_that_does_all_it_can_is_ready(name: str) -> None:
    """A server that is away, a copy that lacks messages, and faults that forbid it to own are warnings."""
    view = ClusterView("a", NodeState.OWNER, problems={name: "why"})
    assert view.failure is None and view.warnings == {name: "why"}


@pytest.mark.parametrize("name", ["peers", "sync"])
def test_a_node_that_is_cut_off_or_may_lose_events_is_not_ready(name: str) -> None:
    """One that reaches no servers does nothing, and servers that do not sync may lose what is acknowledged."""
    view = ClusterView("a", NodeState.OWNER, problems={"replicas": "other", name: "why"})
    assert view.failure == "why" and view.warnings == {"replicas": "other"}
