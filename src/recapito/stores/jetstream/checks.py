"""The checks before a store relies on servers and streams: pure functions of what they report.

Each refusal is a sentence that names the server or the stream, and the remedy.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

OLDEST = (2, 12)
LEAST_REPLICAS = 3
LEAST_PAYLOAD = 256 * 1024


def version_faults(server: str, version: str) -> Iterator[str]:
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        yield f"{server} is nats-server {version or 'of an unknown version'}: install 2.12 or newer"


def payload_faults(server: str, max_payload: int) -> Iterator[str]:
    if max_payload < LEAST_PAYLOAD:
        yield f"{server} has max_payload {max_payload}: set it to 8MB, and to {LEAST_PAYLOAD} at least"


def monitor_faults(monitors: Collection[str], servers: int) -> Iterator[str]:
    if len(monitors) < servers:
        named = ", ".join(monitors) or "none"
        yield f"{servers} servers are to keep the streams, and cluster.monitors has {named}: name the monitor of each"


def server_faults(monitor: str, varz: Mapping[str, Any], jsz: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a server, by /varz and /jsz?config=1 of its monitor."""
    server = varz.get("server_name") or monitor
    yield from version_faults(server, str(varz.get("version", "")))
    config = jsz.get("config") or {}
    if jsz.get("disabled") or not config:
        yield f"{server} has no JetStream: set `jetstream` in its configuration"
    elif not config.get("sync_always"):
        yield f"{server} does not sync each message: set `jetstream {{ sync_interval: always }}` and restart it"
    if not (varz.get("cluster") or {}).get("name"):
        yield f"{server} is not part of a cluster: set `cluster` in its configuration"


def stream_faults(info: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a stream, by the answer to STREAM.INFO."""
    config: Mapping[str, Any] = info["config"]
    name = config["name"]
    replicas = config.get("num_replicas", 1)
    if replicas < LEAST_REPLICAS:
        yield f"stream {name} has {replicas} replica: edit it to have {LEAST_REPLICAS}, on servers of their own"
    elif not (info.get("cluster") or {}).get("leader"):
        yield f"stream {name} has no leader: start a majority of its servers"
    wanted = {
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_age": 0,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "mirror": None,
        "sources": None,
        "allow_direct": True,
        "deny_purge": False,
    }
    for key, value in wanted.items():
        if config.get(key, value) != value:
            yield f"stream {name} has {key} {config[key]}: edit it to have {value}, as `recapito cluster init` made it"
    if config.get("sealed"):
        yield f"stream {name} is sealed, which cannot be undone: restore a backup by `recapito cluster restore`"
    if config.get("max_bytes", -1) <= 0:
        yield f"stream {name} has no max_bytes: edit it to have at most 70 % of its disks"


def replica_faults(info: Mapping[str, Any]) -> Iterator[str]:
    """Replicas that are not current: a warning, because a majority serves the stream."""
    for replica in (info.get("cluster") or {}).get("replicas") or ():
        if not replica.get("current"):
            yield f"{replica['name']} is behind on stream {info['config']['name']}"
