"""`recapito listen`: a webhook that prints what arrives, and misbehaves as it is told to."""

import json
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from recapito.cli.receiver.receiver import Arrival, Receiver
from recapito.cli.receiver.script import from_flags, from_script
from recapito.cli.text.escape import plain
from recapito.cli.toolkit import common_flags
from recapito.cli.toolkit.fatal import give_up_output
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import PROVIDER, Session
from recapito.cli.toolkit.verb import Noun
from recapito.errors import CallerError

app = commands()


@Noun(app).verb("listen")
def listen(
    session: Session,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port, 0 for a free one.")] = 9000,
    fail: Annotated[int | None, typer.Option(min=200, max=599, help="Answer this status …")] = None,
    times: Annotated[int | None, typer.Option(min=0, help="… to the first requests.", show_default="all")] = None,
    delay: Annotated[float, typer.Option(min=0, help="Answer after so many seconds.")] = 0.0,
    script: Annotated[
        Path | None, typer.Option(help="Answer as this file says, line by line: `503`, `200 delay=40`, `drop`.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="How the server reaches it, with --subscribe.", show_default="host and port")
    ] = None,
    subscribe: Annotated[str | None, typer.Option(help="Subscribe to this topic for as long as it runs.")] = None,
    schema: Annotated[
        str | None, typer.Option("--event-delivery-schema", help="In which schema, with --subscribe.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.", show_default="never")] = None,
    lines: Annotated[bool, typer.Option("--json-lines", help="Print each request as one line of JSON.")] = False,
    group: common_flags.Group = None,
) -> None:
    """Receive events and print them; both handshakes are answered. Ctrl-C ends it."""
    if script is not None and (fail is not None or times is not None or delay):
        raise typer.BadParameter("a script and --fail, --times or --delay exclude each other", param_hint="--script")
    behaviour = from_flags(fail, times, delay) if script is None else from_script(script)
    ended = threading.Event()
    printer = _Printer(lines, count, ended)
    try:
        receiver = Receiver(host, port, behaviour, printer.tell, printer.count)
    except OSError as error:
        text = f"{host}:{port} can not be listened on: {error.strerror}. Choose another with --port, or 0."
        raise CallerError("PortTaken", text) from None
    receiver.start()
    own = f"http://{f'[{host}]' if ':' in host else host}:{receiver.port}/"
    typer.echo(f"Listening at {own} (Ctrl-C stops)", err=True)
    try:
        with _subscribed(session, subscribe, group, url or own, schema):
            _wait(ended)
    finally:
        receiver.stop()


class _Printer:
    """Prints arrivals one at a time, and says when there were enough."""

    def __init__(self, lines: bool, count: int | None, ended: threading.Event) -> None:
        self._lines = lines
        self._left = count
        self._ended = ended
        self._turn = threading.Lock()

    def tell(self, arrival: Arrival) -> None:
        """Print one arrival. When nobody can read it any more, that is the end."""
        with self._turn:
            try:
                typer.echo(json.dumps(arrival._asdict()) if self._lines else "\n".join(_describe(arrival)))
            except OSError:
                give_up_output()
                self._ended.set()

    def count(self, events: int) -> None:
        """Events were answered; when there were enough of them, that is the end."""
        with self._turn:
            if self._left is not None:
                self._left -= events
                if self._left <= 0:
                    self._ended.set()


def _describe(arrival: Arrival) -> Iterator[str]:
    answered = str(arrival.status or "dropped")
    if arrival.kind == "handshake":
        yield f"handshake of {plain(arrival.subscription) or 'a CloudEvents subscription'} -> {answered}"
    elif arrival.kind == "deleted":
        yield f"subscription {plain(arrival.subscription)} was deleted"
    for event in arrival.events:
        yield f"attempt {arrival.attempt}: {_shorten(event)} -> {answered}"


def _shorten(event: Any) -> str:
    """An event on one line, as text: control characters of others have no power over our terminal."""
    if not isinstance(event, dict):
        return plain(json.dumps(event, ensure_ascii=False))
    name = event.get("eventType") or event.get("type")  # of the Event Grid schema, of CloudEvents
    data = json.dumps(event.get("data", event), ensure_ascii=False)
    return plain(f"{name} {event.get('subject', '')} {data}")


@contextmanager
def _subscribed(session: Session, topic: str | None, group: str | None, url: str, schema: str | None) -> Iterator[None]:
    """A subscription for as long as this lasts."""
    if topic is None:
        yield
        return
    name = f"listen-{secrets.token_hex(4)}"
    path = f"{session.path('topics', topic, group)}{PROVIDER}/eventSubscriptions/{name}"
    hook = {"endpointType": "WebHook", "properties": {"endpointUrl": url}}
    session.put(path, {"properties": {"destination": hook, "eventDeliverySchema": schema}})
    typer.echo(f"Subscribed to {topic} as {name}, until this ends", err=True)
    try:
        yield
    finally:
        session.client.close()  # its connection may be old by now
        session.client.arm("DELETE", path)


def _wait(ended: threading.Event) -> None:
    """Until enough has arrived, or somebody ends us: a subscription must not be left behind."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        ended.wait()
    except KeyboardInterrupt:
        typer.echo("", err=True)
