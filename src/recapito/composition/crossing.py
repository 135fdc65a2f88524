"""The ways from a node to each partition of its cluster: for its router, and for the calls of its intakes."""

from collections.abc import Callable
from functools import partial

from recapito.api.router.calls import PartitionCalls
from recapito.api.router.forward import UNIX, Forwarder
from recapito.composition.cluster_secret import read_secret
from recapito.composition.identity import make_node_tls
from recapito.composition.partition_paths import socket_of
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


def _partition_url(settings: Settings, view: Callable[[], ClusterView], number: int) -> str:
    """The way to the owner of a partition: a socket in this node, or the router of another one."""
    known = view()
    if number >= len(known.partitions):
        return ""
    partition = known.partitions[number]
    if partition.owner != known.node:
        return partition.url
    return f"{UNIX}{socket_of(settings.data, number)}" if partition.state is NodeState.OWNER else ""
