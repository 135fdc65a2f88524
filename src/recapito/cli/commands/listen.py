"""`recapito listen`: a webhook that prints events and can simulate failures."""

import json
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EADDRINUSE
from pathlib import Path
from typing import Annotated, Any

import typer

from recapito.cli.receiver.receiver import Arrival, WebhookReceiver
from recapito.cli.receiver.script import from_flags, from_script
from recapito.cli.text.terminal import plain
from recapito.cli.toolkit import flags
from recapito.cli.toolkit.fatal import give_up_output
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import PROVIDER, CommandSession
from recapito.cli.toolkit.verb import Noun
from recapito.errors import CallerError

app = commands()
_PORT = 9000


@Noun(app).verb("listen")
def listen(
    session: CommandSession,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port to listen on; 0 chooses a free one.", show_default="9000, or a free one"
        ),
    ] = None,
    fail: Annotated[int | None, typer.Option(min=200, max=599, help="Status of the failing answers.")] = None,
    times: Annotated[int | None, typer.Option(min=0, help="Number of requests to fail.", show_default="all")] = None,
    delay: Annotated[float, typer.Option(min=0, help="Delay of each answer in seconds.")] = 0.0,
    script: Annotated[
        Path | None, typer.Option(help="File with one answer per line: `503`, `200 delay=40`, `drop`.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="URL for the server to deliver to, with --subscribe.", show_default="host and port"),
    ] = None,
    subscribe: Annotated[str | None, typer.Option(help="Topic to subscribe to while listening.")] = None,
    schema: Annotated[
        str | None, typer.Option("--event-delivery-schema", help="Schema of the events, with --subscribe.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of events to end after.", show_default="never")
    ] = None,
    lines: Annotated[bool, typer.Option("--json-lines", help="Print each request as a line of JSON.")] = False,
    group: flags.Group = None,
) -> None:
    """Receive and print events, after either handshake, until Ctrl-C."""
    if script is not None and (fail is not None or times is not None or delay):
        raise typer.BadParameter("give --script, or --fail, --times and --delay", param_hint="--script")
    answers = from_flags(fail, times, delay) if script is None else from_script(script)
    ended = threading.Event()
    printer = _Printer(lines, count, ended)

    def open_at(number: int) -> WebhookReceiver:
        return WebhookReceiver(host, number, answers, printer.print, printer.count)

    receiver = open_receiver(session, host, port, open_at)
    receiver.start()
    own = f"http://{f'[{host}]' if ':' in host else host}:{receiver.port}/"
    typer.echo(f"Listening at {own} (Ctrl-C stops)", err=True)
    try:
        with _subscribed(session, subscribe, group, url or own, schema):
            _wait(ended)
    finally:
        receiver.stop()


def open_receiver(
    session: CommandSession, host: str, port: int | None, open: Callable[[int], WebhookReceiver]
) -> WebhookReceiver:
    """A receiver at the port, or at the default one; at a free one if the default is taken."""
    try:
        return open(_PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == EADDRINUSE:
            session.note(f"port {_PORT} is taken, so another is used; --port chooses one")
            return open(0)
        text = f"{host}:{port} cannot be used: {error.strerror}. Choose another port with --port, or 0 for a free one."
        raise CallerError("PortTaken", text) from None


class _Printer:
    """Prints arrivals one at a time, and sets `ended` after `count` events."""

    def __init__(self, lines: bool, count: int | None, ended: threading.Event) -> None:
        self._lines = lines
        self._left = count
        self._ended = ended
        self._turn = threading.Lock()

    def print(self, arrival: Arrival) -> None:
        """Print one arrival. A closed stdout ends the command."""
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
    """An event on one line; its control characters are made harmless for the terminal."""
    if not isinstance(event, dict):
        return plain(json.dumps(event, ensure_ascii=False))
    name = event.get("eventType") or event.get("type")  # of the Event Grid schema, of CloudEvents
    data = json.dumps(event.get("data", event), ensure_ascii=False)
    return plain(f"{name} {event.get('subject', '')} {data}")


@contextmanager
def _subscribed(
    session: CommandSession, topic: str | None, group: str | None, url: str, schema: str | None
) -> Iterator[None]:
    """Subscribe, and delete the subscription at the end."""
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
    """Wait for the last event, SIGTERM or Ctrl-C: no subscription may be left behind."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        ended.wait()
    except KeyboardInterrupt:
        typer.echo("", err=True)
