"""`recapito publish`: events from a file, from stdin, or made from flags.

All events are read and checked before the first is sent: one invalid event stops everything, unless `--partial`.
"""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from recapito.cli.requests.event_input import EventInput, Verifier, make_event, read_content, read_events, repeated
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.defaults import choose
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import CommandSession
from recapito.cli.toolkit.verb import Noun
from recapito.domain import limits
from recapito.domain.events.schema import InputSchema
from recapito.domain.events.schema_table import INPUT_SCHEMAS
from recapito.domain.events.segment import id_of
from recapito.errors import CallerError

app = commands()


@Noun(app).verb("publish")
def publish(
    session: CommandSession,
    topic: Annotated[str | None, typer.Argument(help="Topic, or domain with --domain.")] = None,
    file: Annotated[str | None, typer.Argument(help="JSON array, or one event per line; - is stdin.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="Type of an event made from flags.")] = None,
    subject: Annotated[str | None, typer.Option(help="Subject of that event.")] = None,
    data: Annotated[str | None, typer.Option(help="Data of that event, as JSON.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of that event.", show_default="a new one")] = None,
    source: Annotated[
        str | None, typer.Option(help="Source of that event, for CloudEvents.", show_default="/recapito/publish")
    ] = None,
    domain: Annotated[bool, typer.Option("--domain", help="Publish to a domain.")] = False,
    domain_topic: Annotated[str | None, typer.Option(help="Topic within the domain.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of times to publish everything, each with new ids.")] = 1,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second.", show_default="no limit")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Publish the valid events even if some are invalid.")
    ] = False,
    key: Annotated[str | None, typer.Option(help="Key of the topic.", show_default="asked of the server")] = None,
    group: flags.Group = None,
) -> Any:
    """Publish events from a file, stdin, or --type, --subject and --data."""
    if topic is None:
        raise typer.BadParameter("a topic is required", param_hint="TOPIC")
    path = session.path("domains" if domain else "topics", topic, group)
    resource = session.client.arm("GET", path)
    verifier = Verifier(resource)
    if file is None and type is not None:
        events = [make_event(verifier.schema, type, subject or "", data, source, domain_topic, id)]
    elif any(given is not None for given in (type, subject, data, source, id)):
        wrong = (
            "an event is made from flags, or read from a file"
            if file
            else "give --type with the other flags of an event"
        )
        raise typer.BadParameter(wrong, param_hint="--type")
    else:
        events = read_events(read_content(file), "stdin" if file in (None, "-") else str(file))
    good, bad = verifier.check(events)
    if bad and not partial:
        for fault in bad[:10]:
            typer.echo(f"recapito: {fault}", err=True)
        more = f" and {len(bad) - 10} more" if len(bad) > 10 else ""
        raise CallerError("BadEvents", f"Nothing was published: {len(bad)} of {len(events)} events are wrong{more}.")
    for fault in bad:
        session.note(f"left out: {fault}")
    sent = _send(session, resource, good, count, rate, choose("key", key) or _ask_key(session, path), verifier.schema)
    if bad:
        raise CallerError("BadEvents", f"Published {sent} events; {len(bad)} were left out.")
    named = {"id": id_of(good[0].body)} if sent == 1 else {}  # what `explain` is asked with
    return {"topic": resource["name"], "published": sent, **named}


def _ask_key(session: CommandSession, path: str) -> str:
    """The key of the topic; empty for a principal that may not read it and publishes with its token."""
    try:
        key: str = session.client.arm("POST", f"{path}/listKeys")["key1"]
    except CallerError:
        if session.client.signs_in:
            return ""
        raise
    return key


def _send(
    session: CommandSession,
    resource: Any,
    drafts: list[EventInput],
    count: int,
    rate: float | None,
    key: str,
    schema: InputSchema,
) -> int:
    """Send in requests as large as limits and rate allow; the number of events sent."""
    from recapito.cli.text.terminal import progress

    path = f"/{'domains' if '/domains/' in resource['id'] else 'topics'}/{resource['name']}/api/events"
    content_type = INPUT_SCHEMAS[schema].array_type
    total, sent = len(drafts) * count, 0
    largest = limits.PUBLISH_EVENTS if rate is None else max(1, min(limits.PUBLISH_EVENTS, int(rate / 10)))
    began = time.monotonic()
    try:
        with progress("Publishing", total) as advance:
            for bodies in _batches(drafts, count, largest):
                if rate is not None:
                    time.sleep(max(0.0, began + sent / rate - time.monotonic()))
                session.client.publish(path, b"[" + b",".join(bodies) + b"]", content_type, key)
                sent += len(bodies)
                advance(len(bodies))
    except CallerError as error:
        already = f" {sent} of {total} events were published before." if sent else ""
        raise type(error)(error.code, f"{error.message}{_advice(error)}{already}") from None
    except KeyboardInterrupt:
        session.note(f"{sent} of {total} events were published; a request that was under way may have been, too.")
        raise
    return sent


def _advice(error: CallerError) -> str:
    return " Give a key of this topic with --key." if error.code == "Unauthorized" else ""


def _batches(drafts: list[EventInput], count: int, largest: int) -> Iterator[list[bytes]]:
    bodies: list[bytes] = []
    size = 2
    for number in range(count):
        for draft in drafts:
            body = repeated(draft, number)
            if bodies and (len(bodies) == largest or size + len(body) + 1 > limits.PUBLISH_BYTES):
                yield bodies
                bodies, size = [], 2
            bodies.append(body)
            size += len(body) + 1
    if bodies:
        yield bodies
