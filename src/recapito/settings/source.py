"""The sources of settings: TOML files and the environment, as plain data. An error names the file or variable."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from recapito.errors import SettingsError

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
            raise SettingsError(f"{where}: unknown section [{section}]; known: {', '.join(tree)}")
        if not isinstance(keys, dict):
            raise SettingsError(f"{where}: {section} is a section: write its keys under [{section}]")
        for key, value in keys.items():
            if key not in tree[section]:
                raise SettingsError(f"{where}: unknown key {section}.{key}; known: {', '.join(tree[section])}")
            tree[section][key] = value


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
