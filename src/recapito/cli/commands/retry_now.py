"""`recapito retry-now`: ends a hold, and tries what is parked."""

from typing import Any

from recapito.cli.requests.lane import Subscription, Topic, lane_path
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands()


@Noun(app).verb("retry-now")
def retry_now(session: CommandSession, subscription: Subscription, topic: Topic = None) -> Any:
    """Try now what waits for its next attempt, and end a hold.

    The answer is the number of deliveries that waited. One that fails again waits for its next attempt as usual.
    """
    return session.client.call("POST", f"{lane_path(session, subscription, topic)}/retry-now", {})
