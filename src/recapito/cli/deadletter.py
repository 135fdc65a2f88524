"""`recapito deadletter`: see, send again and remove what could not be delivered. A client of the server's API."""

from typing import Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from recapito.cli.exit import FAILED
from recapito.cli.letter_client import client_of
from recapito.cli.profile import Output, OutputOption

app = typer.Typer(no_args_is_help=True, help="See, send again and remove events that could not be delivered.")

Server = Annotated[str | None, typer.Option(help="The server's URL; RECAPITO_SERVER, or this machine's.")]
Topic = Annotated[str | None, typer.Option(help="Only of this topic.")]
Subscription = Annotated[str | None, typer.Option(help="Only of the event subscription of this name.")]
Since = Annotated[str | None, typer.Option(help="Written in the hour of this time or later, e.g. 2026-01-31T12:00Z.")]
Until = Annotated[str | None, typer.Option(help="Written in an hour that began before this time.")]
Reason = Annotated[str | None, typer.Option(help="Only with this reason, e.g. MaxDeliveryAttemptsExceeded.")]
EventType = Annotated[str | None, typer.Option(help="Only events of this type.")]
Subject = Annotated[str | None, typer.Option(help="Only events whose subject begins so.")]
Redriven = Annotated[bool | None, typer.Option(help="Only those that were, or were not, redriven.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@app.command("list")
def list_letters(
    topic: Topic = None,
    subscription: Subscription = None,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    event_type: EventType = None,
    subject: Subject = None,
    redriven: Redriven = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    output: OutputOption = Output.TABLE,
    server: Server = None,
) -> None:
    """List dead letters."""
    wanted = _wanted(topic, subscription, since, until, reason, event_type, subject, redriven)
    letters = client_of(server).list(wanted, limit)
    if output is Output.JSON:
        _print_json(list(letters))
        return
    table = Table("name", "event", "type", "subject", "reason", "outcome", "redriven", box=SIMPLE_HEAD)
    for one in letters:
        at = one["redriven"]["at"][:19] if one["redriven"] else ""
        row = (one["name"], one["eventId"], one["eventType"], one["subject"], one["reason"])
        table.add_row(*row, one["lastDeliveryOutcome"], at)
    Console(highlight=False, markup=False).print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A letter's name, as `list` prints it.")], server: Server = None
) -> None:
    """Show one dead letter, with its event."""
    _print_json(client_of(server).show(name))


@app.command()
def redrive(
    topic: Topic = None,
    subscription: Subscription = None,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    event_type: EventType = None,
    subject: Subject = None,
    rate: Annotated[int | None, typer.Option(min=1, help="At most so many events a second.")] = None,
    dry_run: DryRun = False,
    server: Server = None,
) -> None:
    """Deliver dead letters again, each to its own event subscription.

    What was redriven is marked and not redriven again, so this can be stopped at any time and run anew.
    """
    wanted = _wanted(topic, subscription, since, until, reason, event_type, subject)
    _go_on("redrive", {**wanted, "eventsPerSecond": rate}, dry_run, "redriven", server)


@app.command()
def purge(
    topic: Topic = None,
    subscription: Subscription = None,
    since: Since = None,
    until: Until = None,
    reason: Reason = None,
    event_type: EventType = None,
    subject: Subject = None,
    redriven: Redriven = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    server: Server = None,
) -> None:
    """Remove dead letters for good. A file of which only some letters are meant stays whole."""
    if not dry_run and not yes:
        typer.confirm("Dead letters that are purged can not be brought back. Purge them?", abort=True)
    wanted = _wanted(topic, subscription, since, until, reason, event_type, subject, redriven)
    _go_on("purge", wanted, dry_run, "purged", server)


def _wanted(
    topic: str | None,
    subscription: str | None,
    since: str | None,
    until: str | None,
    reason: str | None,
    event_type: str | None,
    subject: str | None,
    redriven: bool | None = None,
) -> dict[str, Any]:
    return {
        "topic": topic,
        "subscription": subscription,
        "since": since,
        "until": until,
        "reason": reason,
        "eventType": event_type,
        "subject": subject,
        "redriven": redriven,
    }


def _go_on(verb: str, wanted: dict[str, Any], dry_run: bool, done: str, server: str | None) -> None:
    """Go through all pages: the progress of each to standard error, the sum to standard output."""
    total = {"selected": 0, "done": 0, "refused": 0, "kept": 0}
    for page in client_of(server).go_on(verb, {**wanted, "limit": 1000, "dryRun": dry_run}):
        for name in total:
            total[name] += page[name]
        for problem in page["problems"]:
            typer.echo(f"recapito: {problem}", err=True)
        if page["next"] is not None:
            typer.echo(f"{total['done']} {done} …", err=True)
    if dry_run:
        typer.echo(f"{total['selected']} would be {done}.")
    else:
        typer.echo(f"{total['done']} {done}.")
    if total["kept"]:
        typer.echo(f"{total['kept']} files stay, because not all of their letters are meant.")
    if total["refused"]:
        typer.echo(f"{total['refused']} could not be {done}.", err=True)
        raise typer.Exit(FAILED)


def _print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
