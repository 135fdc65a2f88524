"""SQL lives in .sql files: `queries/<file>.sql` has statements, each under a line `-- name: …`."""

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

HERE: Traversable = resources.files(__package__)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def load(file: str) -> dict[str, str]:
    """The statements of one file, by their names."""
    _, *parts = _NAME.split((HERE / "queries" / f"{file}.sql").read_text("utf-8"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
