"""The contract of the peers: the nodes of one cluster, the leases of its owners, and the papers that all nodes share.

Nothing here protects an event: the fence of the streams does. Peers only say who tries.

Promises: a member that is not announced again, and a lease that is not put again, are forgotten after `LIFE_NS` of the
cluster's clock, and not before. `put_lease` is atomic over all nodes. Papers stay. A look at members or at the lease is
a hint: a server that has just lost its lead may answer with an older content. Every verb raises PeersFailed if its
outcome is unknown.
"""

from collections.abc import Sequence
from typing import Protocol

from recapito.domain.cluster.lease import Lease, LeaseSeen
from recapito.domain.cluster.member import ClusterMember, Sighting


class Peers(Protocol):
    """The nodes of one cluster."""

    async def announce(self, member: ClusterMember, news: bool = False) -> None:
        """Say that a node lives. With `news` the others look at once."""

    async def withdraw(self, name: str) -> None:
        """Forget a node at once, if it is known."""

    async def members(self) -> Sequence[Sighting]:
        """The living nodes, by name."""

    async def lease(self, partition: int = 0) -> LeaseSeen:
        """The lease of a partition as it is."""

    async def put_lease(self, lease: Lease, revision: int, partition: int = 0) -> int | None:
        """Put a lease, if its revision is still this one (0: absent). The new revision; None: it was another."""

    async def ask_to_drain(self, id: str, drained: bool) -> None:
        """Ask this run of a node to give up its leases and not to try (True), or to try again (False)."""

    async def drain_asked(self, id: str) -> bool | None:
        """The last such wish of the last half minute; None if there is none."""

    async def put_paper(self, name: str, content: bytes) -> bool:
        """Keep a paper for all nodes. False: there is one of this name, which stays."""

    async def paper(self, name: str) -> bytes | None:
        """The paper of this name."""

    async def changed(self) -> None:
        """Wait until any node gives a lease up, puts a wish or announces news. A hint, which may be lost."""

    async def close(self) -> None:
        """End all work; leases and members run out."""
