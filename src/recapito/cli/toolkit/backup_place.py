"""The place of a backup, as a command is given it: a directory, or a folder of a blob container by its URL.

The URL may end with a signature; a dash reads it, so that it is in no list of processes. It is never printed.
"""

import re
from pathlib import Path
from typing import NamedTuple

from recapito.cli.toolkit.flags import read_secret

TARGET_HELP = "Empty or new directory, or a blob container's URL; - reads it."
SOURCE_HELP = "Directory or URL of a backup; - reads it."
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class ContainerUrl(NamedTuple):
    """The URL of a folder in a blob container."""

    url: str

    def __str__(self) -> str:
        return self.url.partition("?")[0]

    def __repr__(self) -> str:
        return f"<ContainerUrl {self}>"


def read_place(given: str) -> Path | ContainerUrl:
    """The place that an argument names."""
    text = read_secret(given, "URL of the folder") or ""
    return ContainerUrl(text) if _URL.match(text) else Path(text)
