"""The defaults of flags: from the environment, else from a small file, else those of a local server."""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from recapito.domain.nearest import nearest
from recapito.errors import SettingsError

FILE_VARIABLE = "RECAPITO_CONFIG"


class Default(NamedTuple):
    """The default of a flag: its environment variable, its built-in value, and its description."""

    variable: str
    value: str
    help: str


DEFAULTS = {
    "server": Default("RECAPITO_SERVER", "http://127.0.0.1:8585", "URL of the server."),
    "subscription": Default("RECAPITO_SUBSCRIPTION", "00000000-0000-0000-0000-000000000000", "Azure subscription id."),
    "group": Default("RECAPITO_GROUP", "local", "Resource group."),
    "location": Default("RECAPITO_LOCATION", "local", "Location of created resources."),
    "key": Default("RECAPITO_KEY", "", "Key to publish with; without one, the server is asked for it."),
    "ca_file": Default("RECAPITO_CA_FILE", "", "CA certificate (PEM file) used to verify the server."),
    "output": Default("RECAPITO_OUTPUT", "json", "Format of answers: json, jsonc, yaml, table, tsv or none."),
}


def file_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The path of the file; RECAPITO_CONFIG names another."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "recapito" / "config.toml"


def read_file(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The contents of the file, or a SettingsError that names the wrong key."""
    path = file_path(environment)
    try:
        read = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    for key, value in read.items():
        if key not in DEFAULTS:
            raise SettingsError(f"{path}: unknown key {key}{nearest(key, DEFAULTS)}")
        if not isinstance(value, str):
            raise SettingsError(f"{path}: {key} must be a string")
    return read


def write_file(values: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Path:
    """Replace the file. It may hold a key, so only its owner can read it."""
    path = file_path(environment)
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.touch(0o600)
        new.write_text(text, "utf-8")
        new.replace(path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    return path


def choose(key: str, flag: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The value of a key: of the flag, the environment, the file, or the built-in one."""
    if flag is not None:
        return flag
    default = DEFAULTS[key]
    if environment.get(default.variable):
        return environment[default.variable]
    return read_file(environment).get(key, default.value)


def source(key: str, environment: Mapping[str, str] = os.environ) -> str:
    """Where the value of a key comes from when no flag gives it."""
    if environment.get(DEFAULTS[key].variable):
        return DEFAULTS[key].variable
    return str(file_path(environment)) if key in read_file(environment) else "default"
