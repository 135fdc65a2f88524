"""What the doctor looks at, one thing a function: each gives findings, and a remedy for what is not well."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from recapito.cli.toolkit.client import Client
from recapito.cli.toolkit.session import PROVIDER, Session
from recapito.domain.access.roles import is_loopback
from recapito.domain.capacity import share_out
from recapito.domain.connections.connection import command_for
from recapito.domain.resources.resource_id import parse_resource_id
from recapito.errors import CallerError

OK, NOTE, WRONG = "ok", "note", "wrong"
PORTAL_PORT = 8586
_APART_S = 5.0
_CONNECT_S = 3.0
_ENDPOINTS = 50
_REMEDIES = {"damage": "look at it, save it with `recapito damaged export`, then `recapito damaged dismiss`"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    state: str
    check: str
    found: str
    remedy: str = ""


def directory(data: Path) -> Iterator[Finding]:
    """Whether the data directory can be written, and has room."""
    if not data.is_dir():
        yield Finding(NOTE, "data directory", f"{data} is not there", "`recapito serve` makes it; or name it: --data")
        return
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(WRONG, "data directory", f"{data} can not be written", f"give it to who runs the server: {data}")
    else:
        yield Finding(OK, "data directory", str(data.resolve()))
    usage = shutil.disk_usage(data)
    free = f"{usage.free // 2**20} MB free of {usage.total // 2**20} MB"
    if usage.free < share_out(usage.total).stop:
        remedy = "make room: a server whose disk is nearly full takes no events (settings: [disk])"
        yield Finding(WRONG, "disk", free, remedy)
    else:
        yield Finding(OK, "disk", free)


def damage(data: Path) -> Iterator[Finding]:
    """Whether a sign was seen that the files of a server are damaged; then they are looked through."""
    from recapito.stores.sqlite.files import damage

    signs = damage.read_signs(data)
    if not signs:
        return
    for sign in signs:
        yield Finding(
            WRONG, sign.file, f"{sign.why} ({sign.at})", "the server takes no events; it delivers what it can"
        )
    again = f"then `recapito damaged clear --data {data}`: the server takes events again"
    for file, faults in damage.check(data).items():
        if faults:
            remedy = f"stop the server and restore a backup into a new directory; or repair the file, {again}"
            yield Finding(WRONG, file, faults[0], remedy)
        else:
            yield Finding(NOTE, file, "SQLite finds its structure sound", f"find out what happened to it, {again}")


def server(client: Client) -> Finding:
    """Whether a server of ours answers there; the remedy is the client's own."""
    try:
        answer = client.request("GET", "/", None, {})
        welcome = json.loads(answer.body)
        return Finding(OK, "server", f"Recapito {welcome['version']} at {client.url}")
    except CallerError as error:
        found, _, remedy = error.message.partition(". ")
        return Finding(WRONG, "server", found, remedy)
    except (ValueError, KeyError, TypeError):
        found = f"{client.url} answers, but it is not Recapito"
        return Finding(WRONG, "server", found, "choose another port for `recapito serve`, or name the server: --server")


def readiness(client: Client) -> Iterator[Finding]:
    """What the server itself says of its parts."""
    answer = client.look("/readyz")
    shown = json.loads(answer.body)
    remedy = "the server's log says more; `/readyz` shows details to a Reader"
    for name, state in shown.get("checks", {"readiness": "ok" if answer.status == 200 else shown["status"]}).items():
        good = state == "ok"
        yield Finding(OK if good else WRONG, name, state, "" if good else _REMEDIES.get(name, remedy))


def encryption(url: str) -> Iterator[Finding]:
    """Whether keys and secrets cross a network in clear. That a certificate is trusted, the connection proved."""
    parts = urlsplit(url)
    local = parts.hostname == "localhost" or is_loopback(parts.hostname or "")
    if parts.scheme == "https":
        yield Finding(OK, "TLS", "the certificate is trusted")
    elif local:
        yield Finding(OK, "TLS", "none, on this machine")
    else:
        yield Finding(WRONG, "TLS", "keys and secrets cross the network in clear", "serve with --tls, use https://")


def access(client: Client) -> Finding:
    """Whether we may manage."""
    try:
        client.arm("GET", "/subscriptions")
        return Finding(OK, "access", "you may manage")
    except CallerError as error:
        found, _, remedy = error.message.partition(". ")
        return Finding(WRONG, "access", found, remedy)


def time(client: Client) -> Finding:
    """Which clock the server has, and whether it agrees with ours; a manual or a scaled one need not."""
    shown = client.call("GET", "/clock")
    if shown["mode"] != "system":
        moves = "`recapito clock` moves it" if shown["mode"] == "manual" else "nothing real should depend on it"
        return Finding(NOTE, "time", f"{shown['now']}, the clock is {shown['mode']}", moves)
    theirs = datetime.fromisoformat(shown["now"][:26] + "+00:00")
    apart = abs((theirs - datetime.now(UTC)).total_seconds())
    if apart > _APART_S:
        remedy = "set both clocks by NTP: tokens and time to live depend on them"
        return Finding(WRONG, "time", f"the server's clock and this one are {apart:.0f} s apart", remedy)
    return Finding(OK, "time", f"{shown['now']}, the clock is system")


def history(client: Client) -> Finding:
    """Whether attempts are kept, so that `explain` and `tail` have something to tell."""
    try:
        kept = client.call("GET", "/deliveries?limit=1")["kept"]
    except CallerError as error:
        remedy = "`explain` and `tail` have nothing to tell (settings: [history])"
        return Finding(NOTE, "history", error.message, remedy)
    if not kept["attempts"]:
        remedy = "nothing was attempted yet, or history is off (settings: [history])"
        return Finding(NOTE, "history", "no attempt is kept", remedy)
    lost = f"; {kept['notKept']} were not kept, since too many came at once" if kept["notKept"] else ""
    since = f" since {kept['since']}" if kept["since"] else ""
    return Finding(OK, "history", f"{kept['attempts']} attempts{since}{lost}")


def portal(server: Client, url: str | None, usual_port: int = PORTAL_PORT) -> Finding:
    """Whether the portal answers. It is at its usual port of the same host, unless the user says where."""
    parts = urlsplit(server.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    where = url or f"{parts.scheme}://{host}:{usual_port}"
    client = server.elsewhere(where)
    remedy = "it is off, or elsewhere (settings: [portal]); name it: --portal URL"
    try:
        answer = client.request("GET", "/", None, {})
    except CallerError as error:
        return Finding(NOTE if url is None else WRONG, "portal", error.message.partition(". ")[0], remedy)
    finally:
        client.close()
    if answer.status >= 400 or (answer.status == 200 and b"Recapito" not in answer.body):
        return Finding(NOTE if url is None else WRONG, "portal", f"{where} answers, but it is not the portal", remedy)
    return Finding(OK, "portal", where)


def subscriptions(session: Session) -> Iterator[Finding]:
    """Whether endpoints consented, and can be reached from this machine."""
    listed = session.client.list(f"{session.in_subscription}{PROVIDER}/eventSubscriptions")
    dialled: dict[tuple[str, int], str] = {}
    for one in listed:
        name, properties = one["name"], one["properties"]
        if properties["provisioningState"] != "Succeeded":
            said = properties.get("handshakeMessage") or "its endpoint must consent; create it again when it does"
            yield Finding(WRONG, f"subscription {name}", properties["provisioningState"], said)
        place = _address(properties)
        if place is None or (place not in dialled and len(dialled) == _ENDPOINTS):
            continue
        if place not in dialled:
            dialled[place] = _dial(*place)
        trouble = dialled[place]
        where = f"{place[0]}:{place[1]}"
        remedy = "start what should listen there, or change --endpoint" if trouble else ""
        yield Finding(WRONG if trouble else OK, f"endpoint of {name}", f"{where}{trouble}", remedy)


def connections(client: Client) -> Iterator[Finding]:
    """Whether what subscriptions reach by connections can be reached, tried by the server itself."""
    listed = client.call("GET", "/connections")
    for id in listed.get("unconnected", []):
        remedy = command_for(parse_resource_id(id))
        yield Finding(WRONG, f"connection {id}", "a subscription needs one", remedy)
    problems = {one["resourceId"]: one["problem"] for one in listed["value"]}
    for id in [*problems, *listed.get("azurite", [])]:
        if problems.get(id):
            yield Finding(WRONG, f"connection {id}", "it can not be opened", problems[id])
            continue
        for tried in client.call("POST", f"/connections{id}/check")["value"]:
            yield Finding(tried["state"], f"connection {tried['resource']}", tried["found"], tried["remedy"])


def _address(properties: dict[str, Any]) -> tuple[str, int] | None:
    destination = properties["destination"] or {}
    parts = urlsplit((destination.get("properties") or {}).get("endpointBaseUrl") or "")
    if not parts.hostname:
        return None
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _dial(host: str, port: int) -> str:
    """What is wrong with an address; nothing if somebody listens there."""
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        return f" can not be reached: {error.strerror or 'no answer'}"
    return ""
