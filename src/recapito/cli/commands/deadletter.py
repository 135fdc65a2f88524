"""`recapito deadletter`: list, redrive and purge dead letters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from recapito.cli.text.dead_letter import dead_letter_lines
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.errors import CallerError

app = commands("List, redrive and purge dead letters.")
noun = Noun(app)

_PATH = "/deadletters"
_PAGE = 100
_STEP = 1000
_TIMEOUT_S = 120.0
_ANEW = "Run it again, and it goes on with the rest."

Redriven = Annotated[bool | None, typer.Option(help="Select letters that were, or were not, redriven.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report the effect without doing anything.")]


@dataclass(frozen=True)
class LetterFlags:
    """The selected dead letters: those that satisfy every flag."""

    topic: Annotated[str | None, typer.Option(help="Select this topic.")] = None
    event_subscription: Annotated[str | None, typer.Option(help="Select the event subscription of this name.")] = None
    since: Annotated[
        str | None, typer.Option(help="Select letters written from this hour on, e.g. 2026-01-31T12:00Z.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Select letters written in hours that began before this time.")] = (
        None
    )
    reason: Annotated[str | None, typer.Option(help="Select this reason, e.g. MaxDeliveryAttemptsExceeded.")] = None
    event_type: Annotated[str | None, typer.Option(help="Select events of this type.")] = None
    subject: Annotated[str | None, typer.Option(help="Select events whose subject begins with this.")] = None

    @property
    def wire(self) -> dict[str, Any]:
        """The selection as the API takes it."""
        given = {
            "topic": self.topic,
            "subscription": self.event_subscription,
            "since": self.since,
            "until": self.until,
            "reason": self.reason,
            "eventType": self.event_type,
            "subject": self.subject,
        }
        return {name: value for name, value in given.items() if value is not None}


def _all_done(answer: Mapping[str, Any]) -> bool:
    return not answer["refused"] and "missingPartitions" not in answer


@noun.verb("list", form=Output.TABLE, to_lines=dead_letter_lines)
def list_letters(
    session: CommandSession,
    selection: LetterFlags,
    redriven: Redriven = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of letters.")] = 100,
) -> Any:
    """List dead letters."""
    query = selection.wire
    if redriven is not None:
        query["redriven"] = str(redriven).lower()
    letters: list[Any] = []
    while len(letters) < limit:
        more = urlencode({**query, "limit": min(limit - len(letters), _PAGE)})
        page = session.client.call("GET", f"{_PATH}?{more}", timeout_s=_TIMEOUT_S)
        letters += page["value"]
        for problem in page["problems"]:
            session.note(problem)
        if page["next"] is None:
            break
        query["after"] = page["next"]
    return letters


@noun.verb("show")
def show(session: CommandSession, letter: Annotated[str, typer.Argument(help="Name of a letter, from `list`.")]) -> Any:
    """Show one dead letter, with its event."""
    return session.client.call("GET", f"{_PATH}/{quote(letter)}", timeout_s=_TIMEOUT_S)


@noun.verb("redrive", judge=_all_done)
def redrive(
    session: CommandSession,
    selection: LetterFlags,
    rate: Annotated[int | None, typer.Option(min=1, help="Maximum number of events per second.")] = None,
    dry_run: DryRun = False,
) -> Any:
    """Deliver dead letters again, each to its own event subscription.

    A redriven letter is marked and skipped from then on, so the command can be stopped and run again.
    """
    wanted = selection.wire
    if rate is not None:
        wanted["eventsPerSecond"] = rate
    return _go_through(session, "redrive", wanted, dry_run)


@noun.verb("purge", judge=_all_done)
def purge(
    session: CommandSession,
    selection: LetterFlags,
    redriven: Redriven = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
) -> Any:
    """Delete dead letters for good; only files whose letters are all selected."""
    if not dry_run and not yes:
        question = "Purged dead letters cannot be restored. Purge them (--yes skips this question)?"
        typer.confirm(question, abort=True, err=True)
    wanted = selection.wire
    if redriven is not None:
        wanted["redriven"] = redriven
    return _go_through(session, "purge", wanted, dry_run)


def _go_through(session: CommandSession, verb: str, wanted: Mapping[str, Any], dry_run: bool) -> dict[str, Any]:
    """Page by page, with the progress of each. Ctrl-C stops after the current page."""
    total: dict[str, Any] = {"selected": 0, "done": 0, "refused": 0, "kept": 0}
    missing: list[int] = []
    try:
        for page in _pages(session, verb, {**wanted, "limit": _STEP, "dryRun": dry_run}):
            for name in total:
                total[name] += page[name]
            for problem in page["problems"]:
                session.note(problem)
            missing += page.get("missingPartitions", ())
            if page["next"] is not None:
                session.note(
                    f"{total['selected']} selected, going on" if dry_run else f"{total['done']} done, going on"
                )
    except CallerError as error:
        already = f" {total['done']} were done before. {_ANEW}" if total["done"] else ""
        raise type(error)(error.code, f"{error.message}{already}") from None
    except KeyboardInterrupt:
        session.note(f"{total['done']} were done; a request that was under way may have been, too. {_ANEW}")
        raise
    if not total["selected"]:
        session.note("no dead letter was selected.")
    if total["kept"]:
        session.note(f"{total['kept']} stay: their files also hold letters that are not selected.")
    if missing:
        session.note(f"the letters of those partitions stay as they are. {_ANEW}")
        total["missingPartitions"] = missing
    return total


def _pages(session: CommandSession, verb: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    after: str | None = ""
    while after is not None:
        page = session.client.call("POST", f"{_PATH}/{verb}", {**body, "after": after} if after else body, _TIMEOUT_S)
        after = page["next"]
        yield page
