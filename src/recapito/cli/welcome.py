"""What a server says when it is ready: where it is, its first topic and key, and commands that work as they stand."""

import json
import threading
import urllib.request
from typing import Any, TextIO

from rich.console import Console

from recapito.settings import Settings

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
API_VERSION = "2022-06-15"
HOOK = '{"properties":{"destination":{"endpointType":"WebHook","properties":{"endpointUrl":"http://127.0.0.1:9000/"}}}}'
EVENT = '{"id":"1","subject":"first","eventType":"Hello","eventTime":"2026-01-01T00:00:00Z","data":{"say":"hello"}}'


def print_welcome(settings: Settings, console: Console, out: TextIO, quiet: bool) -> None:
    """Print it from a thread of its own: it asks the server, which must go on meanwhile."""
    print(f"Recapito is ready at {settings.public_url}", file=out, flush=True)
    if not quiet:
        threading.Thread(target=_print, args=(settings, console), daemon=True).start()


def _print(settings: Settings, console: Console) -> None:
    try:
        topic, key = _first_topic(settings)
    except (OSError, ValueError, KeyError):
        return  # the server went away meanwhile, or has no topic: there is nothing to show
    name, topic_id, endpoint = topic["name"], topic["id"], topic["properties"]["endpoint"]
    where = "in memory" if settings.server.store == "memory" else f"in {settings.data}"
    console.print(
        f"\n[bold]Recapito[/bold] keeps its data {where}; profile {settings.delivery.profile}, "
        f"clock {settings.clock.mode}. Ctrl-C stops it.\n"
        f"\n  topic     {name}\n  endpoint  {endpoint}\n  key       {key}\n",
        highlight=False,
    )
    subscription = f"{settings.public_url}{topic_id}/eventSubscriptions/first?api-version={API_VERSION}"
    consent = " that answers the handshake" if settings.delivery.handshake == "on" else ""
    commands = (
        f"# 1. where events go (a receiver of yours at port 9000{consent}; examples/receiver.py is one)\n"
        f"curl -X PUT -H 'Content-Type: application/json' '{subscription}' \\\n  -d '{HOOK}'\n"
        "# 2. publish an event\n"
        f"curl -i -H 'aeg-sas-key: {key}' -H 'Content-Type: application/json' {endpoint} \\\n  -d '[{EVENT}]'\n"
        "# 3. what became of it\n"
        f"curl -s {settings.public_url}/metrics | grep recapito_\n"
    )
    console.print(commands, highlight=False, markup=False, soft_wrap=True)


def _first_topic(settings: Settings) -> tuple[dict[str, Any], str]:
    listed = _call(
        settings, "GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.EventGrid/topics?api-version={API_VERSION}"
    )
    topic = listed["value"][0]
    return topic, _call(settings, "POST", f"{topic['id']}/listKeys?api-version={API_VERSION}")["key1"]


def _call(settings: Settings, method: str, path: str) -> dict[str, Any]:
    host = "127.0.0.1" if settings.server.host in ("0.0.0.0", "") else settings.server.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, method=method), timeout=5) as answer:
        answered: dict[str, Any] = json.load(answer)
        return answered
