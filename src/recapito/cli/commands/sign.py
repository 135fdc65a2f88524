"""`recapito sign`: Standard Webhooks signatures on the requests of an event subscription."""

import secrets
from typing import Annotated, Any

import typer

from recapito.cli.requests.lane import Subscription, Topic, lane_path
from recapito.cli.toolkit.flags import read_secret
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.domain.delivery.signature import show_secret

app = commands()
_SECRET_BYTES = 32


@Noun(app).verb("sign")
def sign(
    session: CommandSession,
    subscription: Subscription,
    topic: Topic = None,
    secret: Annotated[str | None, typer.Option(help="Secret whsec_...; - reads it; without it, a new one.")] = None,
    rotate: Annotated[bool, typer.Option("--rotate", help="Sign with the former secret too.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Forget the former secret.")] = False,
    off: Annotated[bool, typer.Option("--off", help="Sign no more requests.")] = False,
) -> Any:
    """Sign the requests of an event subscription.

    A new secret is printed once.
    """
    if sum((rotate, finish, off)) > 1 or ((finish or off) and secret is not None):
        raise typer.BadParameter("give one of --rotate, --finish and --off", param_hint="sign")
    path = f"{lane_path(session, subscription, topic)}/signing"
    if finish or off:
        return session.client.call("POST", path, {"change": "finish" if finish else "off"})
    made = show_secret(secrets.token_bytes(_SECRET_BYTES)) if secret is None else None
    given = made or read_secret(secret, "Secret")
    answer = session.client.call("POST", path, {"change": "rotate" if rotate else "set", "secret": given})
    return answer if made is None else {**answer, "secret": made}
