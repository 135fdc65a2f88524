"""How a node of a cluster tells its roles what it knows: datagrams from the parent process, each a whole view."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

import msgspec

from recapito.domain import limits
from recapito.domain.cluster.lease import may_send
from recapito.domain.cluster.member import NodeState
from recapito.domain.cluster.view import ClusterView

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ClusterView).decode


class LinkEnds:
    """The parent's side: a pair of sockets for each role.

    A role that is slow misses a view and gets the next; one that starts finds the last one.
    """

    def __init__(self, roles: tuple[str, ...]) -> None:
        self._pairs = {role: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for role in roles}
        for ours, _ in self._pairs.values():
            ours.setblocking(False)
        self.running: set[str] = set()

    def __repr__(self) -> str:
        return f"<LinkEnds to {', '.join(self._pairs)}>"

    @property
    def of_roles(self) -> dict[str, socket.socket]:
        """The ends that the roles get."""
        return {role: theirs for role, (_, theirs) in self._pairs.items()}

    def tell(self, view: ClusterView) -> None:
        content = _encode(view)
        for role, (ours, theirs) in self._pairs.items():
            if role not in self.running:
                with suppress(BlockingIOError):  # an unread view is old now
                    while theirs.recv(limits.CLUSTER_VIEW_BYTES, socket.MSG_DONTWAIT):
                        pass
            with suppress(OSError):
                ours.send(content)

    def close(self) -> None:
        for pair in self._pairs.values():
            for end in pair:
                end.close()


class NodeLink:
    """A role's side: the last view. Before the first one, nothing is known and nothing may be sent."""

    def __init__(self, number: int, node: str) -> None:
        self._end = socket.socket(fileno=number)
        self._end.setblocking(False)
        self.view = ClusterView(node, NodeState.STARTING)

    def __repr__(self) -> str:
        return f"<NodeLink of {self.view.node}>"

    def listen(self, on_view: Callable[[], None] = lambda: None) -> None:
        """Read views as they come, and call `on_view` after each."""

        def read() -> None:
            with suppress(BlockingIOError):
                while content := self._end.recv(limits.CLUSTER_VIEW_BYTES):
                    self.view = _decode(content)
            on_view()

        asyncio.get_running_loop().add_reader(self._end.fileno(), read)

    def may_send(self) -> bool:
        """Whether this node's lease was renewed a moment ago."""
        return may_send(self.view.renewed_at, monotonic_ns())
