"""The Log and the Registry on SQLite: one file, log.db, that intake writes and both roles read."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from recapito.contracts.damage import Damage
from recapito.contracts.log import Entry, EntryKind, News, NewSegment, SearchPage
from recapito.contracts.registry import Document
from recapito.domain.resources.subscription import Subscription
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import SettingsError, StoreDamaged, StoreFailed
from recapito.observability.journal import Journal, silent
from recapito.stores.sqlite.async_store import AsyncStore
from recapito.stores.sqlite.database import Database
from recapito.stores.sqlite.files.connection import LOG
from recapito.stores.sqlite.sql import log_sql, registry_sql
from recapito.stores.sqlite.sql.rows import DamagedRecord, ReadRecords

P = ParamSpec("P")
T = TypeVar("T")
OUT_OF_REACH = "entries are out of reach, because an index or an inner page is damaged"


class SqliteLog(AsyncStore):
    """Log and Registry in log.db."""

    KIND = LOG

    def __init__(self, database: Database, threaded: bool, journal: Journal = silent) -> None:
        self._untidy = True  # a deleted topic may have left entries
        self._damaged: dict[tuple[str, int, int, bytes], Damage] = {}  # records by their keys
        self._id = _id_of(database)
        self.changes = 0
        super().__init__(database, threaded, journal)

    @property
    def id(self) -> str:
        return self._id

    async def append(self, segments: Sequence[NewSegment]) -> list[int]:
        self._free_pages -= min(self._free_pages, sum(len(segment.body) for segment in segments))
        return await self._append(log_sql.append, segments)

    async def append_marked(self, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]) -> list[int]:
        for mark in marks:
            self._damaged.pop(("document", 0, 0, f"{kind} {mark.key}".encode()), None)
        self.changes += 1
        return await self._append(registry_sql.append_marked, segments, kind, marks)

    async def read(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        return await self._worker(partial(self._read_entries, topic, position, limit_bytes))

    async def news(self, mark: int) -> News:
        return await self._read(log_sql.news, mark)

    async def end(self, topic: int) -> int:
        return await self._read(log_sql.end, topic)

    async def first(self, topic: int) -> int:
        return await self._read(log_sql.first, topic)

    async def search(self, topic: int, text: bytes, below: int, count: int) -> SearchPage:
        return await self._read(log_sql.search, topic, text, below, count)

    async def size(self, topic: int, first: int, below: int) -> int:
        return await self._read(log_sql.size, topic, first, below)

    async def events(self, topic: int, first: int, below: int) -> int:
        return await self._read(log_sql.events, topic, first, below)

    async def trim(self, topic: int, below: int) -> int:
        return await self._worker(partial(self._leaving_room, self.database.drain, log_sql.trim, topic, below))

    async def topic(self, name: str, kind: TopicKind = TopicKind.CUSTOM) -> Topic | None:
        return await self._record(registry_sql.topic, name, kind)

    async def topic_by_id(self, id: int) -> Topic | None:
        return await self._record(registry_sql.topic_by_id, id)

    async def topics(self, after: str, limit: int) -> list[Topic]:
        return await self._records(registry_sql.topics, after, limit)

    async def put_topic(self, topic: Topic) -> Topic:
        return await self._change(registry_sql.put_topic, topic)

    async def delete_topic(self, id: int) -> None:
        self.changes += 1
        await self._worker(partial(self._leaving_room, self.database.write, registry_sql.delete_topic, id))

    async def subscription(self, topic: int, name: str, domain_topic: str | None = None) -> Subscription | None:
        return await self._record(registry_sql.subscription, topic, name, domain_topic)

    async def subscription_by_id(self, id: int) -> Subscription | None:
        return await self._record(registry_sql.subscription_by_id, id)

    async def subscriptions(self, topic: int | None, after: int, limit: int) -> list[Subscription]:
        return await self._records(registry_sql.subscriptions, topic, after, limit)

    async def subscription_counts(self, topics: Sequence[int]) -> dict[int, int]:
        return await self._read(registry_sql.subscription_counts, topics)

    async def domain_topic_subscriptions(
        self, topic: int, domain_topic: str, after: str, limit: int
    ) -> list[Subscription]:
        return await self._records(registry_sql.domain_topic_subscriptions, topic, domain_topic, after, limit)

    async def put_subscription(self, subscription: Subscription) -> Subscription:
        return await self._change(registry_sql.put_subscription, subscription)

    async def delete_subscription(self, id: int) -> None:
        await self._change(registry_sql.delete_subscription, id)

    async def forget(self, id: int) -> None:
        self.changes += 1
        await self._worker(partial(self._leaving_room, self.database.drain, registry_sql.forget, id))

    async def document(self, kind: str, key: str) -> bytes | None:
        return await self._record(registry_sql.document, kind, key)

    async def documents(self, kind: str, after: str, limit: int) -> list[Document]:
        return await self._records(registry_sql.documents, kind, after, limit)

    async def put_document(self, kind: str, key: str, content: bytes) -> None:
        await self._change(registry_sql.put_document, kind, key, content)
        self._damaged.pop(("document", 0, 0, f"{kind} {key}".encode()), None)

    async def delete_document(self, kind: str, key: str) -> bool:
        self._damaged.pop(("document", 0, 0, f"{kind} {key}".encode()), None)
        return await self._change(registry_sql.delete_document, kind, key)

    async def damaged_records(self) -> list[Damage]:
        return list(self._damaged.values())

    async def _record(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read one record, and remember if it is damaged."""
        return await self._remembering(self._read(verb, *args, **kwargs))

    async def _change(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Change a record. The worker runs calls in order, so a read that begins later sees the change."""
        self.changes += 1
        return await self._write(verb, *args, **kwargs)

    async def _append(self, verb: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Append, and remember if the end of a log is damaged."""
        return await self._remembering(self._write(verb, *args, **kwargs))

    async def _remembering(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except DamagedRecord as error:
            self._remember(error.damage)
            raise

    async def _records(
        self, verb: Callable[Concatenate[apsw.Connection, P], ReadRecords[T]], *args: P.args, **kwargs: P.kwargs
    ) -> list[T]:
        """Read sound records, and remember the damaged ones among them."""
        records, damaged = await self._read(verb, *args, **kwargs)
        for damage in damaged:
            self._remember(damage)
        return records

    def _remember(self, damage: Damage) -> None:
        key = (damage.table, damage.topic, damage.lane, damage.columns)
        if key not in self._damaged:
            self._damaged[key] = damage
            self._journal(
                "store.damaged",
                table=damage.table,
                topic=damage.topic,
                subscription=damage.lane,
                key=damage.columns.decode("utf-8", "replace"),
                remedy="recapito damaged list",
            )

    def _read_entries(self, topic: int, position: int, limit_bytes: int) -> list[Entry]:
        """Read entries; around a damaged page one by one, so that the readable ones are returned.

        Where an index or an inner page is damaged, sound entries may be out of reach: that is an error, which lasts
        until the page is restored.
        """
        try:
            found = self.database.read(log_sql.read, topic, position, limit_bytes)
        except StoreDamaged:
            found = self.database.read(log_sql.read_apart, topic, position)
        if all(entry.kind is not EntryKind.DAMAGED for entry in found):
            return found
        self.database.meet_damage(f"topic {topic} has a damaged entry from position {position} on")
        found = self.database.read(log_sql.look_closely, self.database.path, topic, found)
        if not found:
            self.database.suspect(OUT_OF_REACH)
            raise StoreDamaged(f"{self.database.path.name}: {OUT_OF_REACH}")
        return found

    def _leaving_room(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._untidy = True
        return call(*args, **kwargs)

    def _clean_up(self) -> None:
        """Also remove a slice of the entries of deleted topics."""
        super()._clean_up()
        if self._untidy and not self.database.read_only:
            with contextlib.suppress(StoreFailed):
                self._untidy = self.database.drain(log_sql.sweep)
                self._count_free_pages()


def _id_of(database: Database) -> str:
    """The id of a log; records without a checksum get one first."""
    try:
        if not database.read_only:
            with contextlib.suppress(StoreDamaged):  # the readable part is served all the same
                database.write(registry_sql.sum_up)
        return database.read(log_sql.id)
    except StoreDamaged as error:
        database.close()
        raise SettingsError(f"{database.path} is damaged ({error}): restore a backup.") from error
    except BaseException:
        database.close()
        raise
