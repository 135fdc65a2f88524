"""`recapito tail`: deliveries as they happen, one attempt a line."""

import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from recapito.cli.text.explanation import show_ending, show_outcome, was_request
from recapito.cli.text.terminal import paint, visible
from recapito.cli.text.time import show_distance, show_moment
from recapito.cli.toolkit.client import patiently
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.errors import NotFound

app = commands()
_PATH = "/deliveries"
_PAGE = 1000
_PAUSE_S = 0.5
_LISTED = {"topic": ("topic", "recapito topic list"), "subscription": ("event subscription", "recapito top")}


def delivery_lines(delivery: Any) -> Iterator[str]:
    """One attempt on one line: instant, subscription, outcome, and the consequence for its events."""
    place = visible(f"{delivery['topic']}/{delivery['subscription']}")
    outcome = visible(show_outcome(delivery))
    rest = visible(_request(delivery) if was_request(delivery) else _ending(delivery))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    start = f"{show_moment(delivery['at'])}  {place:<24}  "
    room = None if width is None else max(0, width - len(start) - 18)
    yield f"{start}{paint(f'{outcome:<16}', delivery['outcome'])}  {rest[:room]}"


@Noun(app).verb("tail", form=Output.TABLE, to_lines=delivery_lines)
def tail(
    session: CommandSession,
    topic: Annotated[str | None, typer.Argument(help="Show only this topic.")] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", "--event-subscription", help="Show only this event subscription.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Show only this outcome: Success, Busy, TimedOut …")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Show only failed attempts.")] = False,
    last: Annotated[int, typer.Option(min=0, max=_PAGE, help="Show the last N deliveries first.")] = 10,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C, or stop after the last N.")] = True,
) -> Iterator[Any]:
    """Print one line per delivery attempt as it happens, until Ctrl-C."""
    if failed and outcome is not None:
        raise typer.BadParameter("give --failed or --outcome, not both", param_hint="--outcome")
    given = {"topic": topic, "subscription": subscription, "outcome": "Failed" if failed else outcome}
    return _deliveries(session, {name: value for name, value in given.items() if value is not None}, last, follow)


def _deliveries(session: CommandSession, wanted: dict[str, Any], last: int, follow: bool) -> Iterator[Any]:
    page = _ask(session, {**wanted, "limit": max(1, last)})
    if page.get("unknown") is not None:
        kind, list = _LISTED[page["unknown"]]
        name = visible(wanted[page["unknown"]])
        raise NotFound("NotFound", f"There is no {kind} '{name}'. `{list}` lists them.")
    yield from reversed(page["value"][:last])
    while follow:
        if len(page["value"]) < _PAGE:
            time.sleep(_PAUSE_S)
        page = patiently(partial(_ask, session, {**wanted, "after": page["newest"], "limit": _PAGE}), session.note)
        if session.client.missing and "missingPartitions" not in page:
            session.client.missing.clear()
            session.note("all partitions of the cluster answer again")
        yield from page["value"]


def _ask(session: CommandSession, query: dict[str, Any]) -> Any:
    return session.client.call("GET", f"{_PATH}?{urlencode(query)}")


def _request(delivery: Any) -> str:
    first = delivery["events"][0]
    detail = f'  "{delivery["detail"]}"' if delivery.get("detail") else ""
    return f"{delivery['tookMs']:.0f} ms  attempt {first['attempt']}  {_events(delivery)}{_then(delivery)}{detail}"


def _ending(delivery: Any) -> str:
    return f"{_events(delivery)}, {show_ending(delivery, delivery['events'][0])}"


def _events(delivery: Any) -> str:
    more = delivery["eventCount"] - 1
    return f"{delivery['events'][0]['id']}" + (f" and {more} more" if more else "")


def _then(delivery: Any) -> str:
    """The consequence for the first of its events."""
    event = delivery["events"][0]
    match event["then"]:
        case "retry":
            return f", again {show_distance(delivery['at'], event['dueAt'])}" if event.get("dueAt") else ", again"
        case "deadLetter":
            return f", to be dead-lettered: {event.get('reason')}"
        case "drop":
            return f", dropped: {event.get('reason')}"
    return ""
