"""`python -m tests.fuzz.one TARGET [libFuzzer's options]`: one target under atheris, guided by coverage.

libFuzzer ends the process it runs in, so each target has a process of its own.
"""

import sys

import atheris

with atheris.instrument_imports(include=["recapito.domain", "recapito.api", "recapito.stores.sqlite.sql.rows"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer has enough; what fails is written to a file by it."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
