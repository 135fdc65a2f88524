"""The registry's verbs as functions of a connection to log.db; each change leaves its mark in the topic's log."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec
from msgspec.structs import replace

from recapito.contracts.damage import Damage
from recapito.contracts.log import NewSegment
from recapito.contracts.registry import Document
from recapito.domain.resources.subscription import Subscription, subscription_key
from recapito.domain.resources.topic import Topic, TopicKind, topic_key
from recapito.stores import revision
from recapito.stores.sqlite.sql import log_sql, rows
from recapito.stores.sqlite.sql.log_sql import TOPIC_ITSELF
from recapito.stores.sqlite.sql.rows import ReadRecords
from recapito.stores.sqlite.sql_files import load

SQL = load("registry")
R = TypeVar("R")
Row = Sequence[Any]
AFTER_SLASH = "0"  # the character that follows the slash between a domain topic and a name

_encode = msgspec.json.Encoder().encode


def topic(connection: apsw.Connection, name: str, kind: TopicKind) -> Topic | None:
    return _one(connection, "topic", (topic_key(kind, name),), rows.topic)


def topic_by_id(connection: apsw.Connection, id: int) -> Topic | None:
    return _one(connection, "topic_by_id", (id,), rows.topic)


def begin_ids(connection: apsw.Connection, above: int) -> None:
    """Give topics and subscriptions ids above this one from now on."""
    connection.execute(SQL["begin_ids"], (above,))


def topics(connection: apsw.Connection, after: str, limit: int) -> ReadRecords[Topic]:
    return _page(lambda at: connection.execute(SQL["topics"], (at, limit)).fetchall(), after.lower(), -1, rows.topic)


def put_topic(connection: apsw.Connection, topic: Topic) -> Topic:
    stored = topic_by_id(connection, topic.id)
    if topic.id and stored is None:
        raise KeyError(topic.id)
    if connection.execute(SQL["topic_named"], (topic.key,)).get not in (None, topic.id):
        raise revision.name_taken("topic", topic.name)
    if stored is None:
        put = revision.create_topic(topic, connection.execute(SQL["next_topic_id"]).get)
        connection.execute(
            SQL["insert_topic"], (put.id, put.key, text := _text(put), rows.sum_topic(put.id, text.encode()))
        )
    else:
        put = revision.replace_topic(stored, topic)
        connection.execute(
            SQL["update_topic"], (put.id, put.key, text := _text(put), rows.sum_topic(put.id, text.encode()))
        )
    log_sql.mark_change(connection, put.id, [TOPIC_ITSELF])
    return put


def delete_topic(connection: apsw.Connection, id: int) -> None:
    """Mark a topic deleted, and its subscriptions with it."""
    if topic_by_id(connection, id) is None:
        raise KeyError(id)
    living = _all(connection.execute(SQL["living_subscriptions_of"], (id,)).fetchall(), rows.subscription)
    position = log_sql.mark_change(connection, id, [TOPIC_ITSELF, *(subscription.id for subscription in living)])
    for subscription in living:
        _mark_deleted(connection, subscription, position)
    connection.execute(SQL["mark_topic_deleted"], (id,))
    _remove_if_empty(connection, id)


def subscription(connection: apsw.Connection, topic: int, name: str, domain_topic: str | None) -> Subscription | None:
    key = subscription_key(name, domain_topic)
    return _one(connection, "subscription", (topic, key), rows.subscription)


def subscription_by_id(connection: apsw.Connection, id: int) -> Subscription | None:
    return _one(connection, "subscription_by_id", (id,), rows.subscription)


def subscriptions(connection: apsw.Connection, topic: int | None, after: int, limit: int) -> ReadRecords[Subscription]:
    sql, of = ("subscriptions", ()) if topic is None else ("subscriptions_of", (topic,))
    return _page(lambda at: connection.execute(SQL[sql], (*of, at, limit)).fetchall(), after, 0, rows.subscription)


def subscription_counts(connection: apsw.Connection, topics: Sequence[int]) -> dict[int, int]:
    return dict(connection.execute(SQL["subscription_counts"], (_text(list(topics)),)))


def domain_topic_subscriptions(
    connection: apsw.Connection, topic: int, domain_topic: str, after: str, limit: int
) -> ReadRecords[Subscription]:
    end = subscription_key("", domain_topic)[:-1] + AFTER_SLASH
    sql = SQL["subscriptions_between"]
    return _page(
        lambda at: connection.execute(sql, (topic, at, end, limit)).fetchall(),
        subscription_key(after, domain_topic),
        -1,
        rows.subscription,
    )


def put_subscription(connection: apsw.Connection, subscription: Subscription) -> Subscription:
    topic = subscription.topic
    if topic_by_id(connection, topic) is None:
        raise KeyError(topic)
    stored = _living(connection, subscription.id, topic) if subscription.id else None
    named = connection.execute(SQL["subscription_named"], (topic, subscription.key)).get
    if named not in (None, subscription.id):
        raise revision.name_taken("event subscription", subscription.name)
    position = log_sql.end(connection, topic) + 1
    if stored is None:
        id = connection.execute(SQL["next_subscription_id"]).get
        put = revision.create_subscription(subscription, id, position)
    else:
        put = revision.replace_subscription(stored, subscription, position, log_sql.first(connection, topic))
    _put(connection, put)
    log_sql.mark_change(connection, topic, [put.id])
    return put


def delete_subscription(connection: apsw.Connection, id: int) -> None:
    living = _living(connection, id)
    _mark_deleted(connection, living, log_sql.mark_change(connection, living.topic, [id]))


def forget(connection: apsw.Connection, id: int) -> None:
    """Remove a deleted subscription, and its topic after the last one."""
    stored = subscription_by_id(connection, id)
    if stored is None:
        raise KeyError(id)
    if stored.deleted_position is None:
        raise revision.not_deleted(stored)
    log_sql.mark_change(connection, stored.topic, [id])
    connection.execute(SQL["remove_subscription"], (id,))
    _remove_if_empty(connection, stored.topic)


def document(connection: apsw.Connection, kind: str, key: str) -> bytes | None:
    found = _one(connection, "document", (kind, key), rows.document)
    return None if found is None else found.content


def documents(connection: apsw.Connection, kind: str, after: str, limit: int) -> ReadRecords[Document]:
    return _page(lambda at: connection.execute(SQL["documents"], (kind, at, limit)).fetchall(), after, 1, rows.document)


def put_document(connection: apsw.Connection, kind: str, key: str, content: bytes) -> None:
    connection.execute(SQL["put_document"], (kind, key, content, rows.sum_document(kind, key, content)))


def delete_document(connection: apsw.Connection, kind: str, key: str) -> bool:
    connection.execute(SQL["delete_document"], (kind, key))
    return bool(connection.changes())


def _living(connection: apsw.Connection, id: int, topic: int | None = None) -> Subscription:
    stored = subscription_by_id(connection, id)
    if stored is None or stored.deleted_position is not None or topic not in (None, stored.topic):
        raise KeyError(id)
    return stored


def _mark_deleted(connection: apsw.Connection, subscription: Subscription, position: int) -> None:
    _put(connection, replace(subscription, deleted_position=position))


def _put(connection: apsw.Connection, subscription: Subscription) -> None:
    key = None if subscription.deleted_position is not None else subscription.key
    id, topic, text = subscription.id, subscription.topic, _text(subscription)
    sum = rows.sum_subscription(id, topic, text.encode())
    connection.execute(SQL["put_subscription"], (id, topic, key, text, sum))


def _remove_if_empty(connection: apsw.Connection, id: int) -> None:
    """Remove a deleted topic after its last subscription. Its entries go later, in slices, to keep commits short."""
    connection.execute(SQL["remove_topic_without_subscriptions"], (id,))
    if connection.changes():
        connection.execute(SQL["gone"], (id,))


def _topic_row(topic: Topic) -> tuple[int, str, str, int]:
    text = _text(topic)
    return topic.id, topic.key, text, rows.sum_topic(topic.id, text.encode())


def _text(doc: Topic | Subscription | list[int]) -> str:
    return _encode(doc).decode()


def append_marked(
    connection: apsw.Connection, segments: Sequence[NewSegment], kind: str, marks: Sequence[Document]
) -> list[int]:
    """Append segments and put their documents."""
    positions = log_sql.append(connection, segments)
    for mark in marks:
        put_document(connection, kind, mark.key, mark.content)
    return positions


def sum_up(connection: apsw.Connection) -> None:
    """Give checksums to records of older versions; a row that holds no text gets none, and is damaged."""
    topics: list[Any] = connection.execute(SQL["topics_without_checksum"]).fetchall()
    for id, doc in topics:
        if isinstance(doc, str):
            connection.execute(SQL["sum_up_topic"], (rows.sum_topic(id, doc.encode()), id))
    subscriptions: list[Any] = connection.execute(SQL["subscriptions_without_checksum"]).fetchall()
    for id, topic, doc in subscriptions:
        if isinstance(doc, str):
            connection.execute(SQL["sum_up_subscription"], (rows.sum_subscription(id, topic, doc.encode()), id))
    documents: list[Any] = connection.execute(SQL["documents_without_checksum"]).fetchall()
    for kind, key, content in documents:
        if isinstance(content, bytes):
            connection.execute(SQL["sum_up_document"], (rows.sum_document(kind, key, content), kind, key))


def _one(connection: apsw.Connection, sql: str, key: Row, read: Callable[[Row], R | Damage]) -> R | None:
    row: Any = connection.execute(SQL[sql], key).fetchone()
    return None if row is None else rows.demand(read(row))


def _all(stored: Sequence[Row], read: Callable[[Row], R | Damage]) -> list[R]:
    """All of these records; a damaged one is an error."""
    records, damaged = rows.sift(stored, read)
    for damage in damaged:
        raise rows.DamagedRecord(damage)
    return records


def _page(
    fetch: Callable[[Any], Sequence[Row]], after: Any, column: int, read: Callable[[Row], R | Damage]
) -> ReadRecords[R]:
    """A page of sound records; it is empty only if there are no more. A row has its key, for `after`, in `column`."""
    damaged: list[Damage] = []
    while stored := fetch(after):
        listed = rows.sift(stored, read)
        damaged += listed.damaged
        if listed.found:
            return ReadRecords(listed.found, damaged)
        after = stored[-1][column]
    return ReadRecords([], damaged)
