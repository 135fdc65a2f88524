"""Damaging what is stored, behind a store's back: in memory, and in SQLite's files."""

from contextlib import closing
from pathlib import Path

import apsw

from recapito.contracts.damage import Damage
from recapito.contracts.log import EntryKind
from recapito.domain.delivery.delivery import DeliveryId
from recapito.stores.memory import MemoryDisk


class MemorySpoiler:
    """Damages rows of a disk in memory; each verb says whether the row was there."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def entry(self, topic: int, position: int) -> bool:
        """Damage an entry of the log."""
        stored = self._disk.topics.get(topic)
        if stored is None or not stored.first <= position <= stored.end:
            return False
        index = position - stored.first
        stored.entries[index] = stored.entries[index]._replace(kind=EntryKind.DAMAGED)
        return True

    def row(self, table: str, lane: int, identity: DeliveryId) -> bool:
        """Damage a parked delivery or a dead letter."""
        stored = self._disk.lanes[lane]
        if identity not in (stored.parked if table == "parked" else stored.burials):
            return False
        stored.spoilt.add(identity)
        return True

    def lane(self, id: int) -> bool:
        """Damage the row of a lane."""
        self._disk.lanes[id].rotten = True
        return True

    def topic(self, id: int) -> bool:
        """Damage the record of a topic."""
        self._disk.rotten["topic", id] = Damage("topic", id, content=b"rotten")
        return True

    def subscription(self, id: int) -> bool:
        """Damage the record of a subscription."""
        topic = self._disk.subscriptions[id].topic
        self._disk.rotten["subscription", id] = Damage("subscription", topic, id, content=b"rotten")
        return True

    def document(self, kind: str, key: str) -> bool:
        """Damage a document."""
        columns = f"{kind} {key}".encode()
        self._disk.rotten["document", (kind, key)] = Damage("document", content=b"rotten", columns=columns)
        return True


class FileSpoiler:
    """Damages rows of SQLite's files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def entry(self, topic: int, position: int) -> bool:
        """Damage an entry of the log."""
        place = f"topic = {topic} AND position = {position}"
        return self.run("log.db", f"UPDATE entry SET checksum = checksum + 1 WHERE {place}")

    def row(self, table: str, lane: int, identity: DeliveryId) -> bool:
        """Damage a parked delivery or a dead letter."""
        place = f'lane = {lane} AND position = {identity.position} AND "offset" = {identity.offset}'
        return self.run("dispatch.db", f"UPDATE {table} SET checksum = checksum + 1 WHERE {place}")

    def lane(self, id: int) -> bool:
        """Damage the row of a lane."""
        return self.run("dispatch.db", f"UPDATE lane SET cursor = '[[1,1],[]]' WHERE id = {id}")

    def topic(self, id: int) -> bool:
        """Damage the record of a topic."""
        return self.run("log.db", f"UPDATE topic SET doc = replace(doc, '\"g\"', '\"h\"') WHERE id = {id}")

    def subscription(self, id: int) -> bool:
        """Damage the record of a subscription."""
        return self.run("log.db", f"UPDATE subscription SET doc = replace(doc, 'hook', 'hack') WHERE id = {id}")

    def document(self, kind: str, key: str) -> bool:
        """Damage a document."""
        return self.run("log.db", f"UPDATE document SET content = x'00' WHERE kind = '{kind}' AND key = '{key}'")

    def run(self, file: str, sql: str) -> bool:
        """Run a statement that changes one row, if it is there."""
        with closing(apsw.Connection(str(self._directory / file))) as connection:
            connection.wal_autocheckpoint(0)  # the server would see that another program wrote to its file
            connection.execute(sql)
            assert connection.changes() <= 1
            return bool(connection.changes())
