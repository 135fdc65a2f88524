"""Connecting to NATS, and the checks before a store relies on it."""

from pathlib import Path
from typing import NamedTuple

from recapito.contracts.stream import Streams
from recapito.observability.journal import Journal, silent


class JetStreamOptions(NamedTuple):
    """How a cluster of NATS servers is reached.

    servers: URLs, nats:// or tls://.
    name: the cluster's name; it is part of the names of streams and buckets.
    user, password: or `creds`, or `nkey`, the paths of their files; the password from a file or the environment.
    ca, certificate, key: files for TLS.
    monitors: the URLs of the servers' monitors, which alone show whether they sync. Without: `unchecked` must be set.
    """

    servers: tuple[str, ...]
    name: str = "recapito"
    user: str = ""
    password: str = ""
    creds: Path | None = None
    nkey: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    monitors: tuple[str, ...] = ()
    unchecked: bool = False


def connect(options: JetStreamOptions, journal: Journal = silent) -> Streams:
    """Connect, check the servers and the streams, and return the streams. SettingsError names the server and the remedy.

    It blocks; the connection has a thread and an event loop of its own.
    """
    raise NotImplementedError


def create(options: JetStreamOptions, log_id: str, replicas: int, log_bytes: int, lanes_bytes: int) -> None:
    """Create the two streams, once. SettingsError if one exists. `found` of the backend then writes their beginning."""
    raise NotImplementedError
