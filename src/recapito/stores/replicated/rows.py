"""Rows of a file as values: captured while a transaction writes them, applied to a copy, and summed up in a digest.

A row is a tuple of all its columns. A row of a table without a key of its own is known by SQLite's rowid, which comes
first then. An operation is one of three, told apart by its length and its end:

- put: (table, row), whatever was there before;
- change: (table, key, [column, value, …]), of a row that is there;
- gone: (table, key, None).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import apsw
import msgspec

Row = tuple[Any, ...]
Operation = Sequence[Any]
NOTE = "replica"  # the table in which a copy remembers its place in the stream; it is no part of the content
MASK = (1 << 64) - 1

_encode = msgspec.msgpack.Encoder().encode


class Diverged(Exception):
    """An operation does not fit the copy: the copy is not what the owner's file was."""


class Digest(NamedTuple):
    """The number of rows of a file, and the sum of their hashes: equal for equal content, whatever the order."""

    rows: int = 0
    sum: int = 0


class ReplicatedTable:
    """One table: its columns, its key, and the statements that put, change and remove a row."""

    def __init__(self, number: int, name: str, types: Mapping[str, str], key: Sequence[int], hidden: bool) -> None:
        self.number = number
        self.name = name
        self.hidden = hidden  # the key is the rowid, and no column
        self.columns = ["rowid", *types] if hidden else list(types)
        self._types = types
        self._key = [0] if hidden else list(key)
        self._quoted = [_quote(column) for column in self.columns]
        self._summed = "checksum" in types
        self._changes: dict[tuple[int, ...], str] = {}
        self.key = itemgetter(*self._key)

    def key_of(self, row: Row) -> Row:
        """The key of a row, as a tuple."""
        return (row[0],) if self._key == [0] else tuple(row[place] for place in self._key)

    def hash(self, row: Row) -> int:
        """A hash of 64 bits. Of a row with a checksum, which covers its blobs, they count with their lengths alone."""
        if self._summed:
            row = tuple([len(value) if type(value) is bytes else value for value in row])
        return _hash(self.number, row)

    def digest(self, connection: apsw.Connection) -> Digest:
        """The digest of all rows. SQLite gives the lengths of blobs that count by them, so that none is copied."""
        counted = [
            f"length({quoted})" if self._summed and self._types.get(column) == "BLOB" else quoted
            for column, quoted in zip(self.columns, self._quoted, strict=True)
        ]
        rows = connection.execute(f"SELECT {', '.join(counted)} FROM {_quote(self.name)}")
        count = total = 0
        for row in rows:
            count += 1
            total += _hash(self.number, row)
        return Digest(count, total)

    @cached_property
    def put(self) -> str:
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT OR REPLACE INTO {_quote(self.name)} ({', '.join(self._quoted)}) VALUES ({marks})"

    @cached_property
    def remove(self) -> str:
        return f"DELETE FROM {_quote(self.name)} WHERE {self._is_key}"

    def change(self, columns: tuple[int, ...]) -> str:
        """The statement that changes these columns of the row under a key."""
        if columns not in self._changes:
            values = ", ".join(f"{self._quoted[place]} = ?" for place in columns)
            self._changes[columns] = f"UPDATE {_quote(self.name)} SET {values} WHERE {self._is_key}"
        return self._changes[columns]

    def walk(self, connection: apsw.Connection, after: Row | None = None) -> Iterator[Row]:
        """Rows in the order of their keys, from the first one after a key on, read as they are taken."""
        keys = ", ".join(self._quoted[place] for place in self._key)
        where = "" if after is None else f"WHERE ({keys}) > ({', '.join('?' * len(after))})"
        sql = f"SELECT {', '.join(self._quoted)} FROM {_quote(self.name)} {where} ORDER BY {keys}"
        yield from connection.execute(sql, after or ())

    @cached_property
    def _is_key(self) -> str:
        return " AND ".join(f"{self._quoted[place]} = ?" for place in self._key)


_INDEXES = """
SELECT list.name, made.sql
FROM sqlite_schema AS made, pragma_index_list(made.tbl_name) AS list
WHERE made.type = 'index' AND made.name = list.name AND list."unique" = 0
"""


class Schema:
    """The replicated tables of a file, by their numbers and names."""

    def __init__(self, connection: apsw.Connection) -> None:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> ? ORDER BY name"
        self.tables = [_table(connection, n, name) for n, (name,) in enumerate(connection.execute(names, (NOTE,)))]
        self.by_name = {table.name: table for table in self.tables}
        self.version = int(connection.pragma("user_version"))

    def apply(self, connection: apsw.Connection, operations: Iterable[Operation], partial: bool) -> None:
        """Apply operations to a copy. In a `partial` one, rows that are still to be put again may be missing."""
        try:
            for (number, puts), alike in groupby(operations, key=lambda operation: (operation[0], len(operation) == 2)):
                table = self.tables[number]
                if puts:
                    connection.executemany(table.put, map(itemgetter(1), alike))
                    continue
                for _, key, change in alike:
                    if change is None:
                        connection.execute(table.remove, key)
                    else:
                        connection.execute(table.change(tuple(change[::2])), (*change[1::2], *key))
                    if connection.changes() != 1 and not partial:
                        raise Diverged(f"{table.name} has no row {key}")
        except apsw.ConstraintError as error:
            raise Diverged(str(error)) from error

    def digest(self, connection: apsw.Connection) -> Digest:
        """The digest of a file, by reading it whole."""
        parts = [table.digest(connection) for table in self.tables]
        return Digest(sum(part.rows for part in parts), sum(part.sum for part in parts) & MASK)

    def sum_up(self, puts: Iterable[Operation], before: Digest) -> Digest:
        """The digest after these rows were added."""
        hashes = [self.tables[number].hash(row) for number, row in puts]
        return Digest(before.rows + len(hashes), (before.sum + sum(hashes)) & MASK)

    def drop_indexes(self, connection: apsw.Connection) -> list[str]:
        """Drop the indexes, and return the statements that make them again; those that keep rows unique stay.

        An index that is made of all rows at once takes half the time, and no page of it is written twice.
        """
        found: list[Any] = connection.execute(_INDEXES).fetchall()
        for name, _ in found:
            connection.execute(f"DROP INDEX {_quote(name)}")
        return [sql for _, sql in found]

    def make_indexes(self, connection: apsw.Connection, statements: Iterable[str]) -> None:
        """Make dropped indexes again. SQLite sorts in temporary files, or in memory if there is no place for them."""
        for statement in statements:
            try:
                connection.pragma("temp_store", "FILE")
                connection.execute(statement)
            except apsw.Error:
                connection.pragma("temp_store", "MEMORY")
                connection.execute(statement)
            finally:
                connection.pragma("temp_store", "MEMORY")

    def clear(self, connection: apsw.Connection) -> None:
        """Remove every row."""
        for table in self.tables:
            connection.execute(f"DELETE FROM {_quote(table.name)}")


class Capture:
    """Gathers the operations of a transaction and the digest after it, by SQLite's hook before each change of a row."""

    def __init__(self, connection: apsw.Connection, schema: Schema, before: Digest) -> None:
        self._connection = connection
        self._tables = schema.by_name
        self.operations: list[Operation] = []
        self._rows, self._sum = before

    def __enter__(self) -> "Capture":
        self._connection.preupdate_hook(self._changing)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.preupdate_hook(None)

    @property
    def digest(self) -> Digest:
        return Digest(self._rows, self._sum & MASK)

    def _changing(self, update: apsw.PreUpdate) -> None:
        table = self._tables.get(update.table_name)
        if table is None:
            return
        hidden = (update.rowid,) if table.hidden else ()
        old: Any = update.old
        new: Any = update.new
        if old is None:
            row = hidden + new
            self._rows += 1
            self._sum += table.hash(row)
            self.operations.append((table.number, row))
            return
        before = hidden + old
        self._sum -= table.hash(before)
        if new is None:
            self._rows -= 1
            self.operations.append((table.number, table.key_of(before), None))
            return
        row = (update.rowid_new, *new) if table.hidden else new
        self._sum += table.hash(row)
        if table.key(row) != table.key(before):
            self.operations += [(table.number, table.key_of(before), None), (table.number, row)]
            return
        change = [part for n, value in enumerate(row) if value != before[n] for part in (n, value)]
        if change:
            self.operations.append((table.number, table.key_of(row), change))


def _table(connection: apsw.Connection, number: int, name: str) -> ReplicatedTable:
    found: list[Any] = connection.execute(f"PRAGMA table_info({_quote(name)})").fetchall()
    keyed = sorted((place, column) for column, *_, place in found if place)
    types = {column: kind for _, column, kind, *_ in found}
    unhidden = _without_rowid(connection, name) or (len(keyed) == 1 and found[keyed[0][1]][2] == "INTEGER")
    return ReplicatedTable(number, name, types, [place for _, place in keyed], not unhidden)


def _hash(number: int, row: Row) -> int:
    return int.from_bytes(blake2b(_encode((number, row)), digest_size=8).digest(), "big")


def _without_rowid(connection: apsw.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", (name,)).get)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if name != "rowid" else name
