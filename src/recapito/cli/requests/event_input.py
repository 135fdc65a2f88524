"""Events before they are published: read from a file or made from flags, and checked as the server checks them.

Checking is the domain's own, so that what passes here is taken there.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import typer

from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS, accept
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.errors import CallerError

_SOURCE = "/recapito/publish"
_MAPPED = {
    "id": "id",
    "topic": "topic",
    "event_time": "eventTime",
    "event_type": "eventType",
    "subject": "subject",
    "data_version": "dataVersion",
}


class EventInput(NamedTuple):
    """One event as it will be sent, and where it was read."""

    place: str
    body: bytes


def make_event(
    schema: InputSchema,
    type: str,
    subject: str,
    data: str | None,
    source: str | None,
    domain_topic: str | None,
    id: str | None = None,
) -> EventInput:
    """An event from flags, in the schema of the topic. Without an id it gets a new one."""
    now, id, value = datetime.now(UTC).isoformat(), str(uuid4()) if id is None else id, _value(data)
    event: dict[str, Any]
    match schema:
        case InputSchema.CLOUD_EVENT:
            named = domain_topic or source or _SOURCE  # the source names the topic of a domain
            event = {"specversion": "1.0", "id": id, "source": named, "type": type, "time": now, "subject": subject}
            event = {name: member for name, member in event.items() if member} | {"data": value}
        case InputSchema.EVENT_GRID:
            event = {"id": id, "eventTime": now, "eventType": type, "dataVersion": "", "subject": subject}
            event |= ({} if domain_topic is None else {"topic": domain_topic}) | {"data": value}
        case _:
            text = "the topic takes events of its own schema; publish a file in that"
            raise typer.BadParameter(text, param_hint="--type")
    return EventInput("the event", json.dumps(event, ensure_ascii=False).encode())


def _value(data: str | None) -> Any:
    if data is None:
        return {}
    try:
        return json.loads(data)
    except ValueError as error:
        text = f"this is not JSON: {error}. Put a text between double quotes too: --data '\"text\"'"
        raise typer.BadParameter(text, param_hint="--data") from None


def read_content(file: str | None) -> bytes:
    """The contents of a file, or of stdin."""
    if file is None or file == "-":
        if sys.stdin.isatty():
            typer.echo("recapito: reading events from the terminal; Ctrl-D ends them", err=True)
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None


def read_events(content: bytes, name: str) -> list[EventInput]:
    """The events of a file: an array, one event, or one on each line."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise typer.BadParameter(f"{name} holds no event", param_hint="FILE")
    if not content.lstrip().startswith(b"["):
        return _lines(content, name)
    try:
        events = msgspec.json.decode(content, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{name} is not JSON: {error}", param_hint="FILE") from None
    if not events:
        raise typer.BadParameter(f"{name} holds no event", param_hint="FILE")
    return [EventInput(f"{name}, event {n} of the array", bytes(event)) for n, event in enumerate(events, 1)]


def _lines(content: bytes, name: str) -> list[EventInput]:
    """One event on several lines, or one on each."""
    try:
        msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        return [EventInput(name, content.strip())]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        lines = enumerate(content.splitlines(), 1)
        return [EventInput(f"{name}, line {n}", line.strip()) for n, line in lines if line.strip()]


def repeated(draft: EventInput, number: int) -> bytes:
    """The same event once more: with another id, since an id is one event's. All else stays as it came."""
    if number == 0:
        return draft.body
    event = msgspec.json.decode(draft.body, type=dict[str, msgspec.Raw])
    if "id" in event:
        id = msgspec.json.decode(event["id"])
        event["id"] = msgspec.Raw(msgspec.json.encode(f"{id}-{number + 1}"))
    return msgspec.json.encode(event)


class Verifier:
    """Checks events for one topic, as the API shows it."""

    def __init__(self, topic: Any) -> None:
        properties = topic["properties"]
        self.schema = InputSchema(properties["inputSchema"])
        _, _, subscription, _, group, *_ = topic["id"].split("/")
        self._topic = Topic(
            name=topic["name"],
            kind=TopicKind.DOMAIN if "/domains/" in topic["id"] else TopicKind.CUSTOM,
            azure_subscription=subscription,
            resource_group=group,
            location=topic["location"],
            input_schema=self.schema,
            mapping=_mapping(properties.get("inputSchemaMapping")),
            key1="",
            key2="",
            created_at=0,
            modified_at=0,
        )

    def check(self, drafts: Sequence[EventInput]) -> tuple[list[EventInput], list[str]]:
        """The events that will be taken, and what is wrong with each of the others."""
        good: list[EventInput] = []
        bad: list[str] = []
        for draft in drafts:
            try:
                self._accept(draft.body)
                good.append(draft)
            except CallerError as error:
                bad.append(f"{draft.place}: {_reason(error.message)}")
        return good, bad

    def _accept(self, body: bytes) -> None:
        content_type = INPUT_SCHEMAS[self.schema].array_type.encode()
        accept(self._topic, {b"content-type": content_type}, b"[" + body + b"]", 0, lambda: "id")


def _reason(message: str) -> str:
    """The fault, without the introduction of all such errors and the number of the only event."""
    reason = message.partition("expected schema. ")[2] or message
    return reason.removeprefix("Event 0: ")


def _mapping(mapping: Any) -> InputMapping | None:
    if not mapping:
        return None
    fields = mapping.get("properties") or {}
    return InputMapping(
        **{
            name: MappedField((fields.get(wire) or {}).get("sourceField"), (fields.get(wire) or {}).get("defaultValue"))
            for name, wire in _MAPPED.items()
        }
    )
