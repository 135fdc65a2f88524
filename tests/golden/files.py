"""How golden bytes are written down: TOML, one line a name; text as it is, anything else in hexadecimal digits."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

FILES = Path(__file__).parent / "files"
_HEX = "hex:"


def write_down(golden: Mapping[str, bytes]) -> str:
    """The text of a file."""
    return "".join(f'"{name}" = {_quoted(_shown(content))}\n' for name, content in golden.items())


def read(text: str) -> dict[str, bytes]:
    """The bytes that a file's text stands for."""
    return {
        name: bytes.fromhex(shown.removeprefix(_HEX)) if shown.startswith(_HEX) else shown.encode()
        for name, shown in tomllib.loads(text).items()
    }


def _shown(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _HEX + content.hex()
    return text if text.isprintable() and "'" not in text and not text.startswith(_HEX) else _HEX + content.hex()


def _quoted(text: str) -> str:
    return f"'{text}'"
