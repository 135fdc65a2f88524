"""Connections from the settings: read once, at start, and not stored. A secret may be in a file or in the environment.

An error names the key, never the value.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from recapito.domain import limits
from recapito.domain.connections.choice import Choice, choose
from recapito.domain.connections.connection import Connection
from recapito.errors import InvalidInput, SettingsError

KEY = "connection.resources"


class SecretLocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The location of a secret: a file, or a variable of the environment."""

    file: str = ""
    env: str = ""


Secret = str | SecretLocation


class ConfiguredConnection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The connection of one resource, in one of five forms."""

    resource_id: str
    connection_string: Secret = ""
    sas_url: Secret = ""
    host_url: Secret = ""
    default_credential: bool = False
    azurite: bool = False
    endpoints: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<ConfiguredConnection {self.resource_id}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("resource_id", self.resource_id)]


def read_configured(given: Sequence[ConfiguredConnection], environment: Mapping[str, str]) -> dict[str, Connection]:
    """The connections by their keys. SettingsError if one is wrong."""
    connections: dict[str, Connection] = {}
    for n, configured in enumerate(given):
        where = f"{KEY}[{n}]"
        connection = _read(configured, where, environment)
        if connection.key in connections:
            raise SettingsError(f"{where}.resource_id: {configured.resource_id} is given twice")
        connections[connection.key] = connection
    return connections


def _read(given: ConfiguredConnection, where: str, environment: Mapping[str, str]) -> Connection:
    ways = {
        name: text
        for name in ("connection_string", "sas_url", "host_url")
        if (text := _text(getattr(given, name), f"{where}.{name}", environment)) is not None
    }
    named = [*ways, *(name for name in ("default_credential", "azurite") if getattr(given, name))]
    if len(named) != 1:
        raise SettingsError(
            f"{where}: give one of connection_string, sas_url, host_url, default_credential and azurite"
        )
    try:
        choice = Choice(
            **ways,
            default_credential=given.default_credential,
            azurite=given.azurite,
            endpoints=given.endpoints or None,
        )
        return choose(given.resource_id, choice)
    except InvalidInput as error:
        field = error.target if error.target == "endpoints" else named[0]
        raise SettingsError(
            f"{where}.{'resource_id' if error.target == 'resourceId' else field}: {error.message}"
        ) from None


def _text(secret: Secret, where: str, environment: Mapping[str, str]) -> str | None:
    """The value of a key, or the content of the file or variable that it names; None if it is not set."""
    if isinstance(secret, str):
        return secret or None
    if bool(secret.file) == bool(secret.env):
        raise SettingsError(f"{where}: either file or env must be given")
    if secret.env:
        if not environment.get(secret.env):
            raise SettingsError(f"{where}.env: the variable {secret.env} is not set")
        return environment[secret.env].strip()
    try:
        with Path(secret.file).open("rb") as file:
            text = file.read(limits.CONNECTION_CHARS + 1).decode().strip()
    except OSError as error:
        raise SettingsError(f"{where}.file: {secret.file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{where}.file: {secret.file} is not text") from None
    if not text:
        raise SettingsError(f"{where}.file: {secret.file} is empty")
    return text
