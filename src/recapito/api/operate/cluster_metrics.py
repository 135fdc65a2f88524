"""The metrics of a node of a cluster, which the owner and every standby show, each for itself."""

from collections.abc import Collection
from time import monotonic_ns

from recapito.api.operate.prometheus_text import Metric, PrometheusText, labels
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView
from recapito.domain.instant import SECOND

STATE = Metric("recapito_cluster_state", "gauge", "1 for the state that this node has.", ("state",))
MEMBERS = Metric("recapito_cluster_members", "gauge", "Living nodes that this node knows of, itself included.")
HAS_OWNER = Metric("recapito_cluster_has_owner", "gauge", "1 while this node knows of an owner of every partition.")
PARTITIONS = Metric("recapito_cluster_partitions", "gauge", "Partitions of the cluster.")
OWNED = Metric("recapito_cluster_owned_partitions", "gauge", "Partitions that this node owns.")
CHANGES = Metric(
    "recapito_cluster_owner_changes", "counter", "Changes of the owner that this node has seen since its start."
)
LEASE_AGE = Metric(
    "recapito_cluster_lease_age_seconds", "gauge", "Seconds since the owner renewed its lease; at 4 it sends nothing."
)
BEHIND = Metric(
    "recapito_cluster_copy_behind",
    "gauge",
    "Messages of a stream that this node has not applied.",
    ("stream",),
)
BYTES = Metric("recapito_cluster_stream_bytes", "gauge", "Size of a stream.", ("stream",))
MAX_BYTES = Metric(
    "recapito_cluster_stream_max_bytes",
    "gauge",
    "The size that a stream may have; publishing stops at 80 % of it.",
    ("stream",),
)
DOUBT = Metric(
    "recapito_cluster_doubt", "gauge", "1 while the outcome of intake's last commit is unknown.", ("stream",)
)
REPLICA_LAG = Metric(
    "recapito_cluster_replica_lag", "gauge", "Operations that a server's copy of a stream is behind.", ("server",)
)
HEALTHY = Metric("recapito_cluster_healthy", "gauge", "1 while no check of the cluster fails, otherwise 0.")
FORWARDS = Metric(
    "recapito_cluster_forwards",
    "counter",
    "Requests forwarded to the owner since the start: answered ones, unsent ones, and those whose outcome is unknown.",
    ("outcome",),
)
CLUSTER_TABLE = (
    STATE,
    MEMBERS,
    HAS_OWNER,
    PARTITIONS,
    OWNED,
    CHANGES,
    LEASE_AGE,
    BEHIND,
    BYTES,
    MAX_BYTES,
    DOUBT,
    REPLICA_LAG,
    HEALTHY,
    FORWARDS,
)


def add_cluster(metrics: PrometheusText, view: ClusterView, table: Collection[Metric] = CLUSTER_TABLE) -> None:
    """Add the samples of one view, of the families in the table."""
    for state in NodeState:
        metrics.add(STATE, int(state is view.state), labels({"state": state}))
    metrics.add(MEMBERS, len(view.members))
    metrics.add(HAS_OWNER, int(bool(view.owner)))
    metrics.add(PARTITIONS, len(view.partitions) or 1)
    metrics.add(OWNED, view.owned)
    metrics.add(CHANGES, view.owner_changes)
    if view.renewed_at:
        metrics.add(LEASE_AGE, (monotonic_ns() - view.renewed_at) / SECOND)
    for copy in view.copies:
        written = labels({"stream": copy.stream})
        metrics.add(BEHIND, copy.behind, written)
        metrics.add(BYTES, copy.bytes, written)
        metrics.add(MAX_BYTES, copy.max_bytes, written)
        if DOUBT in table:
            metrics.add(DOUBT, int(copy.doubt), written)
    for server, lag in view.replica_lag.items():
        metrics.add(REPLICA_LAG, lag, labels({"server": server}))
    metrics.add(HEALTHY, int(not view.problems))
