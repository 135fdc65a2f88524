"""Settings: the defaults file, then a settings file, then the environment, then the command line.

An unknown key, a wrong type or a value out of range is an error at start that names the key.
"""

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from recapito.domain import profile
from recapito.domain.egress import Egress
from recapito.errors import CallerError, SettingsError
from recapito.intake.accounts import account_of
from recapito.intake.quota import Quota

ENVIRONMENT_PREFIX = "RECAPITO_"


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server listens and keeps its data."""

    host: str
    port: int
    public_url: str
    data: str
    store: Literal["sqlite", "memory"]


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


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a filling disk stops intake."""

    stop_percent: float
    stop_mb: int
    ballast_mb: int
    allow_network_filesystem: bool


class Azure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of Azure is known here from the start."""

    storage_accounts: tuple[str, ...]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings, checked."""

    server: Server
    delivery: Delivery
    clock: ClockSettings
    dead_letter: DeadLetter
    disk: Disk
    quota: Quota
    azure: Azure

    @property
    def data(self) -> Path:
        """The data directory."""
        return Path(self.server.data)

    @property
    def public_url(self) -> str:
        """How callers reach the server."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return self.server.public_url.rstrip("/") or f"http://{host}:{self.server.port}"

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
    for name in Quota.__struct_fields__:
        if getattr(settings.quota, name) < 0:
            raise SettingsError(f"quota.{name}: it must not be negative")
    for id in settings.azure.storage_accounts:
        if account_of(id) is None:
            raise SettingsError(f"azure.storage_accounts: '{id}' is not the resource id of a storage account")
    if not 0 <= settings.disk.stop_percent <= 100 or settings.disk.stop_mb < 0 or settings.disk.ballast_mb < 0:
        raise SettingsError("disk: stop_percent is 0 to 100, stop_mb and ballast_mb are not negative")


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
        if isinstance(default, list):
            return [part.strip() for part in text.split(",") if part.strip()]
        return float(text) if isinstance(default, float) else text
    except (KeyError, ValueError):
        raise SettingsError(f"{name}: '{text}' is not a {type(default).__name__}") from None
