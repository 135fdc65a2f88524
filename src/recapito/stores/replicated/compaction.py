"""Compaction: it puts rows again, so that the old part of a stream can be purged.

It walks once through all tables in the order of their keys, a slice in each commit. When it is through, every living
row is in the messages since its start: put again by the walk, or put since. So the messages before the start are no
longer needed, and a stream stays within a small multiple of the living rows.
"""

from typing import NamedTuple

import apsw

from recapito.domain import limits
from recapito.stores.replicated.rows import Operation, Row, Schema


class Fill(NamedTuple):
    """The bytes of a stream, its bound (0: none), and the bytes of the file's living rows.

    share: the size of recent commits in the stream against that of their rows, which it compresses.
    """

    bytes: int = 0
    max_bytes: int = 0
    living: int = 0
    share: float = 1.0

    def after(self, stored: int, rows: int) -> "Fill":
        """The fill after a commit: its bytes in the stream, and those of its rows."""
        weight = min(1.0, rows / limits.COMPACTION_LEAST_BYTES)
        return self._replace(share=self.share + weight * (min(1.0, stored / rows) - self.share)) if rows else self

    def is_over(self, fraction: float) -> bool:
        return bool(self.max_bytes) and self.bytes > fraction * self.max_bytes

    @property
    def wants_compaction(self) -> bool:
        """Whether compaction is worth it: most of the stream is old, or it is half full and a third is old."""
        living = self.share * self.living
        if self.bytes > limits.COMPACTION_LEAST_BYTES + 2 * living:
            return True
        return self.is_over(limits.COMPACTION_FILL) and 2 * self.bytes > 3 * living


class Compaction:
    """One walk, which began when the stream was at `start` - 1."""

    def __init__(self, schema: Schema, start: int) -> None:
        self.start = start
        self._tables = list(schema.tables)
        self._after: Row | None = None

    @property
    def done(self) -> bool:
        return not self._tables

    def step(self, connection: apsw.Connection, size: int) -> list[Operation]:
        """The next rows, of about `size` bytes, as they are now."""
        put: list[Operation] = []
        while self._tables:
            table = self._tables[0]
            for row in table.walk(connection, self._after):
                put.append((table.number, row))
                self._after = table.key_of(row)
                size -= sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
                if size <= 0:
                    return put
            self._tables.pop(0)
            self._after = None
        return put
