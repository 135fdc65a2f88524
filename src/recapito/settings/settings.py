"""Settings: the defaults file, then a settings file, then the environment, then the command line.

An unknown key, a wrong type or a value out of range is an error at start that names the key.
"""

import os
import tomllib
from collections.abc import Mapping
from enum import EnumType
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from recapito.connections.configured import ConfiguredConnection
from recapito.domain import limits
from recapito.domain.access.egress import Egress
from recapito.domain.access.roles import is_loopback
from recapito.domain.profiles import profile
from recapito.errors import CallerError, SettingsError
from recapito.identity.principal_settings import IdentitySettings, check_identity
from recapito.intake.resources.storage_accounts import account_of
from recapito.intake.resources.validation import Quota
from recapito.observability.journal import ObservabilitySettings
from recapito.settings.cluster import ClusterSettings, check_cluster, check_store, servers_in
from recapito.settings.source import from_text, merge, read_file, refuse_unknown

ENVIRONMENT_PREFIX = "RECAPITO_"
OTHER_VARIABLES = {
    "RECAPITO_SERVER": "the server that commands ask",
    "RECAPITO_SUBSCRIPTION": "the Azure subscription of commands",
    "RECAPITO_GROUP": "the resource group of commands",
    "RECAPITO_LOCATION": "the location of resources that commands create",
    "RECAPITO_KEY": "the key that `recapito publish` uses",
    "RECAPITO_CA_FILE": "the authority that commands trust",
    "RECAPITO_OUTPUT": "the format of answers",
    "RECAPITO_TOKEN": "the bearer token of commands",
    "RECAPITO_CONFIG": "the file with the defaults of flags",
    "RECAPITO_TRACEBACK": "commands print the traceback of a defect",
    "RECAPITO_DEV": "turns development mode on, as server.development does",
    "RECAPITO_SETTINGS": "the settings file, where no flag names one",
}
"""The variables with our prefix that are no settings. Any other is a mistake, and refused."""
CONNECTION_KEY = "connection.key"
MOST_WAIT_S = 60


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address and the data of the server."""

    host: str
    port: int
    public_url: str
    data: str
    store: str
    development: bool


class Portal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the portal runs, and where it listens."""

    enabled: bool
    host: str
    port: int


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether HTTPS is served, and with which certificate; without a file of its own the server makes one."""

    enabled: bool
    cert: str
    key: str

    @property
    def on(self) -> bool:
        """True when HTTPS is served."""
        return self.enabled or bool(self.cert)


class PublishSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The time that a publish may wait to be stored, the rate of one topic (0 is no limit), and who may publish."""

    wait_s: float
    events_per_second: int
    bytes_per_second: int
    system_topics: bool


class DeliverySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The delivery of events."""

    profile: str
    egress: Egress
    handshake: Literal["on", "off"]
    jitter: bool
    webhook_tokens: Literal["own", "entra"]
    ca_file: str
    requests: int


class ClockSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The clock of the server."""

    mode: str
    patience_s: float

    @property
    def manual(self) -> bool:
        """True when the clock stands still until it is moved."""
        return self.mode == "manual"

    @property
    def rate(self) -> int:
        """The seconds that pass in one second of real time."""
        return int(self.mode.removeprefix("scaled:")) if self.mode.startswith("scaled:") else 1


class DeadLetterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The handling of dead letters."""

    keep_for_ever: bool
    extra_fields: bool


class HistorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of the history of attempts, and of the events that are kept for explanations."""

    enabled: bool
    keep_hours: int
    keep_mb: int
    keep_events_mb: int
    replay: bool


class ConnectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key of the connections to Azure resources, and connections that are given here."""

    key_file: str
    resources: tuple[ConfiguredConnection, ...]


class DiskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The free space below which intake stops."""

    stop_percent: float
    stop_mb: int
    ballast_mb: int
    allow_network_filesystem: bool


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether metrics, the description of the API and the details of readiness need a token."""

    authenticate: bool


class AzureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resources of Azure that are known from the start."""

    storage_accounts: tuple[str, ...]
    azurite: bool
    azurite_front: int
    azurite_url: str


class EstateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that describes all resources, and whether others are deleted."""

    file: str
    prune: bool


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings, checked."""

    server: ServerSettings
    portal: Portal
    tls: Tls
    identity: IdentitySettings
    publish: PublishSettings
    delivery: DeliverySettings
    clock: ClockSettings
    dead_letter: DeadLetterSettings
    history: HistorySettings
    connection: ConnectionSettings
    disk: DiskSettings
    quota: Quota
    metrics: Metrics
    azure: AzureSettings
    estate: EstateSettings
    telemetry: ObservabilitySettings
    cluster: ClusterSettings

    @property
    def data(self) -> Path:
        """The data directory."""
        return Path(self.server.data)

    @property
    def connection_key(self) -> Path:
        """The file with the key that encrypts connections."""
        return Path(self.connection.key_file or self.data / CONNECTION_KEY)

    @property
    def public_url(self) -> str:
        """The URL at which callers reach the server. Over TLS it has a name, since some clients check no addresses."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        if (self.tls.on and host == "127.0.0.1") or (self.server.development and host in ("0.0.0.0", "[::]")):
            host = "localhost"
        scheme = "https" if self.tls.on else "http"
        return self.server.public_url.rstrip("/") or f"{scheme}://{host}:{self.server.port}"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.server.host == "localhost" or is_loopback(self.server.host)

    @property
    def own_urls(self) -> tuple[str, ...]:
        """The URLs by which callers may name this server: its public URL, and on loopback every form of it."""
        hosts = ("localhost", "127.0.0.1", "[::1]") if self.on_loopback or self.server.development else ()
        scheme = "https" if self.tls.on else "http"
        return self.public_url, *(f"{scheme}://{host}:{self.server.port}" for host in hosts)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The names and addresses that a certificate of ours must cover, Event Grid's own host names included."""
        urls = (self.public_url, self.node_url) if self.in_cluster else (self.public_url,)
        given = (self.server.host, *(urlsplit(url).hostname or "" for url in urls))
        grid = ("*.local-1.eventgrid.azure.net", "*.local.eventgrid.azure.net")
        return "localhost", "*.localhost", "127.0.0.1", "::1", self.portal.host, *given, *grid

    @property
    def certificate_files(self) -> tuple[Path, Path]:
        """The certificate that is served, and its key."""
        own = Path(self.tls.cert), Path(self.tls.key)
        return own if self.tls.cert else (self.data / "tls" / "server.pem", self.data / "tls" / "server.key")

    @property
    def in_memory(self) -> bool:
        """Whether the server keeps nothing beyond its process, neither events nor keys."""
        return self.server.store == "memory"

    @property
    def nats_servers(self) -> tuple[str, ...]:
        """The URLs of the cluster's NATS servers; none if this server is no node of a cluster."""
        return servers_in(self.server.store)

    @property
    def in_cluster(self) -> bool:
        """Whether this server is a node of a cluster."""
        return bool(self.nats_servers)

    @property
    def node_url(self) -> str:
        """The URL at which the other nodes reach this one."""
        return (self.cluster.url or self.public_url).rstrip("/")

    @property
    def one_process(self) -> bool:
        """Whether both roles run in one process: memory cannot be shared, and a manual clock moves both."""
        return self.in_memory or self.clock.manual


def defaults_text() -> str:
    """The defaults file, with its comments."""
    return (resources.files(__package__) / "defaults.toml").read_text("utf-8")


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read and check all settings. `flags` maps dotted keys, e.g. `server.port`, to values; None means not given."""
    tree = tomllib.loads(defaults_text())
    if file is None and environment.get("RECAPITO_SETTINGS"):
        file = Path(environment["RECAPITO_SETTINGS"])
    if file is not None:
        merge(tree, read_file(file), str(file))
    if environment.get("RECAPITO_DEV"):
        tree["server"]["development"] = from_text(environment["RECAPITO_DEV"], False, "RECAPITO_DEV")
    known = set(OTHER_VARIABLES)
    for section, keys in tree.items():
        for key, default in keys.items():
            name = f"{ENVIRONMENT_PREFIX}{section}_{key}".upper()
            known.add(name)
            if name in environment:
                keys[key] = from_text(environment[name], default, name)
    refuse_unknown(environment, known | _named_for_secrets(tree), ENVIRONMENT_PREFIX)
    for dotted, value in (flags or {}).items():
        section, _, key = dotted.partition(".")
        if value is not None:
            merge(tree, {section: {key: value}}, "settings")
    return from_tree(tree)


def _named_for_secrets(tree: Any) -> set[str]:
    """The variables that settings name as places of secrets: `{ env = "NAME" }`."""
    if isinstance(tree, list):
        return {name for member in tree for name in _named_for_secrets(member)}
    if not isinstance(tree, dict):
        return set()
    own = {tree["env"]} if isinstance(tree.get("env"), str) else set()
    return own | {name for member in tree.values() for name in _named_for_secrets(member)}


def with_port(settings: Settings, port: int) -> Settings:
    """The same settings with the port that the server really listens on."""
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=port))


def from_tree(tree: Mapping[str, Any]) -> Settings:
    """Settings from plain data, checked."""
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(_explain(str(error))) from None
    _check(settings)
    check_identity(settings.identity)
    return settings


def _explain(error: str) -> str:
    """An error of msgspec in our form: the key, the fault, and the values to choose from."""
    fault, _, path = error.partition(" - at `$.")
    key = path.rstrip("`")
    section, _, name = key.partition(".")
    kind = get_type_hints(get_type_hints(Settings).get(section, Settings)).get(name)
    choices = list(kind) if isinstance(kind, EnumType) else get_args(kind) if get_origin(kind) is Literal else ()
    known = f"; known: {', '.join(choices)}" if choices else ""
    return f"{key or 'settings'}: {fault.replace('`', '')}{known}"


def _check(settings: Settings) -> None:
    ports = {
        "server.port": settings.server.port,
        "portal.port": settings.portal.port,
        "azure.azurite_front": settings.azure.azurite_front,
    }
    for key, port in ports.items():
        if not 0 <= port <= 65535:
            raise SettingsError(f"{key}: {port} is not a port (0 to 65535)")
    if not settings.azure.azurite_url.startswith(("http://", "https://")):
        raise SettingsError("azure.azurite_url: it must begin with http:// or https://")
    check_store(settings.server.store)
    check_cluster(settings.cluster)
    if not settings.server.data:
        raise SettingsError("server.data: it must name a directory")
    try:
        profile.load(settings.delivery.profile)
    except CallerError as error:
        raise SettingsError(f"delivery.profile: {error.message}") from None
    mode = settings.clock.mode
    rate = mode.removeprefix("scaled:")
    if mode not in ("system", "manual") and not (mode.startswith("scaled:") and rate.isdigit() and int(rate) >= 1):
        raise SettingsError(f"clock.mode: '{mode}' is neither system nor manual nor scaled:N with a whole number N")
    if settings.in_cluster and mode != "system":
        raise SettingsError("clock.mode: a node of a cluster runs by real time: leave it at 'system'")
    if settings.in_cluster and settings.azure.azurite_front:
        raise SettingsError("azure.azurite_front: the front of an Azurite is for a server of its own, not for a node")
    if settings.delivery.ca_file and not Path(settings.delivery.ca_file).is_file():
        raise SettingsError(f"delivery.ca_file: '{settings.delivery.ca_file}' is not a file")
    if settings.delivery.requests and settings.delivery.requests < limits.OPEN_EXCHANGES_LEAST:
        least = limits.OPEN_EXCHANGES_LEAST
        raise SettingsError(f"delivery.requests: {settings.delivery.requests} is less than {least}; leave it at 0")
    if bool(settings.tls.cert) != bool(settings.tls.key):
        raise SettingsError("tls: cert and key belong together; name both files or none")
    if not 0 < settings.publish.wait_s <= MOST_WAIT_S:
        raise SettingsError(f"publish.wait_s: {settings.publish.wait_s:g} is not above 0 and at most {MOST_WAIT_S}")
    for key in ("events_per_second", "bytes_per_second"):
        if getattr(settings.publish, key) < 0:
            raise SettingsError(f"publish.{key}: {getattr(settings.publish, key)} is negative; 0 is no limit")
    for name in Quota.__struct_fields__:
        if getattr(settings.quota, name) < 0:
            raise SettingsError(f"quota.{name}: it must not be negative")
    if fault := settings.telemetry.fault:
        raise SettingsError(f"telemetry.{fault}")
    for id in settings.azure.storage_accounts:
        if account_of(id) is None:
            raise SettingsError(f"azure.storage_accounts: '{id}' is not the resource id of a storage account")
    for key, least in (("keep_hours", 1), ("keep_mb", 1), ("keep_events_mb", 0)):
        if getattr(settings.history, key) < least:
            raise SettingsError(f"history.{key}: {getattr(settings.history, key)} is less than {least}")
    if not 0 <= settings.disk.stop_percent <= 100 or settings.disk.stop_mb < 0 or settings.disk.ballast_mb < 0:
        raise SettingsError("disk: stop_percent is 0 to 100, stop_mb and ballast_mb are not negative")
