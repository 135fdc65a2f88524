"""A stored row that is not what was written: the Registry reports such rows, the Ledger sets them aside."""

from typing import NamedTuple


class Damage(NamedTuple):
    """A damaged row, kept for a person. `content` and `columns` are its bytes; a lane's content has version and books.

    The ledger gives each row that it sets aside a `number`, in the order in which the rows were found.
    """

    table: str  # entry, parked, burial, lane, notice; topic, subscription, document
    topic: int = 0
    lane: int = 0
    position: int = 0
    offset: int = 0
    events: int = 1
    content: bytes = b""
    columns: bytes = b""
    number: int = 0
