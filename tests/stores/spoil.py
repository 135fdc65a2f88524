"""Damaging what is stored, behind a store's back: in memory, and in SQLite's files."""

from contextlib import closing
from pathlib import Path

import apsw
from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.log import EntryKind
from recapito.domain.delivery.delivery import DeliveryId
from recapito.stores.memory import MemoryDisk

FLIPPED = 64  # a bit of a number


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

    def lane(self, id: int, part: str = "cursor", count: str = "matched") -> bool:
        """Damage the row of a lane: its cursor, its version or its books. The next settlement mends only the first."""
        stored = self._disk.lanes.get(id)
        if stored is None:
            return False
        row = stored.lane
        if part == "version":
            stored.lane = replace(row, version=row.version + FLIPPED)
        elif part == "books":
            more: dict[str, int] = {count: getattr(row.counts, count) + FLIPPED}
            stored.lane = replace(row, counts=replace(row.counts, **more))
        stored.rotten = True
        return True

    def notice(self, number: int) -> bool:
        """Damage a notice, which can still be decoded."""
        self._disk.rotten_notices.add(number)
        return number in self._disk.notices

    def topic(self, id: int) -> bool:
        """Damage the record of a topic."""
        if id not in self._disk.topics:
            return False
        self._disk.rotten["topic", id] = Damage("topic", id, content=b"rotten")
        return True

    def subscription(self, id: int) -> bool:
        """Damage the record of a subscription."""
        if id not in self._disk.subscriptions:
            return False
        topic = self._disk.subscriptions[id].topic
        self._disk.rotten["subscription", id] = Damage("subscription", topic, id, content=b"rotten")
        return True

    def document(self, kind: str, key: str) -> bool:
        """Damage a document."""
        if (kind, key) not in self._disk.documents:
            return False
        columns = f"{kind} {key}".encode()
        self._disk.rotten["document", (kind, key)] = Damage("document", content=b"rotten", columns=columns)
        return True

    def restore(self) -> None:
        """Records of the registry are whole again, as from a backup."""
        self._disk.rotten.clear()


class FileSpoiler:
    """Damages rows of SQLite's files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._restoring: list[str] = []

    def entry(self, topic: int, position: int) -> bool:
        """Damage an entry of the log."""
        place = f"topic = {topic} AND position = {position}"
        return self.run("log.db", f"UPDATE entry SET checksum = checksum + 1 WHERE {place}")

    def row(self, table: str, lane: int, identity: DeliveryId) -> bool:
        """Damage a parked delivery or a dead letter."""
        place = f'lane = {lane} AND position = {identity.position} AND "offset" = {identity.offset}'
        return self.run("dispatch.db", f"UPDATE {table} SET checksum = checksum + 1 WHERE {place}")

    def lane(self, id: int, part: str = "cursor", count: str = "matched") -> bool:
        """Damage the row of a lane: its cursor, its version or its books. The next settlement mends only the first."""
        change = {
            "cursor": "cursor = '[[1,1],[]]'",
            "version": f"version = version + {FLIPPED}",
            "books": f"{count} = {count} + {FLIPPED}",
        }
        return self.run("dispatch.db", f"UPDATE lane SET {change[part]} WHERE id = {id}")

    def notice(self, number: int) -> bool:
        """Damage a notice, which can still be decoded."""
        return self.run("dispatch.db", f"UPDATE notice SET checksum = checksum + 1 WHERE number = {number}")

    def topic(self, id: int) -> bool:
        """Damage the record of a topic."""
        return self._record("topic", "doc", f"id = {id}")

    def subscription(self, id: int) -> bool:
        """Damage the record of a subscription."""
        return self._record("subscription", "doc", f"id = {id}")

    def document(self, kind: str, key: str) -> bool:
        """Damage a document."""
        return self._record("document", "content", f"kind = '{kind}' AND key = '{key}'")

    def restore(self) -> None:
        """Records of the registry are whole again, as from a backup; but for those that were written anew since."""
        for sql in self._restoring:
            self.run("log.db", sql)
        self._restoring.clear()

    def _record(self, table: str, column: str, place: str) -> bool:
        """Damage a record so that it can still be decoded: the checksum alone tells."""
        of = "doc || ' '" if column == "doc" else "CAST(content || x'20' AS BLOB)"
        with closing(self._connect("log.db")) as connection:
            sum = connection.execute(f"SELECT checksum FROM {table} WHERE {place}").get
        if sum is None:
            return False
        whole = f"substr({column}, 1, length({column}) - 1)"
        spoilt = self.run("log.db", f"UPDATE {table} SET {column} = {of}, checksum = checksum + 1 WHERE {place}")
        self._restoring.append(
            f"UPDATE {table} SET {column} = {whole}, checksum = {sum} WHERE {place} AND checksum = {sum} + 1"
        )
        return spoilt

    def run(self, file: str, sql: str) -> bool:
        """Run a statement that changes one row, if it is there."""
        with closing(self._connect(file)) as connection:
            connection.execute(sql)
            assert connection.changes() <= 1
            return bool(connection.changes())

    def _connect(self, file: str) -> apsw.Connection:
        connection = apsw.Connection(str(self._directory / file))
        connection.set_busy_timeout(5000)
        connection.wal_autocheckpoint(0)  # the server would see that another program wrote to its file
        connection.pragma("ignore_check_constraints", True)  # bits flip whatever the schema says
        return connection
