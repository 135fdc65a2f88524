"""`recapito doctor`: looks at what usually goes wrong, and says what to do about it. It changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from recapito.cli.commands import doctor_checks
from recapito.cli.commands.doctor_checks import WRONG, Finding
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.session import Session
from recapito.cli.toolkit.verb import Noun

app = commands()


def _is_well(findings: list[dict[str, Any]]) -> bool:
    return not any(finding["state"] == WRONG for finding in findings)


@Noun(app).verb("doctor", form=Output.TABLE, judge=_is_well)
def doctor(
    session: Session,
    data: Annotated[Path, typer.Option(help="The data directory of the server, if it is on this machine.")] = Path(
        "recapito-data"
    ),
    portal: Annotated[
        str | None, typer.Option(help="The URL of the portal.", show_default="port 8586 of the server's host")
    ] = None,
    endpoints: Annotated[bool, typer.Option(help="Connect to the endpoints of all event subscriptions.")] = True,
    connections: Annotated[bool, typer.Option(help="Have the server try its connections to Azure resources.")] = True,
) -> list[dict[str, Any]]:
    """Look for what is wrong: the server, its data, time, TLS, history, the portal, endpoints, connections to Azure."""
    findings = _examine(session, data, portal, endpoints, connections)
    return [finding._asdict() for finding in findings]


def _examine(session: Session, data: Path, portal: str | None, endpoints: bool, connections: bool) -> Iterator[Finding]:
    yield from doctor_checks.directory(data)
    yield from doctor_checks.damage(data)
    server = doctor_checks.server(session.client)
    yield server
    if server.state == WRONG:
        return
    yield from doctor_checks.readiness(session.client)
    yield from doctor_checks.encryption(session.client.url)
    access = doctor_checks.access(session.client)
    yield access
    if access.state == WRONG:
        return
    yield doctor_checks.time(session.client)
    yield doctor_checks.history(session.client)
    yield doctor_checks.portal(session.client, portal)
    if endpoints:
        yield from doctor_checks.subscriptions(session)
    if connections:
        yield from doctor_checks.connections(session.client)
