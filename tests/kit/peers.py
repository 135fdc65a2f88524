"""Wishes of an operator, as `recapito cluster drain` has them heard."""

from recapito.peers.memory import Board, MemoryPeers


async def ask_to_drain(board: Board, node: str, drained: bool) -> None:
    """Ask the run of a node that lives now, or lived last."""
    seen = board.members.get(node)
    if seen is not None:
        await MemoryPeers(board).ask_to_drain(seen.member.id, drained)
