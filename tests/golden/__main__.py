"""`python -m tests.golden --write` writes the golden files anew, for a change of a format that is meant."""

import argparse
import asyncio

from tests.golden.golden import write_all


def main() -> None:
    """Write, if told to."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="The golden files of stored formats.")
    parser.add_argument("--write", action="store_true", required=True, help="write them anew; then read the diff")
    parser.add_argument(
        "--directory", action="store_true", help="the data directory too, which should stay as old as it is"
    )
    given = parser.parse_args()
    asyncio.run(write_all(given.directory))


if __name__ == "__main__":
    main()
