"""Settings: the defaults file, then a settings file, then the environment, then the command line.

An unknown key, a wrong type or a value out of range is an error at start that names the key.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from recapito.domain import profile
from recapito.domain.access import Role, is_loopback, roles_named
from recapito.domain.egress import Egress
from recapito.errors import CallerError, SettingsError
from recapito.intake.accounts import account_of
from recapito.intake.quota import Quota
from recapito.keys.given import Given

ENVIRONMENT_PREFIX = "RECAPITO_"
CONNECTION_KEY = "connection.key"


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server listens and keeps its data."""

    host: str
    port: int
    public_url: str
    data: str
    store: Literal["sqlite", "memory"]


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether HTTPS is served, and with which certificate; without a file of its own the server makes one."""

    enabled: bool
    cert: str
    key: str

    @property
    def on(self) -> bool:
        """True when HTTPS is served."""
        return self.enabled or bool(self.cert)


class PrincipalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who gets tokens of our own issuer."""

    client_id: str
    roles: list[str]
    secret: str = ""
    secret_sha256: str = ""

    def __repr__(self) -> str:
        return f"<PrincipalSettings {self.client_id}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("client_id", self.client_id)]  # msgspec's own would show the secret in a pretty traceback


class IdentitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is known, by our own issuer or by another."""

    tenant: str
    principals: list[PrincipalSettings]
    issuer: str
    audience: str
    role_claim: str
    role_names: dict[str, str]


class Publish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How fast a topic may be published to; 0 is no limit."""

    events_per_second: int
    bytes_per_second: int


class Delivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How events are delivered."""

    profile: str
    egress: Egress
    handshake: Literal["on", "off"]
    ca_file: str


class ClockSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which clock runs."""

    mode: str
    patience_s: float

    @property
    def manual(self) -> bool:
        """True when the clock stands still until it is moved."""
        return self.mode == "manual"

    @property
    def rate(self) -> int:
        """How many seconds pass in one."""
        return int(self.mode.removeprefix("scaled:")) if self.mode.startswith("scaled:") else 1


class DeadLetter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of dead letters."""

    keep_for_ever: bool
    extra_fields: bool


class HistorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is kept of what was attempted, and of the events themselves."""

    enabled: bool
    keep_hours: int
    keep_mb: int
    keep_events_mb: int


class ConnectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How connections to Azure resources are kept, and those that are given here."""

    key_file: str
    resources: tuple[Given, ...]


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a filling disk stops intake."""

    stop_percent: float
    stop_mb: int
    ballast_mb: int
    allow_network_filesystem: bool


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is told about the work that is done."""

    otlp_endpoint: str
    sample_ratio: float
    traces_per_second: int
    diagnostics: str
    diagnostics_mb: int


class Azure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of Azure is known here from the start."""

    storage_accounts: tuple[str, ...]
    azurite: bool


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings, checked."""

    server: Server
    tls: Tls
    identity: IdentitySettings
    publish: Publish
    delivery: Delivery
    clock: ClockSettings
    dead_letter: DeadLetter
    history: HistorySettings
    connection: ConnectionSettings
    disk: Disk
    quota: Quota
    azure: Azure
    telemetry: Telemetry

    @property
    def data(self) -> Path:
        """The data directory."""
        return Path(self.server.data)

    @property
    def connection_key(self) -> Path:
        """The file with the key that connections are sealed under."""
        return Path(self.connection.key_file or self.data / CONNECTION_KEY)

    @property
    def public_url(self) -> str:
        """How callers reach the server. Over TLS that is a name, since some clients check no addresses."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        if self.tls.on and host == "127.0.0.1":
            host = "localhost"
        scheme = "https" if self.tls.on else "http"
        return self.server.public_url.rstrip("/") or f"{scheme}://{host}:{self.server.port}"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.server.host == "localhost" or is_loopback(self.server.host)

    @property
    def own_urls(self) -> tuple[str, ...]:
        """How callers may name this server: its public URL, and on loopback every way to write that."""
        hosts = ("localhost", "127.0.0.1", "[::1]") if self.on_loopback else ()
        scheme = "https" if self.tls.on else "http"
        return self.public_url, *(f"{scheme}://{host}:{self.server.port}" for host in hosts)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The names and addresses that a certificate of ours must be good for, Event Grid's own host names included."""
        given = (self.server.host, urlsplit(self.public_url).hostname or "")
        grid = ("*.local-1.eventgrid.azure.net", "*.local.eventgrid.azure.net")
        return "localhost", "*.localhost", "127.0.0.1", "::1", *given, *grid

    @property
    def certificate_files(self) -> tuple[Path, Path]:
        """The certificate that is served, and its key."""
        own = Path(self.tls.cert), Path(self.tls.key)
        return own if self.tls.cert else (self.data / "tls" / "server.pem", self.data / "tls" / "server.key")

    @property
    def one_process(self) -> bool:
        """Whether both roles run in one process: memory can not be shared, and a manual clock moves both."""
        return self.server.store == "memory" or self.clock.manual


def defaults_text() -> str:
    """The defaults file, with its comments."""
    return (resources.files("recapito") / "defaults.toml").read_text("utf-8")


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read and check all settings. `flags` maps dotted keys, e.g. `server.port`, to values; None means not given."""
    tree = tomllib.loads(defaults_text())
    if file is not None:
        _merge(tree, _read(file), str(file))
    for section, keys in tree.items():
        for key, default in keys.items():
            name = f"{ENVIRONMENT_PREFIX}{section}_{key}".upper()
            if name in environment:
                keys[key] = _from_text(environment[name], default, name)
    for dotted, value in (flags or {}).items():
        section, _, key = dotted.partition(".")
        if value is not None:
            tree[section][key] = value
    return from_tree(tree)


def with_port(settings: Settings, port: int) -> Settings:
    """The same settings with the port that is really listened on."""
    return msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=port))


def from_tree(tree: Mapping[str, Any]) -> Settings:
    """Settings from plain data, checked."""
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error}") from None
    _check(settings)
    _check_identity(settings.identity)
    return settings


def _check(settings: Settings) -> None:
    if not 0 <= settings.server.port <= 65535:
        raise SettingsError(f"server.port: {settings.server.port} is not a port (0 to 65535)")
    if not settings.server.data:
        raise SettingsError("server.data: a directory must be named")
    try:
        profile.load(settings.delivery.profile)
    except CallerError as error:
        raise SettingsError(f"delivery.profile: {error.message}") from None
    mode = settings.clock.mode
    rate = mode.removeprefix("scaled:")
    if mode not in ("system", "manual") and not (mode.startswith("scaled:") and rate.isdigit() and int(rate) >= 1):
        raise SettingsError(f"clock.mode: '{mode}' is neither system nor manual nor scaled:N with a whole number N")
    if settings.delivery.ca_file and not Path(settings.delivery.ca_file).is_file():
        raise SettingsError(f"delivery.ca_file: '{settings.delivery.ca_file}' is not a file")
    if bool(settings.tls.cert) != bool(settings.tls.key):
        raise SettingsError("tls: cert and key belong together; name both files or none")
    for key, value in msgspec.structs.asdict(settings.publish).items():
        if value < 0:
            raise SettingsError(f"publish.{key}: {value} is negative; 0 is no limit")
    for name in Quota.__struct_fields__:
        if getattr(settings.quota, name) < 0:
            raise SettingsError(f"quota.{name}: it must not be negative")
    telemetry = settings.telemetry
    if telemetry.otlp_endpoint and not re.match("https?://[^/]", telemetry.otlp_endpoint):
        raise SettingsError("telemetry.otlp_endpoint: it is a URL, such as http://127.0.0.1:4318/v1/traces")
    if not 0 <= telemetry.sample_ratio <= 1 or telemetry.traces_per_second < 1:
        raise SettingsError("telemetry: sample_ratio is 0 to 1, and traces_per_second at least 1")
    if telemetry.diagnostics_mb < 1:
        raise SettingsError("telemetry.diagnostics_mb: it must be at least 1")
    for id in settings.azure.storage_accounts:
        if account_of(id) is None:
            raise SettingsError(f"azure.storage_accounts: '{id}' is not the resource id of a storage account")
    for key, least in (("keep_hours", 1), ("keep_mb", 1), ("keep_events_mb", 0)):
        if getattr(settings.history, key) < least:
            raise SettingsError(f"history.{key}: {getattr(settings.history, key)} is less than {least}")
    if not 0 <= settings.disk.stop_percent <= 100 or settings.disk.stop_mb < 0 or settings.disk.ballast_mb < 0:
        raise SettingsError("disk: stop_percent is 0 to 100, stop_mb and ballast_mb are not negative")


def _check_identity(identity: IdentitySettings) -> None:
    for n, principal in enumerate(identity.principals):
        where = f"identity.principals[{n}]"
        if not principal.client_id:
            raise SettingsError(f"{where}.client_id: an id must be given")
        if bool(principal.secret) == bool(principal.secret_sha256):
            raise SettingsError(f"{where}: either secret or secret_sha256 must be given")
        if principal.secret_sha256 and not re.fullmatch("[0-9A-Fa-f]{64}", principal.secret_sha256):
            raise SettingsError(f"{where}.secret_sha256: a SHA-256 has 64 hexadecimal digits")
        for name in principal.roles:
            _check_role(name, f"{where}.roles")
    for name in identity.role_names.values():
        _check_role(name, "identity.role_names")
    if identity.issuer and not re.match("https?://[^/]", identity.issuer):
        raise SettingsError("identity.issuer: the name of an issuer is an https URL")
    if bool(identity.issuer) != bool(identity.audience):
        raise SettingsError("identity: issuer and audience belong together; give both or neither")
    if identity.issuer and identity.principals:
        raise SettingsError("identity.principals: with another issuer there are none of our own")


def _check_role(name: str, where: str) -> None:
    if not roles_named(name):
        raise SettingsError(f"{where}: '{name}' is not a role; known: {', '.join(Role)}")


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from None


def _merge(tree: dict[str, Any], more: Mapping[str, Any], where: str) -> None:
    for section, keys in more.items():
        if section not in tree or not isinstance(keys, dict):
            raise SettingsError(f"{where}: unknown section [{section}]; known: {', '.join(tree)}")
        for key, value in keys.items():
            if key not in tree[section]:
                raise SettingsError(f"{where}: unknown key {section}.{key}; known: {', '.join(tree[section])}")
            tree[section][key] = value


def _from_text(text: str, default: object, name: str) -> object:
    try:
        if isinstance(default, bool):
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if isinstance(default, int):
            return int(text)
        if isinstance(default, dict) or (isinstance(default, list) and text.lstrip().startswith("[")):
            return msgspec.json.decode(text)
        if isinstance(default, list):
            return [part.strip() for part in text.split(",") if part.strip()]
        return float(text) if isinstance(default, float) else text
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{name}: this is not JSON: {error}") from None
    except (KeyError, ValueError):
        raise SettingsError(f"{name}: '{text}' is not a {type(default).__name__}") from None
