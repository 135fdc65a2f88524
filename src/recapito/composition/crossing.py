"""The ways from a node to each partition of its cluster: for its router, and for the calls of its intakes; and those to
the histories of other nodes."""

from collections.abc import Callable
from functools import partial

from recapito.api.router.calls import PartitionCalls
from recapito.api.router.forward import UNIX, Forwarder
from recapito.api.router.histories import NodeHistories
from recapito.composition.cluster_secret import read_secret
from recapito.composition.identity import make_node_tls
from recapito.composition.partition_paths import directory_of, socket_of
from recapito.contracts.history import HistoryReader
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.partition import Partition
from recapito.domain.cluster.view import ClusterView
from recapito.settings.settings import Settings


def make_forwarders(settings: Settings, view: Callable[[], ClusterView], partitions: int) -> list[Forwarder]:
    """A forwarder to the owner of each partition."""
    secret, tls = read_secret(settings), make_node_tls(settings)
    return [
        Forwarder(partial(_partition_url, settings, view, number), secret, tls, partition=number)
        for number in range(partitions)
    ]


def make_calls(settings: Settings, view: Callable[[], ClusterView], partition: Partition) -> PartitionCalls:
    """The calls of a partition to the others."""
    forwarders = dict(enumerate(make_forwarders(settings, view, partition.of)))
    del forwarders[partition.number]
    return PartitionCalls(partition.number, forwarders)


def make_histories(settings: Settings, view: Callable[[], ClusterView], partition: Partition) -> NodeHistories:
    """The histories of a partition at the other nodes."""
    secret, tls = read_secret(settings), make_node_tls(settings)
    return NodeHistories(view, lambda url: Forwarder(url, secret, tls), partition.number)


def open_history(settings: Settings, partitions: int, number: int) -> HistoryReader | None:
    """The history that this node kept while it owned a partition; None if it has none."""
    from recapito.stores.sqlite import SqliteHistoryReader  # a router loads SQLite only when it is asked
    from recapito.stores.sqlite.files.connection import HISTORY

    directory = directory_of(settings.data, Partition(number, partitions))
    return SqliteHistoryReader(directory) if (directory / HISTORY.file).exists() else None


def _partition_url(settings: Settings, view: Callable[[], ClusterView], number: int) -> str:
    """The way to the owner of a partition: a socket in this node, or the router of another one."""
    known = view()
    if number >= len(known.partitions):
        return ""
    partition = known.partitions[number]
    if partition.owner != known.node:
        return partition.url
    return f"{UNIX}{socket_of(settings.data, number)}" if partition.state is NodeState.OWNER else ""
