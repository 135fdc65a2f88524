"""`recapito topic-type`: which Azure resources send events by themselves, and which events those are."""

from typing import Annotated, Any

import typer

from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.session import PROVIDER, part
from recapito.cli.toolkit.verb import Noun, Session

app = commands("List the types of system topics and their events.")
noun = Noun(app)

Name = Annotated[str | None, typer.Option("--name", "-n", help="The type, like Microsoft.Storage.StorageAccounts.")]


@noun.verb("list")
def list_types(session: Session) -> Any:
    """List the types of topics."""
    return session.client.list(f"{PROVIDER}/topicTypes")


@noun.verb("show")
def show(session: Session, name: Name = None) -> Any:
    """Show one type of topics."""
    return session.client.arm("GET", f"{PROVIDER}/topicTypes/{part(name or '')}")


@noun.verb("list-event-types")
def list_event_types(session: Session, name: Name = None) -> Any:
    """List the events of one type of topics."""
    return session.client.list(f"{PROVIDER}/topicTypes/{part(name or '')}/eventTypes")
