"""Peers in memory: the reference model. Several instances on one `Board` are several nodes."""

import asyncio
from collections.abc import Callable

from recapito.domain.cluster.lease import LIFE_NS, Lease, LeaseSeen
from recapito.domain.cluster.member import ClusterMember, Sighting
from recapito.domain.instant import SECOND
from recapito.errors import PeersFailed

WISH_NS = 30 * SECOND


class Board:
    """The memory of the cluster. `now` is its clock; `cut` holds the names of nodes that cannot reach it."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.cut: set[str] = set()
        self.members: dict[str, Sighting] = {}
        self.wishes: dict[str, tuple[bool, int]] = {}
        self.papers: dict[str, bytes] = {}
        self.leases: dict[int, tuple[Lease, int, int]] = {}  # by partition, with its revision and its instant
        self.revisions = 0
        self.news = asyncio.Event()  # a new one after each change


class MemoryPeers:
    """The peers as one node reaches them."""

    def __init__(self, board: Board, node: str = "") -> None:
        self._board = board
        self._node = node

    def __repr__(self) -> str:
        return f"<MemoryPeers of {self._node or 'no node'}>"

    async def announce(self, member: ClusterMember, news: bool = False) -> None:
        board = self._reach()
        board.members[member.name] = Sighting(member, board.now())
        if news:
            self._tell(board)

    async def withdraw(self, name: str) -> None:
        self._reach().members.pop(name, None)

    async def members(self) -> list[Sighting]:
        board = self._reach()
        living = (seen for seen in board.members.values() if board.now() - seen.heard_at < LIFE_NS)
        return sorted(living, key=lambda seen: seen.member.name)

    async def lease(self, partition: int = 0) -> LeaseSeen:
        return self._seen(self._reach(), partition)

    async def put_lease(self, lease: Lease, revision: int, partition: int = 0) -> int | None:
        board = self._reach()
        if self._seen(board, partition).revision != revision:
            return None
        board.revisions += 1
        board.leases[partition] = (lease, board.revisions, board.now())
        if lease.free:
            self._tell(board)
        return board.revisions

    async def ask_to_drain(self, id: str, drained: bool) -> None:
        board = self._reach()
        board.wishes[id] = (drained, board.now())
        self._tell(board)

    async def drain_asked(self, id: str) -> bool | None:
        board = self._reach()
        wish, at = board.wishes.get(id, (None, 0))
        return wish if board.now() - at < WISH_NS else None

    async def put_paper(self, name: str, content: bytes) -> bool:
        board = self._reach()
        fresh = name not in board.papers
        board.papers.setdefault(name, content)
        return fresh

    async def paper(self, name: str) -> bytes | None:
        return self._reach().papers.get(name)

    async def changed(self) -> None:
        await self._board.news.wait()
        while self._node in self._board.cut:
            await self._board.news.wait()

    async def close(self) -> None:
        """Nothing is open."""

    @staticmethod
    def _tell(board: Board) -> None:
        board.news.set()
        board.news = asyncio.Event()

    def _reach(self) -> Board:
        if self._node in self._board.cut:
            raise PeersFailed(f"node '{self._node}' is cut off")
        return self._board

    def _seen(self, board: Board, partition: int) -> LeaseSeen:
        stored = board.leases.get(partition)
        if stored is None or board.now() - stored[2] >= LIFE_NS:
            return LeaseSeen(None)
        return LeaseSeen(*stored[:2])
