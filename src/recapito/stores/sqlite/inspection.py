"""Looking through the files after a start that may have followed a crash: SQLite's quick_check, beside the work.

It takes about two seconds a gigabyte, so nobody waits for it; what it finds is said loudly, and is for a person to
decide: rows and segments have checksums of their own, so nothing damaged is delivered meanwhile.
"""

import asyncio
from pathlib import Path

import apsw

from recapito.stores.sqlite.connection import DISPATCH, LOG, open_reader
from recapito.telemetry import Journal

FAULTS = 10  # more of them say no more


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
            journal("store.damaged", file=kind.file, faults=faults, remedy="restore a backup")
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


def _check(connection: apsw.Connection) -> list[str]:
    try:
        said = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({FAULTS})")]
    except apsw.InterruptError:
        return []
    except apsw.Error as error:
        return [str(error)]
    return [] if said == ["ok"] else said
