"""`recapito replay`: delivers kept events to an event subscription again."""

from typing import Annotated, Any

import typer

from recapito.cli.requests.lane import Subscription, Topic, lane_path
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands()
_TIMEOUT_S = 120.0


@Noun(app).verb("replay")
def replay(
    session: CommandSession,
    subscription: Subscription,
    topic: Topic = None,
    since: Annotated[str | None, typer.Option(help="First time of publishing, e.g. 2026-01-31T12:00Z.")] = None,
    position: Annotated[int | None, typer.Option(min=1, help="First position of the topic's log.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the events without delivering them.")] = False,
) -> Any:
    """Deliver kept events that match an event subscription again.

    The setting history.replay must be on. If it is stopped, run it again with the position that it printed.
    """
    if (since is None) == (position is None):
        raise typer.BadParameter("give --since or --position", param_hint="replay")
    path = f"{lane_path(session, subscription, topic)}/replay"
    wanted: dict[str, Any] = {"since": since, "position": position, "dryRun": dry_run}
    total = {"start": 0, "until": 0, "selected": 0, "done": 0, "damaged": 0}
    while True:
        page = session.client.call("POST", path, wanted, _TIMEOUT_S)
        total["start"] = total["start"] or page["start"]
        total["until"] = page["until"]
        for name in ("selected", "done", "damaged"):
            total[name] += page[name]
        if page["next"] is None:
            return total
        session.note(f"{total['selected']} events up to position {page['next'] - 1}, going on")
        wanted = {"position": page["next"], "until": page["until"], "dryRun": dry_run}
