"""The targets of fuzzing: each takes any bytes, and raises only when something is wrong with the service.

A target judges by an oracle of its own: the standard library's JSON, addresses and HTTP, not the code under test.
"""

import ipaddress
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from recapito.api.publish.authenticate import PublishGate
from recapito.api.wire.subscription import read_subscription, read_subscription_change
from recapito.api.wire.topic import read_key_name, read_topic, read_topic_change
from recapito.domain.access import sas
from recapito.domain.access.egress import Egress, judge, judge_endpoint, parse_endpoint
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import accept
from recapito.domain.events.segment import Columns, Publish, Segment, StampedEvent, pack
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import CallerError, Unauthorized
from recapito.stores.sqlite.sql.rows import checksum, is_sound
from tests.fuzz import wire
from tests.fuzz.wrong import Wrong
from tests.kit.resources import a_topic

NOW = 1_800_000_000 * 1_000_000_000
KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="


@dataclass(frozen=True)
class Target:
    """One entrance, with texts to begin from and words that a guess may use."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()


def _expect(condition: object, message: str) -> None:
    if not condition:
        raise Wrong(message)


# Publishing.

MAPPING = InputMapping(
    id=MappedField(source="a.id"),
    topic=MappedField(source="t"),
    event_type=MappedField(source="kind", default="thing"),
    subject=MappedField(source="about", default="nothing"),
    event_time=MappedField(source="at"),
    data_version=MappedField(default="1"),
)


def _topic(schema: InputSchema, kind: TopicKind = TopicKind.CUSTOM) -> Topic:
    mapping = MAPPING if schema is InputSchema.CUSTOM else None
    return a_topic(kind=kind, input_schema=schema, mapping=mapping, key1=KEY, key2=KEY[::-1])


TOPICS = [_topic(schema, kind) for schema in InputSchema for kind in (TopicKind.CUSTOM, TopicKind.DOMAIN)]
MEDIA = (
    b"application/json",
    b"application/cloudevents+json",
    b"application/cloudevents-batch+json; charset=utf-8",
    b"",
)


def publish(data: bytes) -> None:
    """A body in one of three schemas: refused in words for the caller, or stored as JSON with its data unchanged.

    The first byte says which topic and which content type.
    """
    choice, body = data[0] if data else 0, data[1:]
    topic, media = TOPICS[choice % len(TOPICS)], MEDIA[choice // len(TOPICS) % len(MEDIA)]
    headers = {b"content-type": media} if media else {}
    if choice >= 128:
        headers |= {b"ce-specversion": b"1.0", b"ce-id": body[:5], b"ce-type": b"t", b"ce-source": body[5:9]}
    try:
        events = accept(topic, headers, body, NOW, lambda: "new")
    except CallerError as error:
        _expect(error.message and len(error.message) < 2000, f"a refusal says {error.message!r}")
        return
    stored = [_json(event.body) for event in events]
    if choice < 128 and topic.input_schema is InputSchema.EVENT_GRID:
        sent = _json(body)
        for before, after in zip(sent, stored, strict=True):
            _expect(before.get("data", None) == after.get("data", None), "data was changed")
            _expect(before["id"] == after["id"] and after["id"], "the id was changed")
    segment = Segment(*pack([Publish(NOW, events)]))
    _expect([segment.event(i) for i in range(len(segment))] == [event.body for event in events], "packing changes")


def _json(text: bytes) -> Any:
    """As the standard library reads it, with every number as it was written."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise Wrong(f"{name} is no JSON, and was taken")


# Management.

READERS: tuple[Callable[[bytes], object], ...] = (
    lambda body: read_subscription(body, "name"),
    lambda body: read_subscription(body, "name", "topic"),
    lambda body: read_subscription_change(body)(read_subscription(SUBSCRIPTION, "name")),
    lambda body: read_topic(TopicKind.CUSTOM, body, "s", "g", "orders"),
    lambda body: read_topic(TopicKind.DOMAIN, body, "s", "g", "orders"),
    lambda body: read_topic(TopicKind.SYSTEM, body, "s", "g", "orders"),
    lambda body: read_topic_change(TopicKind.CUSTOM, body)(read_topic(TopicKind.CUSTOM, TOPIC, "s", "g", "orders")),
    read_key_name,
)
TOPIC = (
    b'{"location":"westeurope","tags":{"a":"b"},"properties":{"inputSchema":"EventGridSchema","inboundIpRules":'
    b'[{"ipMask":"10.0.0.0/8","action":"Allow"}],"publicNetworkAccess":"Enabled","disableLocalAuth":false}}'
)
SUBSCRIPTION = (
    b'{"properties":{"destination":{"endpointType":"WebHook","properties":{"endpointUrl":"https://example.org/a?b=c",'
    b'"maxEventsPerBatch":10,"preferredBatchSizeInKilobytes":64,"deliveryAttributeMappings":[{"name":"a","type":"Static",'
    b'"properties":{"value":"v","isSecret":true}},{"name":"b","type":"Dynamic","properties":{"sourceField":"data.x"}}]}},'
    b'"filter":{"subjectBeginsWith":"a","includedEventTypes":["t"],"enableAdvancedFilteringOnArrays":true,'
    b'"advancedFilters":[{"operatorType":"NumberIn","key":"data.n","values":[1,2.5]},{"operatorType":"StringContains",'
    b'"key":"Subject","values":["x"]},{"operatorType":"NumberInRange","key":"n","values":[[1,2]]}]},'
    b'"labels":["l"],"expirationTimeUtc":"2030-01-01T00:00:00Z","eventDeliverySchema":"CloudEventSchemaV1_0",'
    b'"retryPolicy":{"maxDeliveryAttempts":10,"eventTimeToLiveInMinutes":60},"deadLetterDestination":{"endpointType":'
    b'"StorageBlob","properties":{"resourceId":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/'
    b'storageAccounts/acc","blobContainerName":"dead"}}}}'
)
QUEUE = (
    b'{"properties":{"destination":{"endpointType":"StorageQueue","properties":{"resourceId":"/subscriptions/s/resource'
    b'Groups/g/providers/Microsoft.Storage/storageAccounts/acc","queueName":"q-1","queueMessageTimeToLiveInSeconds":60}}}}'
)


def manage(data: bytes) -> None:
    """The body of a PUT or PATCH: refused in words for the caller, or read. The first byte says as what."""
    read = READERS[(data[0] if data else 0) % len(READERS)]
    try:
        read(data[1:])
    except CallerError as error:
        _expect(error.message, "a refusal says nothing")


# Shared access signatures.

ENDPOINT = "http://127.0.0.1:8080/topics/orders/api/events"
EXPIRIES = ("2030-01-01T00:00:00Z", "1/1/2030 1:02:03 PM", "2030-01-01 00:00")
GIVEN = [sas.sign(ENDPOINT, expiry, KEY) for expiry in EXPIRIES]
SIGNED = {token.rpartition("&s=")[0] for token in GIVEN}
PUBLISHED_TO = _topic(InputSchema.EVENT_GRID)


def token(data: bytes) -> None:
    """A token admits only if we signed its text; whatever else comes is a 401."""
    headers = {b"aeg-sas-token": data}
    try:
        PublishGate(lambda: NOW).check(headers, b"", None, PUBLISHED_TO)
    except Unauthorized:
        return
    signed = data.decode("latin-1").strip().rpartition("&s=")[0]
    _expect(signed in SIGNED, f"{data!r} was let in")


# Segments and checksums.

_decode_columns = msgspec.msgpack.Decoder(Columns).decode


def segment(data: bytes) -> None:
    """Bytes that a disk shows: what was changed is not sound; what decodes is whole, or raises msgspec's error.

    The first two bytes say where to cut. Two halves of the rest are columns and body.
    """
    cut = int.from_bytes(data[:2], "big") % (len(data) + 1)
    packed, body = data[2 : 2 + cut], data[2 + cut :]
    stored = checksum((1, 2), packed, body)
    _expect(is_sound(stored, (1, 2), packed, body), "what was stored is not sound")
    if body:
        flipped = bytes([body[0] ^ 1]) + body[1:]
        _expect(not is_sound(stored, (1, 2), packed, flipped), "a flipped bit went unnoticed")
    try:
        columns = _decode_columns(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        columns = None
    if columns is not None and sum(count for count, _ in columns.publishes if count > 0) <= len(columns.ends):
        found = Segment(packed, body)
        _expect(len(found) == len(columns.ends), "a segment has another length than its columns")
    bodies = body.split(b",")
    events = [StampedEvent(each, each[:3].hex(), each[3:5].hex(), "1", "", each[:4].hex()) for each in bodies]
    again = Segment(*pack([Publish(1, events[:cut]), Publish(2, events[cut:])]))
    for i, event in enumerate(events):
        _expect((again.event(i), again.type(i), again.id(i)) == (event.body, event.type, event.id), "packing changes")


# Addresses.


def address(data: bytes) -> None:
    """A URL, or the bits of an address: what is allowed in public is global by the standard library's table too."""
    if len(data) in (4, 16):
        found = ipaddress.ip_address(data)
        if judge(str(found), Egress.PUBLIC) is None:
            _expect(_is_public(found), f"{found} may be dialled")
        return
    try:
        endpoint = parse_endpoint(data.decode("utf-8", "replace"))
    except CallerError:
        return
    if endpoint.is_literal:
        if judge_endpoint(endpoint, Egress.PUBLIC) is None:
            _expect(_is_public(ipaddress.ip_address(endpoint.host)), f"{endpoint.host} may be dialled")
        return
    try:
        socket.inet_aton(endpoint.host)
    except OSError:
        return
    raise Wrong(f"{endpoint.host} is an address to the system, and a name to us")


CARRIERS = [ipaddress.IPv6Network(block) for block in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")]


def _is_public(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """An IPv6 address that carries IPv4 addresses is what they are."""
    if isinstance(found, ipaddress.IPv6Address):
        inner = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        if any(found in block for block in CARRIERS):
            inner.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
        if any(inner):
            return all(_is_public(each) for each in inner if each is not None)
    return found.is_global and not found.is_multicast


EVENT = (
    b'[{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00.5Z","data":{"a":[1,2.50,"\\u00e9"]},'
    b'"dataVersion":"1"}]'
)
CLOUD = (
    b'{"specversion":"1.0","id":"1","source":"/a","type":"t","subject":"s","time":"2026-01-01T00:00:00Z",'
    b'"datacontenttype":"application/json","data":{"n":1e400}}'
)
ONE = StampedEvent(b'{"id":"1"}', "t", "s", "1", "", "1")
MAPPED = b'[{"a":{"id":"x"},"t":"y"}]'

TARGETS = {
    "http": Target(wire.http, wire.SEEDS, wire.WORDS),
    "publish": Target(
        publish,
        tuple(bytes([n]) + body for n in range(24) for body in (EVENT, CLOUD, b"[" + CLOUD + b"]", MAPPED)),
        (b'"data_base64":"AA=="', b'"topic":"t"', b'"metadataVersion":"1"', b"NaN", b"\\ud800", b"[[[[", b"1e999"),
    ),
    "manage": Target(
        manage, tuple(bytes([n]) + body for n in range(8) for body in (SUBSCRIPTION, QUEUE, TOPIC)), (b"null", b"[]")
    ),
    "token": Target(token, tuple(text.encode() for text in GIVEN), (b"&s=", b"%3d", b"+", b"e=", b"r=")),
    "segment": Target(
        segment,
        tuple(
            len(packed).to_bytes(2, "big") + packed + body
            for packed, body in (pack([Publish(5, [ONE] * count)]) for count in (0, 1, 3))
        ),
    ),
    "address": Target(
        address,
        (
            b"https://example.org/hook?code=1",
            b"http://127.0.0.1:80/",
            b"http://[::ffff:7f00:1]/",
            b"\x7f\0\0\1",
            b"\0" * 15 + b"\1",
            b"\x20\x02\x7f\0\0\1" + b"\0" * 10,
        ),
        (b"0x7f", b"0177", b"%00", b"@", "。".encode(), "①".encode(), b"[::", b"64:ff9b::", b"169.254.169.254"),
    ),
}
