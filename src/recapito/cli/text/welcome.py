"""The text of a server that is ready: its address, its first topic and key, and commands that can be pasted."""

import json
import shlex
import ssl
import threading
import urllib.request
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

from recapito.cli.toolkit.defaults import DEFAULTS
from recapito.composition.identity import near_networks
from recapito.domain.delivery.headers import SAS_KEY
from recapito.identity.server_identity import Development, ServerIdentity
from recapito.portal.config import portal_url, server_url
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
API_VERSION = "2022-06-15"
HOOK = '{"properties":{"destination":{"endpointType":"WebHook","properties":{"endpointUrl":"http://127.0.0.1:9000/"}}}}'
EVENT = '{"id":"1","subject":"first","eventType":"Hello","eventTime":"2026-01-01T00:00:00Z","data":{"say":"hello"}}'

_REMOTE = """
The server can be reached from other machines, so management needs a token: make principals in a settings file, under
\\[identity], and get tokens for them at /{tenant}/oauth2/v2.0/token."""
_DEVELOPMENT = """\
******************************** DEVELOPMENT MODE ********************************
Every program on this machine and on the networks {near} may
manage this server, read its keys and open its portal, WITHOUT A LOGIN.
Never publish its ports to other machines. RECAPITO_DEV=1 or server.development
turned this on.
**********************************************************************************"""
_IN_CLEAR = """
It does not speak TLS: keys, secrets and tokens cross the network in clear. Start it with --tls."""


def print_welcome(
    settings: Settings, identity: ServerIdentity | None, console: Console, out: TextIO, quiet: bool
) -> None:
    """Print the text on its own thread: it asks the server, which must go on meanwhile.

    That the server is in development mode is printed always, and first.
    """
    if settings.server.development:
        console.print(_DEVELOPMENT.format(near=near_networks(settings)), highlight=False, markup=False, soft_wrap=True)
    print(f"Recapito is ready at {settings.public_url}", file=out, flush=True)
    if settings.portal.enabled:
        print(f"The portal is at {portal_url(settings)}", file=out, flush=True)
    if settings.azure.azurite_front:
        address = f"{server_url(settings).rpartition(':')[0]}:{settings.azure.azurite_front}"
        print(f"The front of the Azurite at {settings.azure.azurite_url} is at {address}", file=out, flush=True)
    if not quiet:
        threading.Thread(target=_print, args=(settings, identity, console), daemon=True).start()


def _print(settings: Settings, identity: ServerIdentity | None, console: Console) -> None:
    if not settings.on_loopback and not settings.server.development:
        console.print(_REMOTE if settings.tls.on else _REMOTE + _IN_CLEAR, highlight=False)
        return
    try:
        topic = _first_topic(settings)
        key = "" if topic is None else _first_key(settings, topic["id"])
    except (OSError, ValueError, KeyError):  # a node of a cluster answers once there is an owner
        topic, key = None, ""
    where = "in memory" if settings.server.store == "memory" else escape(f"in {settings.data}")
    console.print(
        f"\n[bold]Recapito[/bold] keeps its data {where}; profile {settings.delivery.profile}, "
        f"clock {settings.clock.mode}. Ctrl-C stops it.\n",
        highlight=False,
    )
    if topic is not None:
        lines = f"  topic     {topic['name']}\n  endpoint  {topic['properties']['endpoint']}\n  key       {key}\n"
        console.print(lines, highlight=False, markup=False, soft_wrap=True)
    if identity is not None and identity.development is not None:
        print_development(settings, identity.development, console)
    if topic is not None:
        _print_commands(settings, topic["id"], topic["properties"]["endpoint"], key, console)


def _print_commands(settings: Settings, topic_id: str, endpoint: str, key: str, console: Console) -> None:
    subscription = f"{settings.public_url}{topic_id}/eventSubscriptions/first?api-version={API_VERSION}"
    consent = " that answers the handshake" if settings.delivery.handshake == "on" else ""
    curl = f"curl --cacert {_authority(settings)}" if _made_here(settings) else "curl"
    explain = f"recapito explain 1{_server_flags(settings)}"
    commands = (
        f"# 1. where events go (a receiver of yours at port 9000{consent}; examples/receiver.py is one)\n"
        f"{curl} -X PUT -H 'Content-Type: application/json' '{subscription}' \\\n  -d '{HOOK}'\n"
        "# 2. publish an event\n"
        f"{curl} -i -H '{SAS_KEY}: {key}' -H 'Content-Type: application/json' '{endpoint}' \\\n  -d '[{EVENT}]'\n"
        "# 3. what became of it\n"
        f"{curl} -s '{settings.public_url}/deliveries/explain?event=1'   # or: {explain}\n"
    )
    console.print(commands, highlight=False, markup=False, soft_wrap=True)


def print_development(settings: Settings, development: Development, console: Console) -> None:
    if not settings.tls.on:  # az and the SDKs sign in over HTTPS only, so a secret would be of no use
        console.print("# az and the Azure SDKs need HTTPS: for them, start with --tls\n", highlight=False, markup=False)
        return
    trust = f"   # they trust this server after: recapito tls{_tls_flags(settings)}" if _made_here(settings) else ""
    console.print(
        f"# a principal for az and the Azure SDKs{trust}\n"
        f"export AZURE_TENANT_ID={development.tenant} AZURE_CLIENT_ID={development.client_id}\n"
        f"export AZURE_CLIENT_SECRET={development.client_secret} AZURE_AUTHORITY_HOST={settings.public_url}\n",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _made_here(settings: Settings) -> bool:
    return settings.tls.on and not settings.tls.cert


def _authority(settings: Settings) -> str:
    return shlex.quote(str(settings.data / "tls" / "ca.pem"))


def _server_flags(settings: Settings) -> str:
    """The flags by which a command finds this server, where they differ from the defaults."""
    server = "" if settings.public_url == DEFAULTS["server"].value else f" --server {settings.public_url}"
    return f"{server} --ca-file {_authority(settings)}" if _made_here(settings) else server


def _tls_flags(settings: Settings) -> str:
    """The flags that `recapito tls` needs for this server, where they differ from its defaults."""
    usual = settings_module.load(environment={})
    data = "" if settings.data == usual.data else f" --data {shlex.quote(str(settings.data))}"
    host = "" if settings.server.host == usual.server.host else f" --host {settings.server.host}"
    return data + host + ("" if settings.server.port == usual.server.port else f" --port {settings.server.port}")


def _first_topic(settings: Settings) -> dict[str, Any] | None:
    """The first topic that takes the event of the commands, by a key."""
    listed = _call(
        settings, "GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.EventGrid/topics?api-version={API_VERSION}"
    )
    return next(filter(_takes_the_event, listed["value"]), None)


def _first_key(settings: Settings, topic_id: str) -> str:
    return str(_call(settings, "POST", f"{topic_id}/listKeys?api-version={API_VERSION}")["key1"])


def _takes_the_event(topic: dict[str, Any]) -> bool:
    properties = topic["properties"]
    return properties["inputSchema"] == "EventGridSchema" and not properties["disableLocalAuth"]


def _call(settings: Settings, method: str, path: str) -> dict[str, Any]:
    host = settings.server.host
    scheme = "https" if settings.tls.on else "http"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.server.port}{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *_tls(settings))
    with opener.open(urllib.request.Request(url, method=method), timeout=5) as answer:
        answered: dict[str, Any] = json.load(answer)
        return answered


def _tls(settings: Settings) -> list[urllib.request.HTTPSHandler]:
    """Trust exactly the certificate that this server serves, whatever its issuer and name."""
    if not settings.tls.on:
        return []
    context = ssl.create_default_context(cafile=str(settings.certificate_files[0]))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return [urllib.request.HTTPSHandler(context=context)]
