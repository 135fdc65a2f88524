"""`recapito connection`: manage connections to Azure resources. Secrets are never shown."""

from typing import Annotated, Any

import typer

from recapito.cli.toolkit.flags import read_secret
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.verb import CommandSession, Noun
from recapito.domain.resources.resource_id import EXAMPLE

app = commands("Manage connections to Azure resources.")
noun = Noun(app)

ResourceId = Annotated[str, typer.Argument(metavar="RESOURCE-ID", help="Azure id of the resource.")]


@noun.verb("set")
def set_connection(
    session: CommandSession,
    resource_id: ResourceId,
    connection_string: Annotated[
        str | None, typer.Option(help="Connection string; - reads it from standard input.")
    ] = None,
    sas_url: Annotated[str | None, typer.Option(help="URL with a shared access signature; - reads it.")] = None,
    host_url: Annotated[str | None, typer.Option(help="URL of a Functions host, with ?code=KEY; - reads it.")] = None,
    default_credential: Annotated[
        bool, typer.Option("--default-credential", help="Use the server's own Azure identity.")
    ] = False,
    azurite: Annotated[bool, typer.Option("--azurite", help="Use an Azurite on the server's machine instead.")] = False,
) -> Any:
    """Set the connection to a resource, replacing an earlier one."""
    given = {
        "connectionString": read_secret(connection_string, "Connection string"),
        "sasUrl": read_secret(sas_url, "SAS URL"),
        "hostUrl": read_secret(host_url, "Host URL"),
        "defaultCredential": default_credential or None,
        "azurite": azurite or None,
    }
    body = {name: value for name, value in given.items() if value is not None}
    if len(body) != 1:
        ways = "--connection-string, --sas-url, --host-url, --default-credential and --azurite"
        raise typer.BadParameter(f"give one of {ways}", param_hint="connection")
    return session.client.call("PUT", _path(resource_id), body)


@noun.verb("list")
def list_connections(session: CommandSession) -> Any:
    """List connections, without secrets."""
    return session.client.call("GET", "/connections")["value"]


@noun.verb("check", judge=lambda findings: not any(finding["state"] == "wrong" for finding in findings))
def check(session: CommandSession, resource_id: ResourceId) -> Any:
    """Try a connection from the server and report problems."""
    return session.client.call("POST", f"{_path(resource_id)}/check")["value"]


@noun.verb("remove")
def remove(session: CommandSession, resource_id: ResourceId) -> Any:
    """Remove the connection to a resource."""
    return session.client.call("DELETE", _path(resource_id))


def _path(resource_id: str) -> str:
    if not resource_id.lower().startswith("/subscriptions/"):
        message = f"'{resource_id}' is not the id of an Azure resource; one looks like {EXAMPLE}"
        raise typer.BadParameter(message, param_hint="RESOURCE-ID")
    return f"/connections{resource_id}"
