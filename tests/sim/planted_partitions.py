"""Parts of a cluster of several partitions that are wrong, silently: the histories of `partitions` must find each."""

from collections.abc import Sequence
from typing import Any

from recapito.api.router.partitions import PartitionRouter
from recapito.domain.cluster.lease import LeaseSeen
from recapito.identity.cluster_secret import ClusterSecret
from tests.sim.partitions import PartitionParts, PartitionStreams, SimPeers


class UnfencedStreams(PartitionStreams):
    """They store the commits of former owners too."""

    def takes(self, epoch: int) -> bool:
        return True


class LonelyPeers(SimPeers):
    """They show a node no other member."""

    async def members(self) -> list[Any]:
        return [seen for seen in await super().members() if seen.member.name == self._node]


class FaithfulPeers(SimPeers):
    """They show the lease of a node forever, though it is dead."""

    def _seen(self, board: Any, partition: int) -> LeaseSeen:
        stored = board.leases.get(partition)
        return super()._seen(board, partition) if stored is None or stored[0].free else LeaseSeen(*stored[:2])


def misnumbered(forwarders: Sequence[Any], secret: ClusterSecret) -> PartitionRouter:
    """A router that takes one partition for another."""
    return PartitionRouter([*forwarders[1:], forwarders[0]], secret)


UNFENCED = PartitionParts(streams=UnfencedStreams)
LONELY = PartitionParts(peers=LonelyPeers)
FAITHFUL = PartitionParts(peers=FaithfulPeers)
MISNUMBERED = PartitionParts(router=misnumbered)
SENDS_ALWAYS = PartitionParts(may_send=lambda renewed_at, now: True)
