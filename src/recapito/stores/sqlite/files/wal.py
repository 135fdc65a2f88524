"""The write-ahead log of a database file, read without SQLite: the commits that SQLite did not read after a crash.

SQLite reads a WAL up to the first frame whose checksum is wrong, and drops the rest without a word. A power cut tears
the last commit in this way, which was not acknowledged. SQLite begins no commit before the one before it is synced:
if two commits lie behind the wrong frame, it belongs to one that was synced, and its page is damaged.

The format is SQLite's: https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
"""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from recapito.system.durable_names import sync_directory

WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
TORN_COMMITS = 1  # more than a power cut can leave


def wal_of(path: Path) -> Path:
    """The WAL of a database file."""
    return path.with_name(f"{path.name}-wal")


def unread_commits(wal: Path, frames: int, page_bytes: int) -> int:
    """The commits behind the frames that SQLite has read. Frames of an older WAL, which have other salts, are none."""
    found = 0
    try:
        with wal.open("rb") as file:
            salts = file.read(WAL_HEADER_BYTES)[16:24]
            at = WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes)
            file.seek(at)
            while len(header := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
                if header[8:16] == salts and header[4:8] != bytes(4):  # the last frame of a commit
                    found += 1
                at += FRAME_HEADER_BYTES + page_bytes
                file.seek(at)
    except FileNotFoundError:
        return 0
    return found


def keep_copy(wal: Path) -> str:
    """Copy a WAL to a new name beside it, for a person, before SQLite writes over it. Returns that name."""
    copy = wal.with_name(f"{wal.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with wal.open("rb") as source, os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as kept:
        shutil.copyfileobj(source, kept)
        kept.flush()
        os.fsync(kept.fileno())
    sync_directory(copy.parent)
    return copy.name
