"""`recapito topic-type`: the types of system topics and their event types."""

from typing import Annotated, Any

import typer

from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import PROVIDER, part
from recapito.cli.toolkit.verb import CommandSession, Noun

app = commands("List topic types and their event types.")
noun = Noun(app)

Name = Annotated[
    str | None, typer.Option("--name", "-n", help="Topic type, such as Microsoft.Storage.StorageAccounts.")
]


@noun.verb("list")
def list_types(session: CommandSession) -> Any:
    """List the topic types."""
    return session.client.list(f"{PROVIDER}/topicTypes")


@noun.verb("show")
def show(session: CommandSession, name: Name = None) -> Any:
    """Show a topic type."""
    return session.client.arm("GET", f"{PROVIDER}/topicTypes/{part(name or '')}")


@noun.verb("list-event-types")
def list_event_types(session: CommandSession, name: Name = None) -> Any:
    """List the event types of a topic type."""
    return session.client.list(f"{PROVIDER}/topicTypes/{part(name or '')}/eventTypes")
