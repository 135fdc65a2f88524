"""`recapito explain`: the filters, attempts and outcomes of an event, published or not."""

import json
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from recapito.cli.requests.event_input import EventInput, read_content, read_events
from recapito.cli.text.explanation import explanation_lines
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.errors import CallerError

app = commands()
_PATH = "/deliveries/explain"


@Noun(app).verb("explain", form=Output.TABLE, to_lines=explanation_lines)
def explain(
    session: CommandSession,
    event: Annotated[str, typer.Argument(help="Event id; with --dry-run, a file with the event (- is stdin).")],
    topic: Annotated[str | None, typer.Option(help="Topic of the event.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Explain an event that is not published.")] = False,
) -> Any:
    """Explain, per event subscription, filter, attempts and outcome of an event."""
    if not dry_run:
        query = {"event": event} | ({} if topic is None else {"topic": topic})
        return session.client.call("GET", f"{_PATH}?{urlencode(query)}")
    if topic is None:
        raise typer.BadParameter("name the topic that it would be published to", param_hint="--topic")
    drafts = read_events(read_content(event), "stdin" if event == "-" else event)
    answers = [_rehearse(session, topic, draft) for draft in drafts]
    return answers[0] if len(answers) == 1 else answers


def _rehearse(session: CommandSession, topic: str, draft: EventInput) -> Any:
    try:
        return session.client.call("POST", _PATH, {"topic": topic, "event": _decode(draft)})
    except CallerError as error:
        raise type(error)(error.code, f"{draft.place}: {error.message}", error.target) from None


def _decode(draft: EventInput) -> Any:
    try:
        return json.loads(draft.body)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{draft.place}: this is not JSON: {error}", param_hint="EVENT") from None
