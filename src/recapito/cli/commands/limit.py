"""`recapito limit`: limits on the requests in flight and the events per second of an event subscription."""

from typing import Annotated, Any

import typer

from recapito.cli.requests.lane import Subscription, Topic, lane_path
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands()


@Noun(app).verb("limit")
def limit(
    session: CommandSession,
    subscription: Subscription,
    topic: Topic = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Maximum number of requests in flight.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="Maximum number of events per second.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Lift both limits.")] = False,
) -> Any:
    """Limit the requests of an event subscription.

    A limit that is not given is lifted.
    """
    if off == (requests is not None or rate is not None):
        raise typer.BadParameter("give --requests, --rate or both, or --off", param_hint="limit")
    wanted = {"maxRequests": requests, "eventsPerSecond": rate}
    return session.client.call("POST", f"{lane_path(session, subscription, topic)}/limits", wanted)
