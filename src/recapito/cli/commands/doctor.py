"""`recapito doctor`: checks the usual causes of trouble and names a remedy for each. It changes nothing."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from recapito.cli.toolkit.client import ApiClient
from recapito.cli.toolkit.lazy import commands
from recapito.cli.toolkit.output import Output
from recapito.cli.toolkit.session import PROVIDER, CommandSession
from recapito.cli.toolkit.verb import Noun
from recapito.domain.access.roles import is_loopback
from recapito.domain.capacity import share_out
from recapito.domain.connections.connection import command_for
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import CallerError

OK, NOTE, WRONG = "ok", "note", "wrong"
PORTAL_PORT = 8586
_USUAL = Path("recapito-data")
_APART_S = 5.0
_CONNECT_S = 3.0
_ENDPOINTS = 50
_STOPPED = 20
_REMEDIES = {
    "store": "run `recapito doctor --data DIRECTORY` beside the server: it looks at the file and names the remedy",
    "disk": "make room on the server's volume: publishing opens again by itself, and delivery goes on meanwhile",
    "dispatch": "its parent restarts it; if this lasts, make room on the disk and look at the server's log",
    "cluster": "`recapito cluster status` names the node and the server",
    "damage": "save it with `recapito damaged export`, then `recapito damaged dismiss`; resources need a backup",
    "destinations": "correct the connection, the endpoint or the rights, then `recapito retry-now SUBSCRIPTION`;"
    " `recapito explain EVENT` shows the answer",
    "estate": "correct the file or the endpoint that it names: the server tries again by itself",
}


class DoctorFinding(NamedTuple):
    """One thing that was looked at."""

    state: str
    check: str
    found: str
    remedy: str = ""


def check_data(client: ApiClient, data: Path | None, answers: bool) -> Iterator[DoctorFinding]:
    """The data directory: the given one, else that of the server if it `answers`, else the default one."""
    if data is None and answers:
        try:
            told = client.call("GET", "/server")["data"]
        except CallerError as error:
            remedy = "name it with --data, if the server is on this machine"
            yield DoctorFinding(NOTE, "data directory", f"the server does not tell it: {error.message}", remedy)
            return
        if told is None:
            yield DoctorFinding(NOTE, "data directory", "none: the server keeps everything in memory")
            return
        data = Path(told)
        if not data.is_dir():
            found = f"{data} of the server is not on this machine"
            yield DoctorFinding(NOTE, "data directory", found, "run `recapito doctor` beside the server")
            return
    data = data or _USUAL
    yield from check_directory(data)
    yield from check_damage(data)


def check_directory(data: Path) -> Iterator[DoctorFinding]:
    """The data directory is writable and has room."""
    if not data.is_dir():
        yield DoctorFinding(
            NOTE, "data directory", f"{data} does not exist", "`recapito serve` creates it; or name another with --data"
        )
        return
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield DoctorFinding(
            WRONG, "data directory", f"{data} cannot be written", f"make the server's user the owner of {data}"
        )
    else:
        yield DoctorFinding(OK, "data directory", str(data.resolve()))
    usage = shutil.disk_usage(data)
    free = f"{usage.free // 2**20} MB free of {usage.total // 2**20} MB"
    if usage.free < share_out(usage.total).stop:
        remedy = "make room: a server whose disk is nearly full takes no events (settings: [disk])"
        yield DoctorFinding(WRONG, "disk", free, remedy)
    else:
        yield DoctorFinding(OK, "disk", free)


def check_damage(data: Path) -> Iterator[DoctorFinding]:
    """No file is marked as damaged; marked files are inspected."""
    from recapito.composition.data_directory import DataDirectory

    directory = DataDirectory(data)
    if directory.lacks_log:
        remedy = "put it back, or restore a backup into a new directory; the server does not start without it"
        yield DoctorFinding(WRONG, "log.db", "it is missing, and dispatch.db is there", remedy)
        return
    signs = directory.damage_signs()
    if not signs:
        return
    for sign in signs:
        yield DoctorFinding(
            WRONG, sign.file, f"{sign.why} ({sign.at})", "the server takes no events; it delivers what it can"
        )
    again = f"then `recapito damaged clear --data {data}`: the server takes events again"
    for file, faults in directory.inspect().items():
        if faults:
            remedy = f"stop the server and restore a backup into a new directory; or repair the file, {again}"
            yield DoctorFinding(WRONG, file, faults[0], remedy)
        else:
            yield DoctorFinding(
                NOTE, file, "SQLite finds its structure sound", f"find out what happened to it, {again}"
            )


def check_server(client: ApiClient) -> DoctorFinding:
    """Recapito answers at the URL; the remedy is the client's."""
    try:
        answer = client.request("GET", "/", None, {})
        welcome = json.loads(answer.body)
        return DoctorFinding(OK, "server", f"Recapito {welcome['version']} at {client.url}")
    except CallerError as error:
        found, _, remedy = error.message.partition(". ")
        return DoctorFinding(WRONG, "server", found, remedy)
    except (ValueError, KeyError, TypeError):
        found = f"{client.url} answers, but it is not Recapito"
        return DoctorFinding(
            WRONG, "server", found, "choose another port for `recapito serve`, or name the server: --server"
        )


def check_readiness(client: ApiClient) -> Iterator[DoctorFinding]:
    """The server reports itself and its parts ready."""
    answer = client.look("/readyz")
    report = json.loads(answer.body)
    remedy = "look at the server's log; `/readyz` shows details to a Reader"
    for name, state in report.get("checks", {"readiness": "ok" if answer.status == 200 else report["status"]}).items():
        good = state == "ok" or state.startswith("ok: ")
        cause = "store" if name == "damage" and "damaged list" not in state else name  # the list itself is out of reach
        if name == "disk" and "removed" in state:  # of a file, with its remedy
            cause, remedy = "", ""
        yield DoctorFinding(OK if good else WRONG, name, state, "" if good else _REMEDIES.get(cause, remedy))


def check_lanes(client: ApiClient) -> Iterator[DoctorFinding]:
    """No subscription was stopped: one that goes on could deliver something wrong."""
    after, found = "", 0
    while found < _STOPPED:
        page = client.call("GET", f"/lanes?failing=true&after={after}")
        for lane in page["value"]:
            if lane["stopped"]:
                found += 1
                remedy = "restart the server; if it stops again, restore a backup into a new directory"
                yield DoctorFinding(
                    WRONG, f"subscription {lane['topic']}/{lane['subscription']}", lane["stopped"], remedy
                )
        if page["next"] is None:
            return
        after = page["next"]


def check_encryption(url: str) -> Iterator[DoctorFinding]:
    """No key crosses a network in clear. The connection has proved that the certificate is trusted."""
    parts = urlsplit(url)
    local = parts.hostname == "localhost" or is_loopback(parts.hostname or "")
    if parts.scheme == "https":
        yield DoctorFinding(OK, "TLS", "the certificate is trusted")
    elif local:
        yield DoctorFinding(OK, "TLS", "none, on this machine")
    else:
        yield DoctorFinding(
            WRONG, "TLS", "keys and secrets cross the network in clear", "serve with --tls, use https://"
        )


def check_access(client: ApiClient) -> DoctorFinding:
    """The user may manage resources."""
    try:
        client.arm("GET", "/subscriptions")
        return DoctorFinding(OK, "access", "you may manage")
    except CallerError as error:
        found, _, remedy = error.message.partition(". ")
        return DoctorFinding(WRONG, "access", found, remedy)


def check_development(client: ApiClient) -> Iterator[DoctorFinding]:
    """Development mode, which opens the server to its networks, is reported."""
    if client.call("GET", "/server").get("development"):
        remedy = "fine on a laptop or in CI; elsewhere unset RECAPITO_DEV (settings: [server] development)"
        yield DoctorFinding(NOTE, "development mode", "programs on the server's networks need no login", remedy)


def check_time(client: ApiClient) -> DoctorFinding:
    """The server's clock agrees with this machine's, unless it is manual or scaled."""
    clock = client.call("GET", "/clock")
    if clock["mode"] != "system":
        moves = "`recapito clock` moves it" if clock["mode"] == "manual" else "nothing real should depend on it"
        return DoctorFinding(NOTE, "time", f"{clock['now']}, the clock is {clock['mode']}", moves)
    theirs = datetime.fromisoformat(clock["now"][:26] + "+00:00")
    apart = abs((theirs - datetime.now(UTC)).total_seconds())
    if apart > _APART_S:
        remedy = "set both clocks by NTP: tokens and time to live depend on them"
        return DoctorFinding(WRONG, "time", f"the server's clock and this one are {apart:.0f} s apart", remedy)
    return DoctorFinding(OK, "time", f"{clock['now']}, the clock is system")


def check_history(client: ApiClient) -> DoctorFinding:
    """Attempts are kept, for `explain` and `tail`."""
    try:
        kept = client.call("GET", "/deliveries?limit=1")["kept"]
    except CallerError as error:
        remedy = "`explain` and `tail` show no attempts (settings: [history])"
        return DoctorFinding(NOTE, "history", error.message, remedy)
    if not kept["attempts"]:
        remedy = "nothing was attempted yet, or history is off (settings: [history])"
        return DoctorFinding(NOTE, "history", "no attempt is kept", remedy)
    lost = f"; {kept['notKept']} were not kept, since too many came at once" if kept["notKept"] else ""
    since = f" since {kept['since']}" if kept["since"] else ""
    return DoctorFinding(OK, "history", f"{kept['attempts']} attempts{since}{lost}")


def check_portal(server: ApiClient, url: str | None, usual_port: int = PORTAL_PORT) -> DoctorFinding:
    """The portal answers, at `url` or at its default port of the server's host."""
    parts = urlsplit(server.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    where = url or f"{parts.scheme}://{host}:{usual_port}"
    client = server.elsewhere(where)
    remedy = "it is off, or elsewhere (settings: [portal]); name it: --portal URL"
    try:
        answer = client.request("GET", "/", None, {}, _CONNECT_S)
    except CallerError as error:
        return DoctorFinding(NOTE if url is None else WRONG, "portal", error.message.partition(". ")[0], remedy)
    finally:
        client.close()
    if answer.status >= 400 or (answer.status == 200 and b"Recapito" not in answer.body):
        return DoctorFinding(
            NOTE if url is None else WRONG, "portal", f"{where} answers, but it is not the portal", remedy
        )
    return DoctorFinding(OK, "portal", where)


def check_subscriptions(session: CommandSession) -> Iterator[DoctorFinding]:
    """Endpoints have consented and can be reached from this machine."""
    listed = session.client.list(f"{session.in_subscription}{PROVIDER}/eventSubscriptions")
    dialled: dict[tuple[str, int], str] = {}
    for subscription in listed:
        name, properties = subscription["name"], subscription["properties"]
        if properties["provisioningState"] != "Succeeded":
            remedy = properties.get("handshakeMessage") or "its endpoint must consent; create it again when it does"
            yield DoctorFinding(WRONG, f"subscription {name}", properties["provisioningState"], remedy)
        place = _address(properties)
        if place is None or (place not in dialled and len(dialled) == _ENDPOINTS):
            continue
        if place not in dialled:
            dialled[place] = _dial(*place)
        trouble = dialled[place]
        where = f"{place[0]}:{place[1]}"
        remedy = "start what should listen there, or change --endpoint" if trouble else ""
        yield DoctorFinding(WRONG if trouble else OK, f"endpoint of {name}", f"{where}{trouble}", remedy)


def check_connections(client: ApiClient) -> Iterator[DoctorFinding]:
    """The server reaches the resources that subscriptions name, by its connections."""
    listed = client.call("GET", "/connections")
    for id in listed.get("unconnected", []):
        remedy = command_for(parse_resource_id(id))
        yield DoctorFinding(WRONG, f"connection {id}", "a subscription needs one", remedy)
    problems = {connection["resourceId"]: connection["problem"] for connection in listed["value"]}
    for id in [*problems, *listed.get("azurite", [])]:
        if problems.get(id):
            yield DoctorFinding(WRONG, f"connection {id}", "it cannot be opened", problems[id])
            continue
        for tried in client.call("POST", f"/connections{id}/check")["value"]:
            yield DoctorFinding(tried["state"], f"connection {tried['resource']}", tried["found"], tried["remedy"])


def _address(properties: dict[str, Any]) -> tuple[str, int] | None:
    destination = properties["destination"] or {}
    parts = urlsplit((destination.get("properties") or {}).get("endpointBaseUrl") or "")
    if not parts.hostname:
        return None
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _dial(host: str, port: int) -> str:
    """The fault of an address; nothing if it accepts connections."""
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        return f" cannot be reached: {error.strerror or 'no answer'}"
    return ""


app = commands()


def _is_well(findings: list[dict[str, Any]]) -> bool:
    return not any(finding["state"] == WRONG for finding in findings)


@Noun(app).verb("doctor", form=Output.TABLE, judge=_is_well)
def doctor(
    session: CommandSession,
    data: Annotated[
        Path | None,
        typer.Option(help="Data directory of a server on this machine.", show_default="asked of the server"),
    ] = None,
    portal: Annotated[
        str | None, typer.Option(help="URL of the portal.", show_default="port 8586 of the server's host")
    ] = None,
    endpoints: Annotated[bool, typer.Option(help="Connect to the endpoints of event subscriptions.")] = True,
    connections: Annotated[bool, typer.Option(help="Let the server try its connections to Azure resources.")] = True,
) -> list[dict[str, Any]]:
    """Check the server, data, clock, TLS, history, portal, endpoints and connections."""
    findings = _examine(session, data, portal, endpoints, connections)
    return [finding._asdict() for finding in findings]


def _examine(
    session: CommandSession, data: Path | None, portal: str | None, endpoints: bool, connections: bool
) -> Iterator[DoctorFinding]:
    server = check_server(session.client)
    yield from check_data(session.client, data, server.state == OK)
    yield server
    if server.state == WRONG:
        return
    yield from check_readiness(session.client)
    yield from check_encryption(session.client.url)
    access = check_access(session.client)
    yield access
    if access.state == WRONG:
        return
    yield from check_development(session.client)
    yield from check_lanes(session.client)
    yield check_time(session.client)
    yield check_history(session.client)
    yield check_portal(session.client, portal)
    if endpoints:
        yield from check_subscriptions(session)
    if connections:
        yield from check_connections(session.client)
