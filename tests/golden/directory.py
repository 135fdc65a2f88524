"""A small data directory with something of everything, written through the contracts; and what can be seen of one.

The clock stands still and nothing is random but the log's id, so a second run writes the same rows.
"""

import io
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from tests.golden import imports as it
from tests.golden import values
from tests.golden.files import FILES
from tests.golden.values import DESTINATIONS, FILTERS, NOW, subscription, topic

FIXTURE = FILES / "directory.tar.xz"
EVER = 1 << 62
PLACEHOLDER = "<log id>"  # of 32 random digits, which no two directories share
NEVER = it.Filter(event_types=("Golden.Never",))
_LEFT_OUT = (".lock", "ballast", "-wal", "-shm")


class Opened(NamedTuple):
    """The stores of a data directory, open to be written."""

    log: it.SqliteLog
    ledger: it.SqliteLedger
    history: it.SqliteHistory
    keyring: it.Keyring


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Opened]:
    """Open a data directory as a server does, at an instant at which the clock stands still."""
    clock = it.ManualClock(NOW)
    log = it.SqliteLog.open(directory, threaded=False)
    ledger = it.SqliteLedger.open(directory, threaded=False)
    history = it.SqliteHistory(
        directory, it.HistoryBounds(age_ns=it.DAY, size=1 << 30), clock.now, clock, threaded=False
    )
    try:
        yield Opened(log, ledger, history, it.Keyring(log, it.SecretBox.in_file(directory / it.CONNECTION_KEY)))
    finally:
        await history.close()
        await ledger.close()
        await log.close()


async def write(directory: Path, keys: Path | None = None) -> None:
    """Write the directory. Private keys are taken from `keys`, another such directory; without one they are made."""
    _write_keys(directory, keys)
    async with opened(directory) as stores:
        topics = await _put_topics(stores.log)
        lanes = await _put_subscriptions(stores.log, topics)
        await _put_documents(stores)
        await _publish(stores.log, topics)
        await _change(stores.log, topics, lanes)
        await _settle(stores, topics, lanes)
        for attempt in values.ATTEMPTS:
            stores.history.record(attempt)
        await stores.history.flush()


def _write_keys(directory: Path, keys: Path | None) -> None:
    identity = directory / "identity"
    identity.mkdir(mode=0o700)
    files = {
        directory / it.CONNECTION_KEY: values.SEAL_KEY,
        identity / "development.json": msgspec.json.encode(
            it.Development(tenant="golden-tenant", client_id="golden-client", client_secret="golden")
        ),
        identity / "scrape-token": b"golden-scrape-token-0123456789\n",
    }
    if keys is not None:
        files[identity / "signing-key.pem"] = (keys / "identity" / "signing-key.pem").read_bytes()
    for path, content in files.items():
        path.touch(0o600)
        path.write_bytes(content)
    it.prepare_identity(_settings(directory))


def _settings(directory: Path) -> it.Settings:
    return it.load_settings(environment={}, flags={"server.data": str(directory)})


async def _put_topics(log: it.SqliteLog) -> dict[str, it.Topic]:
    source = it.Source(resource_id=values.ACCOUNT, topic_type="Microsoft.Storage.StorageAccounts")
    wanted = [
        topic("Orders", tags={"team": "gold"}, kept={"sku": {"name": "Basic"}}),
        topic("Clouds", input_schema=it.InputSchema.CLOUD_EVENT, ip_rules=("10.0.0.0/8",)),
        topic("Readings", input_schema=it.InputSchema.CUSTOM, mapping=values.MAPPING, profile="2019-05"),
        topic("Shop", "domains", domain=it.Domain(auto_create=True, auto_delete=False)),
        topic("Storage", "systemTopics", source=source, local_auth=False),
        topic("Gone"),
    ]
    return {one.name: await log.put_topic(one) for one in wanted}


async def _put_subscriptions(log: it.SqliteLog, topics: dict[str, it.Topic]) -> dict[str, it.Subscription]:
    """Those of Azure's resources take no event that is published here, so that serving the directory needs no Azure."""
    orders, clouds, readings, shop, storage, gone = (one.id for one in topics.values())
    directory, blobs = (
        it.DeadLetterDirectory(name="dead"),
        it.DeadLetterBlobs(account=values.ACCOUNT, container_name="dead"),
    )
    kinds = {kind.title().replace(" ", "").replace(",", "-"): value for kind, value in DESTINATIONS.items()}
    wanted = [
        subscription(
            orders, "Billing", attributes=values.ATTRIBUTES, batching=it.Batching(max_events=10, preferred_kilobytes=64)
        ),
        subscription(
            orders,
            "Audit",
            dead_letter=directory,
            retry_policy=it.RetryPolicy(max_attempts=3, ttl_minutes=60),
            labels=("a", "b"),
        ),
        subscription(clouds, "Held", delivery_schema=it.DeliverySchema.CLOUD_EVENT),
        subscription(readings, "Unread", delivery_schema=it.DeliverySchema.CUSTOM),
        subscription(readings, "Converted", delivery_schema=it.DeliverySchema.CLOUD_EVENT),
        subscription(readings, "Blobs", NEVER, dead_letter=blobs),
        subscription(shop, "Fruit", FILTERS["one topic of a domain"], domain_topic="fruit"),
        subscription(storage, "Notices", NEVER, expires_at=NOW + 365 * it.DAY),
        subscription(
            orders,
            "Awaited",
            FILTERS["nothing"],
            handshake=it.Handshake(code="code", until=NOW + 10 * it.DAY, note="It answered 404."),
            proposed=subscription(orders, "Awaited"),
        ),
        subscription(orders, "Operators", FILTERS["every operator"], kept={"identity": {"type": "SystemAssigned"}}),
        subscription(orders, "Subjects", FILTERS["types and subjects"]),
        *(subscription(orders, f"To-{name}", NEVER, destination=value) for name, value in kinds.items()),
        subscription(orders, "Deleted", NEVER),
        subscription(gone, "Last", NEVER),
    ]
    return {one.name: await log.put_subscription(one) for one in wanted}


async def _put_documents(stores: Opened) -> None:
    sealing = it.Keyring(stores.log, values.seal())
    for connection in values.CONNECTIONS.values():
        await sealing.set(connection, NOW)
    group = it.groups.Group(
        name="golden", azure_subscription="5b4b650e-0000-0000-0000-000000000001", location="local", created_at=NOW
    )
    key = f"{group.azure_subscription}/{group.name}"
    await stores.log.put_document(it.groups.KIND, key, msgspec.json.encode(group))
    await it.storage_accounts.StorageAccounts(stores.log, it.ManualClock(NOW)).put(
        it.storage_accounts.StorageAccount(
            name="goldenstore",
            azure_subscription=group.azure_subscription,
            resource_group="golden",
            location="local",
        )
    )
    domain = await stores.log.topic("shop", it.TopicKind.DOMAIN)
    assert domain is not None
    await it.domain_topics.DomainTopics(stores.log, it.ManualClock(NOW), 10).put(domain, "Fruit")
    await stores.log.put_document(it.damage_report.KIND, it.damage_report.SEEN, b"0")


def _stamped(topics: dict[str, it.Topic]) -> Iterator[tuple[int, list[it.Publish]]]:
    """Events of publishers, in three schemas, as they are accepted."""
    ours = [
        b'[{"id":"o%d","eventTime":"2026-09-21T14:00:00Z","eventType":"Golden.Made","subject":"/golden/%d",'
        b'"data":{"big":12345678901234567890,"a":1,"a":2,"u":"\\u00fc"}}]' % (n, n)
        for n in range(4)
    ]
    orders, clouds, readings, shop = (topics[name] for name in ("Orders", "Clouds", "Readings", "Shop"))
    accepted = [it.event_grid.accept(body, orders.resource_id) for body in ours]
    yield (
        orders.id,
        [
            it.Publish(published_at=NOW, events=accepted[0] + accepted[1], traces={0: values.TRACE}),
            it.Publish(published_at=NOW + 1, events=accepted[2]),
        ],
    )
    yield orders.id, [it.Publish(published_at=NOW + 2, events=accepted[3])]
    cloud = b'{ "specversion": "1.0", "id": "c%d", "source": "/s", "type": "Golden.Cloud", "data": [%d] }'
    headers = {b"content-type": b"application/cloudevents+json"}
    binary = {b"ce-specversion": b"1.0", b"ce-id": b"c2", b"ce-source": b"/s", b"ce-type": b"Golden.Cloud"}
    yield (
        clouds.id,
        [
            it.Publish(published_at=NOW, events=it.cloud_event.accept(cloud % (1, 1), headers)),
            it.Publish(
                published_at=NOW,
                events=it.cloud_event.accept(b"\x00\xff", {**binary, b"content-type": b"application/x"}),
            ),
        ],
    )
    custom = b'[{"number":"r1","about":{"name":"boiler"},"value":1.50},{"kind":"Golden.Odd","about":{"name":"pump"}}]'
    ids = iter(f"made-{n}" for n in range(9))
    found = it.custom_event.accept(custom, readings.resource_id, readings.mapping, NOW, lambda: next(ids))
    yield readings.id, [it.Publish(published_at=NOW, events=found)]
    sold = (
        b'[{"id":"s%d","eventTime":"2026-09-21T14:00:00Z","eventType":"Golden.Sold","subject":"s","topic":"%s",'
        b'"data":null}]'
    )
    bodies = [sold % (1, b"Fruit"), sold % (2, b"meat")]
    found = [one for body in bodies for one in it.event_grid.accept(body, shop.resource_id, True)]
    yield shop.id, [it.Publish(published_at=NOW, events=found)]


async def _publish(log: it.SqliteLog, topics: dict[str, it.Topic]) -> None:
    segments = [
        it.NewSegment(topic, sum(len(one.events) for one in publishes), *it.segment.pack(publishes))
        for topic, publishes in _stamped(topics)
    ]
    await log.append(segments)
    again = it.Publish(
        published_at=NOW + 3,
        events=it.event_grid.accept(
            b'[{"id":"o9","eventTime":"2026-09-21T14:00:00Z","eventType":"Golden.Again","subject":"/golden/9"}]',
            topics["Orders"].resource_id,
        ),
    )
    redriven = it.NewSegment(topics["Orders"].id, 1, *it.segment.pack([again], only=2, origin="dead:AUDIT/a.json"))
    mark = it.Document(
        key=it.mark_key("dead", "AUDIT/2026/9/21/14/a.json"),
        content=msgspec.json.encode([it.Redriven(at=NOW, redrive="r", places=[0])]),
    )
    await log.append_marked([redriven], it.search.KIND, [mark])


async def _change(log: it.SqliteLog, topics: dict[str, it.Topic], lanes: dict[str, it.Subscription]) -> None:
    """A filter that changed, a subscription that was deleted, and a topic that was."""
    changed = msgspec.structs.replace(
        lanes["Subjects"], filters=(it.FilterSince(position=0, filter=NEVER),), modified_at=NOW + 5
    )
    await log.put_subscription(changed)
    await log.delete_subscription(lanes["Deleted"].id)
    await log.delete_topic(topics["Gone"].id)


async def _settle(stores: Opened, topics: dict[str, it.Topic], lanes: dict[str, it.Subscription]) -> None:
    """Lanes in many a state: one with retries, one with dead letters, one held, one in the midst of a segment."""
    for name in ("Billing", "Audit", "Held", "Unread", "Blobs"):
        lane = lanes[name]
        await stores.ledger.open_lane(lane.id, lane.topic, stores.log.id, lane.created_position)
    ends = {
        one.id: it.Cursor(low=(await stores.log.end(one.id) + 1, 0)) for one in topics.values() if one.name != "Gone"
    }
    orders = await _bodies(stores.log, topics["Orders"].id)
    clouds = await _bodies(stores.log, topics["Clouds"].id)
    readings = [*await _bodies(stores.log, topics["Readings"].id)]
    billing, audit, held, unread, blobs = (lanes[name] for name in ("Billing", "Audit", "Held", "Unread", "Blobs"))
    hold = it.Hold(
        failures=12,
        until=NOW + 10 * it.MINUTE,
        period=10 * it.MINUTE,
        cause=it.Result.BUSY,
        status=503,
        sweep_at=NOW + 4 * it.HOUR,
    )
    middle = it.Cursor(low=readings[0], finished=((readings[1], (readings[0].position + 1, 0)),))
    first, second, third, fourth = [*orders][:4]
    far = it.Burial(
        identity=readings[0], write_at=NOW + 10 * it.DAY, container=_container(blobs), record=b'{"id":"r1"}'
    )
    busy = it.AttemptTotals(answers=3, took_ns=5_000_000, failed={"Busy": 2})
    await stores.ledger.settle(
        [
            it.Settlement(
                lane=billing.id,
                version=1,
                cursor=ends[billing.topic],
                hold=it.Hold(failures=2),
                matched=4,
                unmatched=1,
                delivered=2,
                park=[_parked(orders, where, NOW + 30 * it.SECOND) for where in (first, second)],
                attempts=busy,
                evaluated=3,
            ),
            it.Settlement(
                lane=audit.id,
                version=1,
                cursor=it.Cursor(low=first),
                hold=it.Hold(),
                matched=1,
                bury=[_buried(orders, first)],
            ),
            it.Settlement(
                lane=held.id,
                version=1,
                cursor=ends[held.topic],
                hold=hold,
                matched=2,
                park=[_parked(clouds, where, NOW + it.MINUTE) for where in clouds],
            ),
            it.Settlement(lane=unread.id, version=1, cursor=middle, hold=it.Hold(), matched=1, delivered=1),
            it.Settlement(
                lane=blobs.id, version=1, cursor=ends[blobs.topic], hold=it.Hold(), matched=1, unmatched=1, bury=[far]
            ),
        ]
    )
    await _name(stores.ledger, NOW + 5 * it.MINUTE, "AUDIT/2026/9/21/14/written.json")
    notice = it.encode_notice(values.NOTICE)
    reasons = {"TimeToLiveExceeded": 1}
    await stores.ledger.written(audit.id, "AUDIT/2026/9/21/14/written.json", notice, 0, reasons)
    settlement = it.Settlement(
        lane=audit.id, version=2, cursor=ends[audit.topic], hold=it.Hold(), matched=2, bury=[_buried(orders, second)]
    )
    await stores.ledger.settle([settlement._replace(delivered=1)])
    await _name(stores.ledger, NOW + 5 * it.MINUTE, "AUDIT/2026/9/21/14/named.json")
    drop = it.Drop(identity=fourth, reason="TimeToLiveExceeded")
    rest = settlement._replace(version=3, bury=[_buried(orders, third)], drop=[drop])
    await stores.ledger.settle([rest])
    await stores.ledger.set_aside(
        it.Damage(
            table="entry", topic=1, lane=0, position=77, offset=0, events=2, content=b"content", columns=b"columns"
        )
    )


async def _bodies(log: it.SqliteLog, topic: int) -> dict[it.DeliveryId, bytes]:
    """The events of a topic."""
    entries = await log.read(topic, 1, EVER)
    segments = {
        entry.position: it.Segment(entry.columns, entry.body) for entry in entries if entry.kind is it.EntryKind.SEGMENT
    }
    return {
        it.DeliveryId(position=position, offset=n): segment.event(n)
        for position, segment in segments.items()
        for n in range(len(segment))
    }


def _parked(events: dict[it.DeliveryId, bytes], where: it.DeliveryId, due_at: int) -> it.Parked:
    return it.Parked(
        due_at=due_at,
        delivery=it.Delivery(
            identity=where,
            published_at=NOW,
            body=events[where],
            attempts=1,
            skipped=0,
            last_attempt_at=NOW,
            last_result=it.Result.BUSY,
            last_status=503,
        ),
    )


def _buried(events: dict[it.DeliveryId, bytes], where: it.DeliveryId) -> it.Burial:
    delivery = _parked(events, where, NOW).delivery
    return it.Burial(
        identity=where,
        write_at=NOW + 5 * it.MINUTE,
        container="dead",
        record=it.record.record(delivery, "TimeToLiveExceeded"),
    )


def _container(subscription: it.Subscription) -> str:
    assert subscription.dead_letter is not None
    return subscription.dead_letter.container


async def _name(ledger: it.SqliteLedger, now: int, path: str) -> None:
    """Give the dead letters that are due their path."""
    group = await ledger.burials_due(now, 10, 1 << 20, it.SkippedDeadLetters())
    assert group is not None
    await ledger.name_group(group, path, NOW + it.SECOND)


def store_fixture(directory: Path) -> bytes:
    """The directory as it is kept: one compressed file, in which nothing tells who wrote it and when."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz", preset=9) as archive:
        for path in sorted(directory.rglob("*")):
            if not path.name.endswith(_LEFT_OUT):
                archive.add(path, str(path.relative_to(directory)), recursive=False, filter=_anonymous)
    return file.getvalue()


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = NOW // it.SECOND
    return member


def unpack_fixture(directory: Path) -> Path:
    """A copy of the directory that is kept."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(directory, filter="data")
    return directory


def rows(directory: Path) -> str:
    """Every row of the three files as it is stored, without regard to what it means."""
    lines: list[str] = []
    for kind in (it.LOG, it.DISPATCH, it.HISTORY):
        with closing(apsw.Connection(str(directory / kind.file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
            for (table,) in tables:
                lines.append(f"# {kind.name}.{table}")
                lines += sorted(map(_line, connection.execute(f'SELECT * FROM "{table}"')))
    return _hide_log(directory, "\n".join(lines) + "\n")


def _hide_log(directory: Path, text: str) -> str:
    with closing(apsw.Connection(str(directory / it.LOG.file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return text.replace(str(connection.execute("SELECT id FROM log").get), PLACEHOLDER)


def _line(value: Any) -> str:
    return msgspec.json.encode(plain(value)).decode()


def plain(value: Any) -> Any:
    """A value without the names of its type and its fields, which may change."""
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return f"hex:{value.hex()}"
        return text if text.isprintable() else f"hex:{value.hex()}"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, msgspec.Struct):
        tag = type(value).__struct_config__.tag
        fields = [one for one in msgspec.structs.astuple(value) if one is not msgspec.UNSET]  # which is not stored
        return [*([] if tag is None else [tag]), *map(plain, fields)]
    if isinstance(value, list | tuple):
        return [*map(plain, value)]
    if isinstance(value, frozenset):
        return sorted(map(plain, value))
    if isinstance(value, dict):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    return value


async def view(directory: Path) -> str:
    """Everything that the contracts show of a directory."""
    lines: list[str] = []

    def show(title: str, *found: Any) -> None:
        lines.append(f"# {title}")
        lines.extend(map(_line, found))

    async with opened(directory) as stores:
        log, ledger, history = stores.log, stores.ledger, stores.history
        topics = await log.topics("", 100)
        subscriptions = await log.subscriptions(None, 0, 100)
        show("topics", *topics)
        show("subscriptions", *subscriptions)
        show("subscription counts", await log.subscription_counts([one.id for one in topics]))
        show("subscriptions of a domain topic", *await log.domain_topic_subscriptions(4, "fruit", "", 9))
        show("news", await log.news(0))
        for id in range(1, 7):
            show(f"log of topic {id}", await log.first(id), await log.end(id), await log.size(id, 1, 100))
            for entry in await log.read(id, 1, EVER):
                shown: list[Any] = [entry.position, entry.kind, entry.events]
                if entry.kind is it.EntryKind.SEGMENT:
                    shown.append(_slots(it.Segment(entry.columns, entry.body)))
                lines.append(_line(shown))
        show("search", await log.search(1, b"o2", EVER, 100))
        for kind in ("damage", "domainTopic", "notice", "redriven", "resourceGroup", "storageAccount"):
            show(f"documents: {kind}", *await log.documents(kind, "", 100))
        show("damaged records", *await log.damaged_records())
        lanes = await ledger.lanes()
        show("lanes", *lanes)
        for lane in lanes:
            show(f"parked in lane {lane.id}", *await ledger.parked(lane.id, 100))
        show("due", await ledger.due(lanes[0].id, NOW + it.HOUR, 1))
        show("next burial", await ledger.next_burial_at())
        show("a named group", await ledger.burials_due(NOW, 10, 1 << 20, it.SkippedDeadLetters()))
        passed = it.SkippedDeadLetters(containers=frozenset({"nowhere"}), places=frozenset({(2, "dead")}))
        show("the group after it", await ledger.burials_due(EVER, 10, 1 << 20, passed))
        show("one that is buried", await ledger.find(2, (await _orders(log))[2]))
        show("notices", *await ledger.notices(0, 10))
        show("damaged", *await ledger.damaged(0, 10), await ledger.damaged_counts(0))
        show("history", *(await history.newest_first(it.AttemptQuery(), None, 100)).value, await history.extent())
        show("an event in history", *(await history.oldest_first(it.AttemptQuery(event="4"), 0, 9)).value)
        show("connections", *await stores.keyring.list())
        for connection in values.CONNECTIONS.values():
            show("secrets of a connection", await stores.keyring.get(connection.resource_id))
        identity = it.prepare_identity(_settings(directory))
        assert identity is not None
        signer = it.Signer(identity.key, "http://golden", identity.tenant, lambda: NOW, it.HOUR)
        show("identity", identity.tenant, identity.development, signer.jwk, signer.sign("golden", "to", ["b", "a"]))
        show("scrape token", it.scrape_token_file(_settings(directory)).read_bytes())
    return _hide_log(directory, "\n".join(lines) + "\n")


async def _orders(log: it.SqliteLog) -> list[it.DeliveryId]:
    return [*await _bodies(log, 1)]


def _slots(segment: it.Segment) -> list[Any]:
    """The content of a segment, in the order of the slots' places in the stored bytes."""
    count = range(len(segment))
    return [
        [
            [segment.event(n), segment.id(n), segment.type(n), segment.subjects[n], segment.published_at[n]]
            for n in count
        ],
        [segment.versions, segment.version_of, segment.domain_topics, segment.domain_topic_of],
        [segment.only, segment.origin, segment.traces],
    ]


async def make_empty(directory: Path) -> None:
    """Make the three files, with nothing in them."""
    async with opened(directory) as stores:
        await stores.history.flush()


def schema(directory: Path) -> str:
    """The schema of the files in a directory, with the numbers that each is known by."""
    parts: list[str] = []
    for kind in (it.LOG, it.DISPATCH, it.HISTORY):
        with closing(apsw.Connection(str(directory / kind.file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            parts.append(f"-- {kind.file}")
            for name in ("application_id", "user_version", "page_size", "encoding", "journal_mode", "auto_vacuum"):
                parts.append(f"-- {name} = {connection.pragma(name)}")
            for type, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"):
                parts.append(f"\n-- {type} {name}\n{sql or '-- made by SQLite'}")
            parts.append("")
    return "\n".join(parts)
