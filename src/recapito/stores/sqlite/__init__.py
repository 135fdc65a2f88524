"""The embedded store: SQLite by apsw, two files, one writer each."""

from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog

__all__ = ["SqliteLedger", "SqliteLog"]
