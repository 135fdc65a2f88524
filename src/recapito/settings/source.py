"""The sources of settings: TOML files and the environment, as plain data. An error names the file or variable."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from recapito.domain.nearest import nearest
from recapito.errors import SettingsError

_SERVICE_LINK = re.compile(r"[A-Z0-9_]+?(_SERVICE_(HOST|PORT(_\w+)?)|_PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def read_file(file: Path) -> dict[str, Any]:
    """The content of a settings file."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from None


def merge(tree: dict[str, Any], more: Mapping[str, Any], where: str) -> None:
    """Overwrite settings with those of a file; an unknown name is an error."""
    for section, keys in more.items():
        if section not in tree:
            raise SettingsError(f"{where}: unknown section [{section}]{nearest(section, tree, '[{}]')}")
        if not isinstance(keys, dict):
            raise SettingsError(f"{where}: {section} is a section: write its keys under [{section}]")
        for key, value in keys.items():
            if key not in tree[section]:
                near = nearest(key, tree[section], f"{section}.{{}}")
                raise SettingsError(f"{where}: unknown key {section}.{key}{near}")
            tree[section][key] = value


def refuse_unknown(environment: Iterable[str], known: Collection[str], prefix: str) -> None:
    """Raise SettingsError if a variable with the prefix is none of the known ones.

    Kubernetes and Docker set variables for a service that is named as we are; those are no one's mistake.
    """
    for name in sorted(environment):
        if name.startswith(prefix) and name not in known and not _SERVICE_LINK.fullmatch(name):
            raise SettingsError(f"environment: unknown variable {name}{nearest(name, sorted(known))}")


def from_text(text: str, default: object, name: str) -> object:
    """A value of the environment, with the type of its default."""
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
        raise SettingsError(f"{name}: '{text}' is not {_KINDS[type(default)]}") from None
