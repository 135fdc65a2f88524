"""Looking through the files after a start that may have followed a crash: SQLite's quick_check, beside the work.

It takes about two seconds a gigabyte, so nobody waits for it; what it finds closes intake until a person has looked.
Rows and segments have checksums of their own, so nothing damaged is delivered meanwhile.
"""

import asyncio
from contextlib import closing
from pathlib import Path

import apsw

from recapito.errors import SettingsError
from recapito.observability.journal import Journal
from recapito.stores.sqlite.files import damage_marker
from recapito.stores.sqlite.files.connection import DISPATCH, LOG, open_reader

FAULTS = 10  # more of them say no more
WHY_CHARS = 200


def stopped_uncleanly(directory: Path) -> bool:
    """Whether a write-ahead log was left behind: a clean stop mostly leaves none, a crash always does."""
    logs = (directory / f"{kind.file}-wal" for kind in (LOG, DISPATCH))
    return any(wal.exists() and wal.stat().st_size for wal in logs)


async def inspect(directory: Path, journal: Journal) -> None:
    """Check both files, one after the other, in a thread; cancelling it ends the check at once."""
    for kind in (LOG, DISPATCH):
        connection = open_reader(directory / kind.file, kind)
        try:
            faults = await _in_thread(connection)
        finally:
            connection.close(True)
        if faults:
            damage_marker.leave(directory, kind.file, f"quick_check: {faults[0]}"[:WHY_CHARS])
            journal("store.suspect", file=kind.file, faults=faults, remedy=f"recapito doctor --data {directory}")
        else:
            journal("store.checked", file=kind.file)


async def _in_thread(connection: apsw.Connection) -> list[str]:
    check = asyncio.get_running_loop().run_in_executor(None, _check, connection)
    try:
        return await asyncio.shield(check)
    except asyncio.CancelledError:
        connection.interrupt()
        await asyncio.wait([check])
        raise


def check(directory: Path) -> dict[str, list[str]]:
    """The faults of both files, in the foreground; a file that cannot be opened says why."""
    found: dict[str, list[str]] = {}
    for kind in (LOG, DISPATCH):
        try:
            with closing(open_reader(directory / kind.file, kind, any_version=True)) as connection:
                found[kind.file] = _check(connection)
        except SettingsError as error:
            found[kind.file] = [str(error)]
    return found


def _check(connection: apsw.Connection) -> list[str]:
    try:
        said = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({FAULTS})")]
    except apsw.InterruptError:
        return []
    except apsw.Error as error:
        return [str(error)]
    return [] if said == ["ok"] else said
