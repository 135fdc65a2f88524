"""The embedded store: SQLite by apsw, one writer for each file.

`log`, `ledger` and `history` implement the contracts by running the functions of `sql/` in transactions of `database`,
on the files that `files/` opens and watches. A commit is synced before it is answered.
"""

from recapito.stores.sqlite.history import SqliteHistory, SqliteHistoryReader
from recapito.stores.sqlite.ledger import SqliteLedger
from recapito.stores.sqlite.log import SqliteLog

__all__ = ["SqliteHistory", "SqliteHistoryReader", "SqliteLedger", "SqliteLog"]
