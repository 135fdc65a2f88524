"""Mutants that no test can notice, each with the reason, in `explained.toml`; found by their text, not their line."""

import tomllib
from pathlib import Path

from tests.mutants.mutations import Mutation

Change = tuple[str, str, str, str]  # module, statement, before, after
FILE = Path(__file__).with_name("explained.toml")


class Explanations:
    """The reasons, by module and change."""

    def __init__(self, file: Path = FILE) -> None:
        self._whys: dict[Change, str] = {}
        if file.exists():
            for entry in tomllib.loads(file.read_text("utf-8"))["mutant"]:
                self._whys[entry["path"], entry["within"], entry["before"], entry["after"]] = entry["why"]

    @property
    def changes(self) -> list[Change]:
        """Which mutants are explained."""
        return list(self._whys)

    def why(self, path: str, mutation: Mutation) -> str | None:
        """The reason why no test can notice it, if that is known."""
        return self._whys.get((path, mutation.within, mutation.before, mutation.after))
