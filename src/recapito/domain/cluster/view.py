"""The cluster as the parent process of a node tells it to its roles, each second and at every change."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from recapito.domain.cluster.member import NodeState

UNSYNCED = "sync"
"""The check that fails while a NATS server does not sync each commit: until then intake takes nothing."""
NOT_READY = ("peers", UNSYNCED)
"""The problems with which a node should get no requests: it does not reach the servers, or these may lose what it
acknowledges. With any other it does all that it can, and so do the other nodes, which have the same problem."""


class StreamCopy(msgspec.Struct, frozen=True):
    """A node's copy of a stream: how far it is, how far the stream is, and how full. `doubt`: an outcome is unknown."""

    stream: str
    applied: int
    last: int
    bytes: int
    max_bytes: int
    doubt: bool

    @property
    def behind(self) -> int:
        """The messages that the copy lacks."""
        return max(self.last - self.applied, 0)


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as its node sees it: its own state there, and the owner with its URL, empty while there is none."""

    number: int
    state: NodeState
    owner: str = ""
    url: str = ""


class ClusterView(msgspec.Struct, frozen=True):
    """The knowledge of a node about its cluster, and about the partition of the role that it is told to.

    Of several partitions, `partitions` has all. The router, which serves all of them, is told all owners in `owner`; it
    is empty while a partition has none.

    owner, owner_url: empty while there is none.
    term: the number of the owner's lease; it grows with each change of owners.
    renewed_at: the instant of the monotonic clock before this node's lease was last renewed; 0: it holds none.
    owned: the number of partitions that this node owns.
    members, urls: the living nodes with their states, and with their URLs.
    problems: why the cluster is not healthy, by the name of a check.
    replica_lag: the operations that each server is behind, the worst of both streams.
    """

    node: str
    state: NodeState
    owner: str = ""
    owner_url: str = ""
    term: int = 0
    owner_changes: int = 0
    renewed_at: int = 0
    owned: int = 0
    members: dict[str, str] = {}
    urls: dict[str, str] = {}
    copies: list[StreamCopy] = []
    problems: dict[str, str] = {}
    replica_lag: dict[str, int] = {}
    partitions: list[PartitionView] = []

    @property
    def failure(self) -> str | None:
        """The problem for which this node is not ready."""
        return next((self.problems[name] for name in NOT_READY if name in self.problems), None)

    @property
    def warnings(self) -> dict[str, str]:
        """The problems with which it is ready nevertheless, by their check."""
        return {name: why for name, why in self.problems.items() if name not in NOT_READY}


class Findings(NamedTuple):
    """The result of an inspection of the NATS servers: problems by their check, and the lag of each server's copies."""

    problems: Mapping[str, str] = {}
    replica_lag: Mapping[str, int] = {}
