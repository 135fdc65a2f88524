"""Names of event subscriptions on the command line, as the path of their lane."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from recapito.cli.toolkit.verb import CommandSession
from recapito.errors import NotFound

Subscription = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="Name of the event subscription.")]
Topic = Annotated[str | None, typer.Option(help="Topic of the event subscription, if others have the same name.")]


def lane_path(session: CommandSession, subscription: str, topic: str | None) -> str:
    """The path of the one subscription with this name."""
    query = {"subscription": subscription} | ({} if topic is None else {"topic": topic})
    found = session.client.call("GET", f"/lanes?{urlencode(query)}")["value"]
    if not found:
        where = "" if topic is None else f" on topic '{topic}'"
        raise NotFound("ResourceNotFound", f"There is no event subscription '{subscription}'{where}.")
    if len(found) > 1:
        topics = ", ".join(sorted({lane["topic"] for lane in found}))
        message = f"several topics have an event subscription '{subscription}': {topics}"
        raise typer.BadParameter(message, param_hint="--topic")
    return f"/lanes/{found[0]['id']}"
