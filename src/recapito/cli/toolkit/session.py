"""A command's session with one server: its address, the credential, the paths of resources, and notes to the user."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import typer

from recapito.cli.toolkit.client import TIMEOUT_S, ApiClient, Credential
from recapito.cli.toolkit.defaults import choose, file_path, source
from recapito.domain.access.roles import is_loopback

PROVIDER = "/providers/Microsoft.EventGrid"
_SOON_S = 1.0
_WAITING = ("Creating", "Updating")
_LOCAL_AUTHORITY = Path("recapito-data") / "tls" / "ca.pem"


class CommandSession:
    """A client with the defaults around it."""

    def __init__(self, client: ApiClient, subscription: str, quiet: bool = False) -> None:
        self.client = client
        self.subscription = subscription
        self.quiet = quiet

    def group(self, group: str | None) -> str:
        """The path of a resource group."""
        return f"{self.in_subscription}/resourceGroups/{part(choose('group', group))}"

    @property
    def in_subscription(self) -> str:
        """The path of the Azure subscription."""
        return f"/subscriptions/{part(self.subscription)}"

    def path(self, kind: str, name: str, group: str | None) -> str:
        """The path of a topic, a domain or a system topic; a whole resource id is one already."""
        return name if name.startswith("/") else f"{self.group(group)}{PROVIDER}/{kind}/{part(name)}"

    def put(self, path: str, body: Mapping[str, Any], wait: bool = True, timeout_s: float = TIMEOUT_S) -> Any:
        """Create or replace, and show what came of it."""
        return self._settled(path, self.client.arm("PUT", path, body, timeout_s), wait)

    def patch(self, path: str, body: Mapping[str, Any], wait: bool = True, timeout_s: float = TIMEOUT_S) -> Any:
        """Change, and show what came of it."""
        return self._settled(path, self.client.arm("PATCH", path, body, timeout_s), wait)

    def _settled(self, path: str, resource: Any, wait: bool) -> Any:
        """The resource after its change: a server has finished when it answers, and a second GET shows so."""
        if wait and resource["properties"]["provisioningState"] in _WAITING:
            return self.client.arm("GET", path)
        return resource

    @contextmanager
    def announcing(self, text: str, after_s: float = _SOON_S) -> Iterator[None]:
        """Note a text if the block has not ended soon: it says what the command waits for."""
        timer = threading.Timer(after_s, self.note, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def note(self, text: str) -> None:
        """Print a line that is not part of the answer, unless the session is quiet."""
        if not self.quiet:
            typer.echo(f"recapito: {text}", err=True)


@contextmanager
def connect(
    server: str | None = None,
    subscription: str | None = None,
    ca_file: str | None = None,
    tenant: str | None = None,
    client_id: str | None = None,
    client_secret: str | None = None,
    only_show_errors: bool | None = None,
) -> Iterator[CommandSession]:
    """A session with the server of the flags, the environment or the file."""
    url = choose("server", server).rstrip("/")
    host = host_of(url, "--server" if server is not None else source("server"))
    local = host == "localhost" or is_loopback(host)
    authority = choose("ca_file", ca_file)
    if not authority and local and _LOCAL_AUTHORITY.is_file():
        authority = str(_LOCAL_AUTHORITY)
    credential = _credential(tenant, client_id, client_secret, local)
    if credential is not None and url.startswith("http://") and not local:
        typer.echo("recapito: the secret crosses the network in clear; serve with --tls and use https://", err=True)
    client = ApiClient(url, authority, credential)
    try:
        yield CommandSession(client, choose("subscription", subscription), bool(only_show_errors))
    finally:
        client.close()


def host_of(url: str, hint: str) -> str:
    """The host of a server's URL, or an error that names the URL's source, `hint`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.query or port == 0:
        raise typer.BadParameter(f"'{url}' is not a URL like http://127.0.0.1:8585", param_hint=hint)
    return host


def _credential(tenant: str | None, client_id: str | None, secret: str | None, local: bool) -> Credential | None:
    """The credential. The environment counts only off loopback: it may hold the secrets of another cloud."""
    given = [tenant, client_id, secret]
    if not any(given) and local:
        return None
    names = ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET")
    values = [flag or os.environ.get(f"AZURE_{name}", "") for flag, name in zip(given, names, strict=True)]
    if any(given) and not all(values):
        raise typer.BadParameter("--tenant, --client-id and --client-secret belong together", param_hint="--client-id")
    return Credential(*values) if all(values) else None


def part(text: str) -> str:
    """A name as one part of a path; with a slash it would be the path of something else."""
    if "/" in text or text in ("", ".", ".."):
        raise typer.BadParameter(f"'{text}' is not a name")
    return quote(text, safe="")


def note_once(session: CommandSession, name: str, text: str) -> None:
    """Note a text unless this user has read it before. With `quiet` it is neither noted nor remembered."""
    path = _path()
    noted = _read(path)
    if name in noted or session.quiet:
        return
    session.note(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in [*noted, name]), "utf-8")
    except OSError:
        return  # then it is noted again


def _path() -> Path:
    return file_path().with_name("told")


def _read(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").split()
    except OSError:
        return []
