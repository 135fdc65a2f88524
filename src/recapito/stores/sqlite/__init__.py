"""The embedded store: SQLite by apsw, one writer for each file."""

from recapito.stores.sqlite.history import SqliteHistory, SqliteHistoryReader
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog

__all__ = ["SqliteHistory", "SqliteHistoryReader", "SqliteLedger", "SqliteLog"]
