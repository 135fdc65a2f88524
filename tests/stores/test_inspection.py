"""Looking through the files after a crash."""

import asyncio
from pathlib import Path
from typing import Any

from recapito.stores.sqlite import SqliteLedger, SqliteLog
from recapito.stores.sqlite.files import damage
from recapito.stores.sqlite.files.damage import inspect, stopped_uncleanly
from tests.stores.values import new_topic, segment


async def fill(directory: Path) -> None:
    """Two files with some pages in them, closed."""
    log, ledger = SqliteLog.open(directory), SqliteLedger.open(directory)
    topic = await log.put_topic(new_topic())
    for _ in range(50):
        await log.append([segment(topic.id, b"x" * 5000)])
    assert stopped_uncleanly(directory)  # as a crash here would leave it
    await log.close()
    await ledger.close()


def test_sound_files_are_checked(tmp_path: Path, run: Any, journal: Any) -> None:
    """Each file is said to be sound."""
    run(fill(tmp_path))
    run(inspect(tmp_path, journal))
    assert [(event, fields["file"]) for event, fields in journal] == [
        ("store.checked", "log.db"),
        ("store.checked", "dispatch.db"),
    ]


def test_a_clean_stop_leaves_no_doubt(tmp_path: Path, run: Any) -> None:
    """Nothing is to be checked after it."""
    assert not stopped_uncleanly(tmp_path)
    run(fill(tmp_path))
    assert not stopped_uncleanly(tmp_path)


def test_damage_is_said_loudly(tmp_path: Path, run: Any, journal: Any) -> None:
    """A page that was overwritten is found, and the file is named."""
    run(fill(tmp_path))
    file = tmp_path / "log.db"
    content = bytearray(file.read_bytes())
    content[4096 * 5 : 4096 * 12] = b"\xff" * (4096 * 7)
    file.write_bytes(content)
    run(inspect(tmp_path, journal))
    assert [event for event, _ in journal] == ["store.suspect", "store.checked"]
    assert journal[0][1]["file"] == "log.db"
    (sign,) = damage.read_signs(tmp_path)
    assert (sign.file, sign.why.startswith("quick_check: ")) == ("log.db", True)


def test_a_check_can_be_stopped(tmp_path: Path, run: Any, journal: Any) -> None:
    """A server that stops does not wait for it, and the files are let go."""
    run(fill(tmp_path))

    async def stop() -> bool:
        task = asyncio.create_task(inspect(tmp_path, journal))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(stop())
