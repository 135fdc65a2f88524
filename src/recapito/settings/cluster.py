"""The settings of a node of a cluster, and their checks."""

import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from recapito.errors import SettingsError

SCHEMES = ("nats://", "tls://")
MONITORS = 32
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")
_SECRET = "cluster.secret"


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the cluster and of this node, and the way to the NATS servers."""

    name: str
    node: str
    url: str
    secret_file: str
    user: str
    password: str
    password_file: str
    creds_file: str
    nkey_file: str
    ca_file: str
    cert_file: str
    key_file: str
    monitors: tuple[str, ...]
    unchecked: bool

    def __repr__(self) -> str:
        return f"<ClusterSettings {self.name}>"

    @property
    def node_name(self) -> str:
        """The name of this node: the host's, unless one is given."""
        return self.node or re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:48]

    def secret_in(self, data: Path) -> Path:
        """The file of the cluster's secret."""
        return Path(self.secret_file or data / _SECRET)


def servers_in(store: str) -> tuple[str, ...]:
    """The URLs of the servers that `server.store` names: `nats://a,b,c` are three."""
    scheme = next((scheme for scheme in SCHEMES if store.startswith(scheme)), "")
    return tuple(f"{scheme}{part.removeprefix(scheme)}" for part in store.split(",")) if scheme else ()


def check_store(store: str) -> None:
    """Refuse a store that is none of the known ones. A URL must hold no secret: it shows in lists of processes."""
    servers = servers_in(store)
    if not servers and store not in ("sqlite", "memory"):
        raise SettingsError(f"server.store: '{store}' is unknown; known: sqlite, memory, nats://HOST:PORT,HOST:PORT,…")
    for server in servers:
        try:
            parts = urlsplit(server)
            known = bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            known = False
        if not known or parts.path.strip("/"):
            raise SettingsError(
                f"server.store: '{server}' is not the URL of a NATS server, such as nats://10.0.0.5:4222"
            )
        if parts.username or parts.password:
            raise SettingsError("server.store: put the user and the password under [cluster], not into the URL")


def check_cluster(cluster: ClusterSettings) -> None:
    """Refuse names and files that cannot be used."""
    for key in ("name", "node"):
        value = getattr(cluster, key)
        if not _NAME.fullmatch(value) and not (key == "node" and not value):
            raise SettingsError(f"cluster.{key}: '{value}' is not 1 to 48 letters, digits, '-' and '_'")
    if cluster.url:
        parts = urlsplit(cluster.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise SettingsError(f"cluster.url: '{cluster.url}' is not a URL such as http://10.0.0.5:8585")
    if bool(cluster.cert_file) != bool(cluster.key_file):
        raise SettingsError("cluster: cert_file and key_file belong together; name both files or none")
    if len(cluster.monitors) > MONITORS:
        raise SettingsError(f"cluster.monitors: {len(cluster.monitors)} are more than {MONITORS}")
