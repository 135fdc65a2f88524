"""The store in memory: the reference model that every other store is compared with, and the store of `--memory`."""

from recapito.stores.memory.disk import MemoryDisk
from recapito.stores.memory.history import MemoryHistory
from recapito.stores.memory.ledger import MemoryLedger
from recapito.stores.memory.log import MemoryLog

__all__ = ["MemoryDisk", "MemoryHistory", "MemoryLedger", "MemoryLog"]
