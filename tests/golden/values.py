"""The table of golden values: by subject and name, a value and how it becomes bytes and is read again.

The bytes are in `files/<subject>.toml`. Values are made by the names of their fields, also where only the places of the
fields are stored: so two fields that change places are found, and one that is only renamed is renamed here as well.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import json, msgpack
from msgspec.structs import replace

from tests.golden import imports as it

NOW = 1_790_000_000 * it.SECOND  # 2026-09-21T14:13:20Z
GROUP = "/subscriptions/5b4b650e-0000-0000-0000-000000000001/resourceGroups/golden"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/goldenstore"
BUS = f"{GROUP}/providers/Microsoft.ServiceBus/namespaces/goldenbus"
HUBS = f"{GROUP}/providers/Microsoft.EventHub/namespaces/goldenhubs"
RELAY = f"{GROUP}/providers/Microsoft.Relay/namespaces/goldenrelay"
GRID = f"{GROUP}/providers/Microsoft.EventGrid"
APP = f"{GROUP}/providers/Microsoft.Web/sites/goldenapp"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Case(NamedTuple):
    """A value with its two ways. Without `decode` the bytes are only written, never read by us."""

    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any] | None


def _json(value: Any, type: Any = None) -> Case:
    return Case(value, json.encode, json.Decoder(type or value.__class__).decode)


def _packed(value: msgspec.Struct) -> Case:
    return Case(value, msgpack.encode, msgpack.Decoder(value.__class__).decode)


def _written(value: Any) -> Case:
    return Case(value, json.encode, json.decode)


def _text(value: str) -> Case:
    return Case(value, str.encode, bytes.decode)


DESTINATIONS = {
    "webhook": it.WebHook(url="http://127.0.0.1:9/hook?code=secret"),
    "protected webhook": it.WebHook(url="https://golden.example/hook", tenant="tenant", application="application"),
    "storage queue": it.StorageQueue(account=ACCOUNT, queue="letters", ttl_s=3600),
    "storage queue, usual ttl": it.StorageQueue(account=ACCOUNT, queue="letters"),
    "function": it.AzureFunction(resource_id=f"{APP}/functions/golden"),
    "hybrid connection": it.HybridConnection(resource_id=f"{RELAY}/hybridConnections/golden"),
    "service bus queue": it.ServiceBusQueue(resource_id=f"{BUS}/queues/golden"),
    "service bus topic": it.ServiceBusTopic(resource_id=f"{BUS}/topics/golden"),
    "event hub": it.EventHub(resource_id=f"{HUBS}/eventhubs/golden"),
}
LATER_DESTINATIONS = {"event grid": it.EventGrid(resource_id=f"{GRID}/topics/golden")}  # not in the data directory
_OPERANDS: dict[str, tuple[Any, ...]] = {
    "NumberIn": (1, 2.5),
    "NumberNotIn": (3, -4.0),
    "NumberLessThan": (5,),
    "NumberGreaterThan": (6.5,),
    "NumberLessThanOrEquals": (7,),
    "NumberGreaterThanOrEquals": (8,),
    "NumberInRange": ((1, 2), (3.5, 4.5)),
    "NumberNotInRange": ((5, 6),),
    "BoolEquals": (True,),
    "IsNullOrUndefined": (),
    "IsNotNull": (),
}
CONDITIONS = tuple(
    it.Condition(operator=operator, key=f"data.key{n}", operands=_OPERANDS.get(operator.value, ("Rot", "grün")))
    for n, operator in enumerate(it.Operator)
)
FILTERS = {
    "everything": it.Filter(),
    "nothing": it.Filter(event_types=()),
    "types and subjects": it.Filter(
        event_types=("Golden.Made", "Golden.Lost"),
        subject_begins_with="/golden/",
        subject_ends_with=".jpg",
        subject_case_sensitive=True,
    ),
    "every operator": it.Filter(event_types=("Golden.Never",), conditions=CONDITIONS, arrays=True),
    "one topic of a domain": it.Filter(domain_topic="fruit"),
}
ATTRIBUTES = (
    it.StaticAttribute(name="X-Plain", value="plain"),
    it.StaticAttribute(name="X-Secret", value="secret", secret=True),
    it.DynamicAttribute(name="X-Subject", source="subject"),
)
MAPPING = it.InputMapping(
    id=it.MappedField(source="number"),
    topic=it.MappedField(source="where"),
    event_time=it.MappedField(source="when"),
    event_type=it.MappedField(source="kind", default="Golden.Read"),
    subject=it.MappedField(source="about.name"),
    data_version=it.MappedField(source=None, default="1.0"),
)


def topic(name: str, kind: str = "topics", **fields: Any) -> it.Topic:
    """A topic that is yet to be put."""
    return it.Topic(
        name=name,
        kind=it.TopicKind(kind),
        azure_subscription="5b4b650e-0000-0000-0000-000000000001",
        resource_group="golden",
        location="local",
        key1="b25l",
        key2="dHdv",
        created_at=NOW,
        modified_at=NOW,
        **fields,
    )


def subscription(topic: int, name: str, filter: it.Filter = FILTERS["everything"], **fields: Any) -> it.Subscription:
    """A subscription that is yet to be put."""
    return it.Subscription(
        **{
            "topic": topic,
            "name": name,
            "destination": DESTINATIONS["webhook"],
            "filters": (it.FilterSince(position=0, filter=filter),),
            "created_at": NOW,
            "modified_at": NOW,
            **fields,
        }
    )


TOPIC = topic(
    "Orders",
    id=7,
    version=3,
    tags={"team": "gold", "recapito-profile": "2019-05"},
    profile="2019-05",
    input_schema=it.InputSchema.CUSTOM,
    mapping=MAPPING,
    local_auth=False,
    public_access=False,
    ip_rules=("10.0.0.0/8", "::1"),
    domain=it.Domain(auto_create=False, auto_delete=True),
    source=it.Source(resource_id=ACCOUNT, topic_type="Microsoft.Storage.StorageAccounts", implicit=True),
    kept={"sku": {"name": "Basic"}, "number": 1.5, "none": None},
)
OPTIONS = it.DeliveryOptions(
    signing=(b"new", b"old"), max_requests=4, events_per_second=50, retry_asked_at=1_790_000_000_000_000_000
)
SUBSCRIPTION = subscription(
    7,
    "Billing",
    id=9,
    version=2,
    domain_topic="fruit",
    delivery_schema=it.DeliverySchema.CLOUD_EVENT,
    attributes=ATTRIBUTES,
    batching=it.Batching(max_events=50, preferred_kilobytes=128),
    retry_policy=it.RetryPolicy(max_attempts=5, ttl_minutes=60),
    dead_letter=it.DeadLetterBlobs(account=ACCOUNT, container_name="dead"),
    filters=(
        it.FilterSince(position=4, filter=FILTERS["types and subjects"]),
        it.FilterSince(position=8, filter=FILTERS["every operator"]),
    ),
    labels=("a", "b"),
    expires_at=NOW + it.DAY,
    handshake=it.Handshake(code="code", until=NOW + 10 * it.MINUTE, note="It answered 404."),
    proposed=subscription(7, "Billing", dead_letter=it.DeadLetterDirectory(name="dead")),
    kept={"deliveryWithResourceIdentity": {"identity": {"type": "SystemAssigned"}}},
    created_position=4,
    deleted_position=12,
)


def _registry() -> dict[str, Case]:
    return {
        **{
            f"destination: {name}": _json(value, it.Subscription.__annotations__["destination"])
            for name, value in (DESTINATIONS | LATER_DESTINATIONS).items()
        },
        **{f"filter: {name}": _json(value) for name, value in FILTERS.items()},
        **{f"attribute: {value.name}": _json(value) for value in ATTRIBUTES},
        "filter since a position": _json(it.FilterSince(position=4, filter=FILTERS["types and subjects"])),
        "condition": _json(CONDITIONS[0]),
        "dead letters in a directory": _json(it.DeadLetterDirectory(name="dead")),
        "dead letters in blobs": _json(it.DeadLetterBlobs(account=ACCOUNT, container_name="dead")),
        "batching": _json(it.Batching(max_events=50, preferred_kilobytes=128)),
        "batching, usual": _json(it.Batching()),
        "retry policy": _json(it.RetryPolicy(max_attempts=5, ttl_minutes=60)),
        "retry policy, usual": _json(it.RetryPolicy()),
        "handshake": _json(it.Handshake(code="code", until=NOW, note="why")),
        "mapping": _json(MAPPING),
        "mapping, empty": _json(it.InputMapping()),
        "domain, usual": _json(it.Domain()),
        "source": _json(it.Source(resource_id=ACCOUNT, topic_type="Microsoft.Storage.StorageAccounts")),
        "topic, all of it": _json(TOPIC),
        "topic, the least": _json(topic("least")),
        "subscription, all of it": _json(SUBSCRIPTION),
        "subscription, the least": _json(subscription(1, "least")),
        "subscription, with options": _json(subscription(1, "options", own_options=OPTIONS)),
        "checksum of a topic": _number(it.sum_topic(7, b"{}")),
        "checksum of a subscription": _number(it.sum_subscription(9, 7, b"{}")),
        "checksum of a document": _number(it.sum_document("kind", "key", b"content")),
        "resource group": _json(
            it.groups.Group(
                name="golden",
                azure_subscription="5b4b650e",
                location="local",
                tags={"a": "b"},
                managed_by="who",
                created_at=NOW,
            )
        ),
        "resource group, the least": _json(
            it.groups.Group(name="golden", azure_subscription="5b4b650e", location="local", created_at=NOW)
        ),
        "storage account": _json(
            it.storage_accounts.StorageAccount(
                name="goldenstore",
                azure_subscription="5b4b650e",
                resource_group="golden",
                location="local",
                tags={"a": "b"},
                created_at=NOW,
            )
        ),
        "domain topic": _json(it.domain_topics.DomainTopic(name="Fruit", created_at=NOW)),
        "redriven letters": _json([it.Redriven(at=NOW, redrive="redrive-1", places=[0, 2])], list[it.Redriven]),
        "key of redriven letters": _text(it.mark_key("dead", "BILLING/2026/9/21/14/a.json")),
        "damaged.json": _json(
            [it.DamageSign(file="log.db", why="quick_check: a", at="2026-09-21T14:13:20+00:00")], list[it.DamageSign]
        ),
    }


def _number(value: int) -> Case:
    return Case(value, lambda number: str(number).encode(), int)


STAMPED = (
    it.StampedEvent(
        body=b'{"id":"1"}', type="Golden.Made", subject="/golden/1", data_version="1.0", domain_topic="", id="1"
    ),
    it.StampedEvent(
        body=b'{"id":"2","data":"\xc3\xbc"}', type="Golden.Lost", subject="", data_version="", domain_topic="", id="2"
    ),
    it.StampedEvent(
        body=b'{"id":"3"}', type="Golden.Made", subject="/golden/3", data_version="1.0", domain_topic="", id="3"
    ),
)
PUBLISHES = (
    it.Publish(published_at=NOW, events=list(STAMPED[:2]), traces={1: TRACE}),
    it.Publish(published_at=NOW + 1, events=[STAMPED[2]]),
)
IN_DOMAIN = (
    it.Publish(published_at=NOW, events=[msgspec.structs.replace(one, domain_topic=f"t{one.id}") for one in STAMPED]),
)
COLUMNS: dict[str, Any] = {  # in the order in which they are stored
    "ends": [10, 34, 45],
    "types": ["Golden.Made", "Golden.Lost"],
    "type_of": [0, 1, 0],
    "versions": ["1.0", ""],
    "version_of": [0, 1, 0],
    "subjects": ["/golden/1", "", "/golden/3"],
    "publishes": [(2, NOW), (1, NOW + 1)],
}
LATER_COLUMNS: dict[str, Any] = {
    "domain_topics": ["t1", "t2"],
    "domain_topic_of": [0, 1, 0],
    "only": 9,
    "origin": "dead:BILLING/2026/9/21/14/a.json",
    "ids": ["1", "2", "3"],
    "traces": {1: TRACE},
}
NO_COLUMNS: dict[str, Any] = {
    "domain_topics": [],
    "domain_topic_of": [],
    "only": 0,
    "origin": "",
    "ids": [],
    "traces": {},
}


def _log() -> dict[str, Case]:
    return {
        "columns": _packed(it.SegmentColumns(**COLUMNS, **LATER_COLUMNS)),
        "columns of forwarded events": _packed(
            it.ForwardedColumns(**COLUMNS, **LATER_COLUMNS, passed=["", "0123456789abcdef"])
        ),
        "columns as they are packed": Case(PUBLISHES, lambda value: it.segment.pack(value)[0], None),
        "columns of a domain as they are packed": Case(IN_DOMAIN, lambda value: it.segment.pack(value)[0], None),
        "columns of a redrive as they are packed": Case(
            PUBLISHES, lambda value: it.segment.pack(value, only=9, origin="origin")[0], None
        ),
        "body": Case(PUBLISHES, lambda value: it.segment.pack(value)[1], None),
        "checksum of an entry": _number(it.checksum((1, 2, 1, 3), b"columns", b"body")),
    }


CURSOR = it.Cursor(low=(5, 2), finished=(((5, 3), (6, 0)), ((8, 1), (9, 4))))
HOLD = it.Hold(
    failures=12, until=NOW + it.MINUTE, period=it.MINUTE, cause=it.Result.BUSY, status=503, sweep_at=NOW + it.HOUR
)
NEW = it.Parked(
    due_at=NOW, delivery=it.Delivery(identity=it.DeliveryId(position=3, offset=0), published_at=NOW, body=b'{"id":"1"}')
)
TRIED = it.Parked(
    due_at=NOW + it.MINUTE,
    delivery=it.Delivery(
        identity=it.DeliveryId(position=3, offset=1),
        published_at=NOW,
        body=b'{"id":"\xc3\xbc"}',
        attempts=2,
        skipped=1,
        last_attempt_at=NOW + 5,
        last_result=it.Result.NOT_FOUND,
        last_status=404,
        trace=TRACE,
    ),
)
FORWARDED = it.Parked(due_at=NOW, delivery=replace(NEW.delivery, passed="0123456789abcdef"))
BURIAL = it.Burial(
    identity=it.DeliveryId(position=4, offset=2), write_at=NOW + 5 * it.MINUTE, container="dead", record=b'{"id":"3"}'
)
NOTICE = it.BlobNotice(
    account=ACCOUNT,
    container="dead",
    path="BILLING/2026/9/21/14/a.json",
    at=NOW,
    length=321,
    url="https://goldenstore.blob.core.windows.net/dead/BILLING/2026/9/21/14/a.json",
    etag="0x8DGOLD",
    request_id="request",
    client_request_id="client-request",
)


def _parked(value: it.Parked) -> Case:
    (_, position, offset, due_at, checksum), _ = it.parked_row(9, value)
    place = (position, offset, due_at, checksum)
    return Case(value, lambda parked: it.parked_row(9, parked)[1], lambda packed: it.read_parked(9, (*place, packed)))


def _buried(value: it.Burial) -> Case:
    (_, position, offset, write_at, container, checksum), _ = it.burial_row(9, value)
    place = (position, offset, write_at, container, checksum)
    return Case(value, lambda burial: it.burial_row(9, burial)[1], lambda record: it.read_burial(9, (*place, record)))


def _ledger() -> dict[str, Case]:
    return {
        "cursor": _json(CURSOR),
        "cursor at a start": _json(it.Cursor(low=(1, 0))),
        "hold": _json(HOLD),
        "hold, none": _json(it.Hold()),
        "checksum of a lane": _number(it.lane_checksum(9, 4, CURSOR, HOLD)),
        "record of a delivery": _packed(
            it.ParkedRecord(
                published_at=NOW,
                attempts=2,
                skipped=1,
                last_attempt_at=NOW + 5,
                last_result=it.Result.NOT_FOUND,
                last_status=404,
                body=b'{"id":"1"}',
                trace=TRACE,
            )
        ),
        "record of a forwarded delivery": _packed(
            it.ForwardedRecord(
                published_at=NOW,
                attempts=0,
                skipped=0,
                last_attempt_at=None,
                last_result=None,
                last_status=None,
                body=b'{"id":"1"}',
                passed="0123456789abcdef",
            )
        ),
        "parked, never tried": _parked(NEW),
        "parked, tried": _parked(TRIED),
        "parked, forwarded": _parked(FORWARDED),
        "parked, its place": Case(TRIED, lambda value: it.row_text(it.parked_row(9, value)[0]).encode(), None),
        "buried": _buried(BURIAL),
        "buried, its place": Case(BURIAL, lambda value: it.row_text(it.burial_row(9, value)[0]).encode(), None),
        "notice": Case(NOTICE, it.encode_notice, it.decode_notice),
        "event of a notice": Case(NOTICE, lambda value: it.blob_created(value, 5, ACCOUNT).body, None),
    }


LABEL, OTHER = (
    it.LaneLabel(lane=9, topic=7, topic_name="Orders", subscription="Billing"),
    it.LaneLabel(lane=10, topic=7, topic_name="Orders", subscription="Audit"),
)
ATTEMPTS = [
    it.Attempt(
        label=LABEL,
        at=NOW,
        took=5,
        outcome="Success",
        status=200,
        detail="",
        probe=False,
        late=False,
        ids=["1", "2"],
        positions=[(2, 3)],
        offsets=[0, 1],
        numbers=(),
        dispositions=(),
    ),
    it.Attempt(
        label=OTHER,
        at=NOW + it.SECOND,
        took=6,
        outcome="Busy",
        status=503,
        detail="too much",
        probe=True,
        late=False,
        ids=["1", "ü", "4"],
        positions=[(2, 3), (1, 4)],
        offsets=[0, 2, 0],
        numbers=[1, 2, 31],
        dispositions=[
            it.EventDisposition(kind=it.DispositionKind.RETRY, due_at=NOW + it.MINUTE, rule=it.Rule.RETRY_AFTER),
            it.EventDisposition(
                kind=it.DispositionKind.DEAD_LETTER,
                due_at=None,
                rule=None,
                reason="MaxDeliveryAttemptsExceeded",
                where="dead",
            ),
            it.EventDisposition(kind=it.DispositionKind.DROP, due_at=None, rule=None, reason="TimeToLiveExceeded"),
        ],
    ),
    it.Attempt(
        label=LABEL,
        at=NOW - 1,
        took=7,
        outcome="Success",
        status=None,
        detail="",
        probe=False,
        late=True,
        ids=["5"],
        positions=[(1, 4)],
        offsets=[1],
        numbers=(),
        dispositions=(),
    ),
    it.Attempt(
        label=LABEL,
        at=NOW + 2,
        took=0,
        outcome="NotSent",
        status=None,
        detail="it expired",
        probe=False,
        late=False,
        ids=["6"],
        positions=[(1, 5)],
        offsets=[0],
        numbers=[4],
        dispositions=[it.EventDisposition(kind=it.DispositionKind.RETRY, due_at=NOW, rule=it.Rule.SCHEDULE)],
    ),
]


CHUNK_COLUMNS: dict[str, Any] = {
    "labels": [LABEL],
    "outcomes": ["Success"],
    "details": [""],
    "lane": [9],
    "at": [NOW],
    "took": [5],
    "outcome_of": [0],
    "status": [200],
    "detail_of": [0],
    "flags": [3],
    "events": [1],
    "runs": [1],
    "positions": [(1, 3)],
    "offsets": [0],
    "told": [(0, [2], [it.EventDisposition(kind=it.DispositionKind.DELIVERED)])],
}


def _unpack(packed: bytes) -> list[it.Attempt]:
    unpacked = it.Unpacked(it.pack_chunk(ATTEMPTS).ids, packed)
    return [attempt for _, attempt in unpacked.select(it.AttemptQuery(), range(len(unpacked)))]


def _history() -> dict[str, Case]:
    def part(name: str) -> Callable[[list[it.Attempt]], bytes]:
        place = it.Chunk._fields.index(name)
        return lambda attempts: _bytes(it.pack_chunk(attempts)[place])

    return {
        "columns": Case(ATTEMPTS, part(it.Chunk._fields[6]), _unpack),
        **{f"part {n} of a chunk": Case(ATTEMPTS, part(it.Chunk._fields[n]), None) for n in range(6)},
        "columns by place": _packed(it.ChunkColumns(**CHUNK_COLUMNS)),
        "columns with headers by place": _packed(
            it.HeadedChunkColumns(
                **CHUNK_COLUMNS, headers=[None, it.HeaderText("X-A: 1", "HTTP/1.1 200 OK")], headers_of=[1]
            )
        ),
    }


def _bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else str(part).encode()


def _settings() -> Any:
    settings = it.load_settings(environment={}, flags={"server.data": "/data"})
    return json.decode(json.encode(msgspec.to_builtins(settings)))


def _roles() -> dict[str, Case]:
    seconds = it.Histogram(bounds=it.SECONDS, counts=[*range(len(it.SECONDS) + 1)], sum=1.5)
    sizes = it.Histogram(bounds=it.SIZES, counts=[0] * (len(it.SIZES) + 1))
    gauge = it.Gauge(commit_seconds=seconds, commit_size=sizes, loop_delay_seconds=seconds)
    status = it.Status(
        gauge=gauge,
        lanes=3,
        requests=4,
        open=5,
        open_bytes=6,
        late=7,
        busy=[it.BusyLane(id=9, window=32, open=4)],
        stopped={9: "why"},
        unmatched={7: 12},
        blocked=1,
        refused={10: "to-the-cloud"},
    )
    return {
        "histogram": _packed(seconds),
        "busy lane": _packed(it.BusyLane(id=9, window=32, open=4)),
        "gauge": _packed(gauge),
        "status of dispatch": Case(status, it.encode_status, it.decode_status),
        "order to a role": _json(
            it.RoleConfig(settings=_settings(), origin=it.ClockOrigin(wall=NOW, boot=5), listener=3, wake=4, ready=5)
        ),
        "order to the portal": _json(it.PortalConfig(settings=_settings(), listener=3)),
    }


CONNECTIONS = {
    "account key": it.Connection(
        resource_id=ACCOUNT,
        endpoints={
            it.AzureService.BLOB: "https://goldenstore.blob.core.windows.net",
            it.AzureService.QUEUE: "https://goldenstore.queue.core.windows.net",
        },
        credential=it.AccountKey(account="goldenstore", key="Z29sZA=="),
    ),
    "policy key": it.Connection(
        resource_id=BUS,
        endpoints={it.AzureService.MESSAGING: "sb://goldenbus.servicebus.windows.net"},
        credential=it.PolicyKey(policy="Root", key="Z29sZA=="),
    ),
    "signature": it.Connection(
        resource_id=f"{ACCOUNT}2",
        endpoints={it.AzureService.BLOB: "https://goldenstore2.blob.core.windows.net"},
        credential=it.SharedAccess(token="sv=2022&sp=cw&sig=gold"),
    ),
    "default credential": it.Connection(
        resource_id=RELAY,
        endpoints={it.AzureService.RELAY: "https://goldenrelay.servicebus.windows.net"},
        credential=it.DefaultCredential(),
    ),
    "function key": it.Connection(
        resource_id=APP,
        endpoints={it.AzureService.FUNCTION: "https://goldenapp.azurewebsites.net"},
        credential=it.FunctionKey(key="gold"),
    ),
}
LATER_CONNECTIONS = {  # not in the data directory
    "topic key": it.Connection(
        resource_id=f"{GRID}/topics/golden",
        endpoints={it.AzureService.EVENT_GRID: "https://golden.westeurope-1.eventgrid.azure.net/api/events"},
        credential=it.TopicKey(key="gold"),
    ),
    "topic token": it.Connection(
        resource_id=f"{GRID}/topics/golden2",
        endpoints={it.AzureService.EVENT_GRID: "https://golden2.westeurope-1.eventgrid.azure.net/api/events"},
        credential=it.TopicToken(token="r=gold&e=2030-01-01T00%3a00%3a00Z&s=gold"),
    ),
}
SEAL_KEY = bytes(range(32))  # for tests only


def seal() -> it.SecretBox:
    """A seal whose key and nonces everybody knows."""
    return it.SecretBox(lambda make: SEAL_KEY, lambda count: b"n" * count)


def _keys() -> dict[str, Case]:
    return {
        **{f"connection by {name}": _json(value) for name, value in (CONNECTIONS | LATER_CONNECTIONS).items()},
        "sealed": Case(
            b"content", lambda value: seal().encrypt(value, "name"), lambda sealed: seal().decrypt(sealed, "name")
        ),
        "development.json": _json(it.Development(tenant="tenant", client_id="client", client_secret="secret")),
    }


def _tokens() -> dict[str, Case]:
    named = it.Name(subscription=9, path="BILLING/2026/9/21/14/a.json", place=3)
    place = it.ConsentTarget(topic=7, domain_topic="fruit")
    return {
        "place of a handshake": Case(
            place, lambda value: it.write_token(value).encode(), lambda token: it.read_token(token.decode())
        ),
        "name of a dead letter": Case(
            named, lambda value: str(value).encode(), lambda text: it.parse_name(text.decode())
        ),
    }


EVENT = (
    b'{"id":"1","eventTime":"2026-09-21T14:13:20Z","eventType":"Golden.Made","dataVersion":"1.0","metadataVersion":"1",'
    b'"topic":"/t","subject":"s","data":{"big":12345678901234567890,"a":1,"a":2}}'
)
CLOUD_EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"Golden.Made","subject":"s","data":{"a":1}}'


def _dead(body: bytes, published: it.InputSchema, delivered: it.DeliverySchema, extra: bool = False) -> Case:
    """A dead letter of an event, which is restored from it as it was stored."""

    def bury(body: bytes) -> bytes:
        delivery = msgspec.structs.replace(TRIED.delivery, body=body)
        return it.record.record(delivery, "MaxDeliveryAttemptsExceeded", published, delivered, extra)

    return Case(body, bury, lambda record: it.restore(it.read_dead_letters(record)[0], published).body)


def _dead_letters() -> dict[str, Case]:
    ours, cloud, custom = it.InputSchema.EVENT_GRID, it.InputSchema.CLOUD_EVENT, it.InputSchema.CUSTOM
    to_ours, to_cloud, to_custom = (
        it.DeliverySchema.EVENT_GRID,
        it.DeliverySchema.CLOUD_EVENT,
        it.DeliverySchema.CUSTOM,
    )
    outcome = it.Outcome(result=it.Result.BUSY, status=503, retry_after_ns=0, detail="too much")
    failure = it.delivery_failure("/t", SUBSCRIPTION, TRIED.delivery, "3:1", outcome, NOW, NOW + it.SECOND, HOLD)
    return {
        "event grid": _dead(EVENT, ours, to_ours),
        "event grid, extra fields": _dead(EVENT, ours, to_ours, True),
        "event grid as cloud event": _dead(EVENT, ours, to_cloud, True)._replace(decode=None),  # its version is lost
        "cloud event": _dead(CLOUD_EVENT, cloud, to_cloud),
        "cloud event, extra fields": _dead(CLOUD_EVENT, cloud, to_cloud, True),
        "custom": _dead(EVENT, custom, to_custom),
        "never tried": Case(NEW.delivery, lambda value: it.record.record(value, "TimeToLiveExceeded"), None),
        "file": Case([b"{}", b"{}"], it.record.array, None),
        "path": _text(it.record.path("Billing", NOW, "guid")),
        "diagnostic record of a delivery": _written(failure),
        "diagnostic record of a publish": _written(it.publish_failure("/t", "BadRequest", "id", "http://u", "no", NOW)),
    }


def _of(kind: type[Enum]) -> Case:
    return _written(sorted((member.value for member in kind), key=str))


def _names() -> dict[str, Case]:
    codes = {name: value for name, value in vars(it.exit_codes).items() if name.isupper()}
    constants: Mapping[str, Any] = {
        "kinds of documents": [
            it.keyring.KIND,
            it.storage_accounts.KIND,
            it.groups.KIND,
            it.domain_topics.KIND,
            it.search.KIND,
            [it.damage_report.KIND, it.damage_report.SEEN],
            [it.TAKEN_KIND, it.TAKEN],
        ],
        "files of a data directory": [
            *(kind.file for kind in (it.LOG, it.DISPATCH, it.HISTORY)),
            it.damage.MARKER,
            it.volume.BALLAST_FILE,
            *(f"{role}.lock" for role in (*it.lock.ROLES, it.lock.TRIM)),
            it.CONNECTION_KEY,
            *map(str, it.certificate.files_in(Path("tls"))),
        ],
        "variables of the environment": [
            it.ENVIRONMENT_PREFIX,
            it.cli_file_variable,
            {name: list(default[:2]) for name, default in it.cli_defaults.items()},
        ],
        "exit codes": sorted(codes.values()),
        "cookie of the portal": it.portal_cookie,
        "audiences": [*it.AZURE_MANAGEMENT, it.AZURE_DATA],
        "every failed outcome": it.failed_outcome,
        "profiles, which topics name": [*it.profile_names()],
    }
    enums: Mapping[str, type[Enum]] = {
        "results": it.Result,
        "endings": it.NonRequestOutcome,
        "fates": it.DispositionKind,
        "rules": it.Rule,
        "operators": it.Operator,
        "kinds of topics": it.TopicKind,
        "input schemas": it.InputSchema,
        "delivery schemas": it.DeliverySchema,
        "services": it.AzureService,
        "kinds of entries": it.EntryKind,
        "kinds of endpoints": it.EndpointKind,
        "roles": it.Role,
        "operations": it.Operation,
        "planes": it.Plane,
    }
    listed = {name: _of(kind) for name, kind in enums.items()}
    return listed | {name: _written(value) for name, value in constants.items()}


def _streams() -> dict[str, Case]:
    """Messages of a replicated store, which nodes of another version read, and the marker beside a copy."""
    own = it.CommitHead(it.MessageKind.OWN, "0f1e", "node-a", 3, "9a8b", 8, 5, it.StreamDigest(7, 1 << 63))
    rows = msgspec.structs.replace(own, kind=it.MessageKind.ROWS, last=False)
    before = bytes(range(8))

    def message(content: it.CommitContent) -> Case:
        return Case(
            content,
            lambda value: it.pack_message(value.head, before, value.rows),
            lambda body: it.unpack_message(body, before),
        )

    operations = [[1, [7, "text", b"blob", None]], [2, [3], [4, "new", 5, None]], [3, [1, "key"], None]]
    return {
        "own": message(it.CommitContent(own)),
        "rows": message(it.CommitContent(rows, b"part")),
        "operations": Case(operations, it.pack_rows, it.unpack_rows),
        "marker": _json(it.SeenStream(1_800_000_000_000_000_000, "log", 12)),
    }


SUBJECTS: dict[str, dict[str, Case]] = {
    "streams": _streams(),
    "registry": _registry(),
    "log": _log(),
    "ledger": _ledger(),
    "history": _history(),
    "roles": _roles(),
    "keys": _keys(),
    "tokens": _tokens(),
    "dead_letters": _dead_letters(),
    "names": _names(),
}

# What was written before some fields were there is read with the defaults of then: bytes by hand, never written anew.
OLD: dict[str, tuple[bytes, Callable[[bytes], Any], Any]] = {
    "columns of a segment without a domain": (
        msgpack.encode([*COLUMNS.values()]),
        msgpack.Decoder(it.SegmentColumns).decode,
        it.SegmentColumns(**COLUMNS, **NO_COLUMNS),
    ),
    "a delivery without a trace": (
        msgpack.encode((NOW, 2, 1, None, "Busy", None, b"{}")),
        msgpack.Decoder(it.ParkedRecord).decode,
        it.ParkedRecord(
            published_at=NOW,
            attempts=2,
            skipped=1,
            last_attempt_at=None,
            last_result=it.Result.BUSY,
            last_status=None,
            body=b"{}",
            trace="",
        ),
    ),
    "a hold without a sweep": (
        b'[3,60,30,"Busy"]',
        json.Decoder(it.Hold).decode,
        it.Hold(failures=3, until=60, period=30, cause=it.Result.BUSY, status=None, sweep_at=0),
    ),
    "a cursor without ranges": (b"[[4,0]]", json.Decoder(it.Cursor).decode, it.Cursor(low=(4, 0), finished=())),
    "a topic of the first days": (
        b'{"id":1,"version":1,"name":"a","azure_subscription":"s","resource_group":"g","location":"local",'
        b'"key1":"one","key2":"two","created_at":1,"modified_at":2}',
        json.Decoder(it.Topic).decode,
        it.Topic(
            id=1,
            version=1,
            name="a",
            azure_subscription="s",
            resource_group="g",
            location="local",
            key1="one",
            key2="two",
            created_at=1,
            modified_at=2,
            kind=it.TopicKind.CUSTOM,
            input_schema=it.InputSchema.EVENT_GRID,
            local_auth=True,
            public_access=True,
        ),
    ),
    "a subscription of the first days": (
        b'{"id":1,"version":1,"topic":1,"name":"a","destination":{"endpoint_type":"WebHook","url":"http://h"},'
        b'"filters":[[2,{}]],"created_at":1,"modified_at":2,"created_position":2}',
        json.Decoder(it.Subscription).decode,
        it.Subscription(
            id=1,
            version=1,
            topic=1,
            name="a",
            destination=it.WebHook(url="http://h"),
            filters=(it.FilterSince(position=2, filter=it.Filter()),),
            created_at=1,
            modified_at=2,
            created_position=2,
            retry_policy=it.RetryPolicy(max_attempts=30, ttl_minutes=1440),
        ),
    ),
    "a checksum of the first days": (
        b"-1190158318754208614",
        lambda stored: it.is_sound(int(stored), (1, 2), b"row"),
        True,
    ),
    "a status of dispatch without what came later": (
        msgpack.encode({"gauge": {}}),
        it.decode_status,
        it.Status(gauge=it.Gauge()),
    ),
}


def kinds_in(value: Any) -> Iterable[type[msgspec.Struct]]:
    """The structs that a value is made of."""
    if isinstance(value, msgspec.Struct):
        yield type(value)
        for part in msgspec.structs.astuple(value):
            yield from kinds_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from kinds_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from kinds_in(part)
