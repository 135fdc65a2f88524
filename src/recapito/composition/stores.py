"""The stores of a server, opened as each of its roles sees them; what a role may not write it can only read."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from recapito.clock import Clock, SystemClock
from recapito.connections.configured import read_configured
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.history import History, HistoryReader, Keep
from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.capacity.volume_shares import Room, Shares, share_out
from recapito.domain.instant import HOUR
from recapito.errors import SettingsError
from recapito.intake.publish.disk_watch import Space
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings
from recapito.stores.memory import MemoryDisk, MemoryHistory, MemoryLedger, MemoryLog
from recapito.stores.sqlite import SqliteHistory, SqliteHistoryReader, SqliteLedger, SqliteLog
from recapito.stores.sqlite.files.ballast import Ballast
from recapito.stores.sqlite.files.connection import DISK
from recapito.stores.sqlite.files.damage_marker import reason
from recapito.stores.sqlite.files.inspection import inspect, stopped_uncleanly
from recapito.stores.sqlite.files.lock import lock_role, trimming_allowed
from recapito.stores.sqlite.files.volume import check_directory, free_bytes, room_on, total_bytes
from recapito.system.durable_names import make_directory

S = TypeVar("S", SqliteLog, SqliteLedger)
R = TypeVar("R", SqliteLog, SqliteLedger, SqliteHistoryReader)
NO_HISTORY = MemoryHistory(Keep(0, 0), lambda: 0, capacity=0)


@dataclass(frozen=True)
class Stores:
    """The stores as one role sees them. `recording` is the history of a role that writes it, if one is kept.

    `space` is the room that intake sees, `room` that of dispatch; memory has neither.
    """

    log: Log
    registry: Registry
    ledger: Ledger
    keyring: Keyring
    history: HistoryReader = NO_HISTORY
    recording: History | None = None
    space: Callable[[], Space] | None = None
    measure: Callable[[], Space] | None = None
    room: Callable[[], Room] | None = None
    trimming: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True)
    damage: Callable[[], str] = lambda: ""


@asynccontextmanager
async def open_both(settings: Settings, clock: Clock, journal: Journal) -> AsyncIterator[Stores]:
    """The stores of a server in one process."""
    if settings.server.store == "memory":
        disk = MemoryDisk()
        log = MemoryLog(disk)
        keyring = _keyring(settings, log, SecretBox.in_memory())
        ring = _ring(settings, clock) if settings.history.enabled else None
        yield Stores(log, log, MemoryLedger(disk), keyring, ring or NO_HISTORY, ring)
        return
    data = settings.data
    with lock_role(data, "intake"), lock_role(data, "dispatch"):
        async with (
            _writing(SqliteLog, settings, journal) as writer,
            _writing(SqliteLedger, settings, journal) as ledger,
            _recording(settings, clock, journal) as history,
        ):
            keyring, trimming, damage = _keyring(settings, writer), partial(_trimming, data), partial(reason, data)
            yield Stores(
                writer,
                writer,
                ledger,
                keyring,
                history or NO_HISTORY,
                history,
                _space_of(writer, ledger),
                _measure_of(writer, ledger),
                _room_of(settings, ledger),
                trimming,
                damage,
            )


@asynccontextmanager
async def open_intake(settings: Settings, clock: Clock, journal: Journal) -> AsyncIterator[Stores]:
    """The stores as the intake process sees them: it writes the log, and reads the ledger."""
    data = settings.data
    with lock_role(data, "intake"):
        async with (
            _writing(SqliteLog, settings, journal) as log,
            _closing(SqliteLedger.open_reader(data, threaded=True, journal=journal)) as ledger,
            _closing(SqliteHistoryReader(data, journal=journal)) as history,
        ):
            keyring, trimming, damage = _keyring(settings, log), partial(_trimming, data), partial(reason, data)
            shown = history if settings.history.enabled else NO_HISTORY
            yield Stores(
                log,
                log,
                ledger,
                keyring,
                shown,
                space=_space_of(log, ledger),
                measure=_measure_of(log, ledger),
                trimming=trimming,
                damage=damage,
            )


@asynccontextmanager
async def open_dispatch(settings: Settings, clock: Clock, journal: Journal) -> AsyncIterator[Stores]:
    """The stores as the dispatch process sees them: it writes the ledger, and reads the log."""
    with lock_role(settings.data, "dispatch"):
        async with (
            _writing(SqliteLedger, settings, journal) as ledger,
            _closing(SqliteLog.open_reader(settings.data, journal=journal)) as log,
            _recording(settings, clock, journal) as history,
        ):
            keyring, room = _keyring(settings, log), _room_of(settings, ledger)
            yield Stores(log, log, ledger, keyring, history or NO_HISTORY, history, room=room)


class Found(NamedTuple):
    """What was in the data directory: when something was stored last, and whether it may be damaged."""

    newest: int
    doubtful: bool


async def prepare_store(settings: Settings, journal: Journal) -> Found:
    """Make or migrate the files, or refuse them."""
    if settings.server.store == "memory":
        return Found(0, doubtful=False)
    data = settings.data
    try:
        make_directory(data)
    except OSError as error:
        raise SettingsError(f"server.data: {data} can not be made: {error.strerror}") from None
    check_directory(data, settings.disk.allow_network_filesystem)
    _check_whole(data)
    newest = max((file.stat().st_mtime_ns for file in data.glob("*.db*")), default=0)
    doubtful = stopped_uncleanly(data)
    async with open_both(settings, SystemClock(), journal):
        return Found(newest, doubtful)


def _check_whole(data: Path) -> None:
    """Refuse what is left of a store without its log: a new one would use positions again that lanes are past."""
    log, ledger = data / SqliteLog.KIND.file, data / SqliteLedger.KIND.file
    if ledger.exists() and not log.exists():
        raise SettingsError(
            f"{log} is missing, and {ledger.name} is there: put it back, restore a backup, or move {ledger.name} away "
            "too to begin anew."
        )


@asynccontextmanager
async def inspecting(settings: Settings, found: Found, journal: Journal, ready: asyncio.Event) -> AsyncIterator[None]:
    """While this lasts, files that a crash may have damaged are looked through, once the server is ready."""
    looking = asyncio.create_task(_look_through(settings, journal, ready)) if found.doubtful else None
    try:
        yield
    finally:
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])


async def _look_through(settings: Settings, journal: Journal, ready: asyncio.Event) -> None:
    """Reading through gigabytes would take the processor from those who start."""
    await ready.wait()
    await inspect(settings.data, journal)


def _writing(kind: type[S], settings: Settings, journal: Journal) -> AbstractAsyncContextManager[S]:
    """A store of this server that is open to be written."""
    shares = _shares(settings)
    ballast = Ballast(settings.data, shares.ballast)
    medium = DISK._replace(checkpoint_bytes=shares.checkpoint, wal_kept_bytes=shares.wal_kept)
    network = settings.disk.allow_network_filesystem
    return _closing(kind.open(settings.data, medium=medium, ballast=ballast, allow_network=network, journal=journal))


@asynccontextmanager
async def _closing(store: R) -> AsyncIterator[R]:
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _recording(settings: Settings, clock: Clock, journal: Journal) -> AsyncIterator[SqliteHistory | None]:
    """The history that is written here, if one is kept; what is recorded is stored now and then."""
    if not settings.history.enabled:
        yield None
        return
    data, shares, keep = settings.data, _shares(settings), _keep(settings)
    history = SqliteHistory(
        data,
        keep._replace(size=min(keep.size, shares.history)),
        clock.now,
        SystemClock(),
        has_room=lambda: free_bytes(data) >= 2 * shares.stop,
        journal=journal,
    )
    await history.flush()  # makes the file
    storing = asyncio.create_task(history.run())
    try:
        yield history
    finally:
        storing.cancel()
        await asyncio.wait([storing])
        await history.close()


def _shares(settings: Settings) -> Shares:
    disk = settings.disk
    return share_out(
        total_bytes(settings.data), disk.stop_percent / 100, disk.stop_mb * limits.MB, disk.ballast_mb * limits.MB
    )


def _ring(settings: Settings, clock: Clock) -> MemoryHistory:
    return MemoryHistory(_keep(settings), clock.now, first_mark=SystemClock().now() // 1000)


def _keep(settings: Settings) -> Keep:
    return Keep(settings.history.keep_hours * HOUR, settings.history.keep_mb * limits.MB)


def _keyring(settings: Settings, registry: Registry, secret_box: SecretBox | None = None) -> Keyring:
    """The server's connections, with those that its settings give; sealed under the key in its file."""
    given = read_configured(settings.connection.resources, os.environ)
    return Keyring(registry, secret_box or SecretBox.in_file(settings.connection_key), settings.azure.azurite, given)


def _measure_of(log: SqliteLog, ledger: SqliteLedger) -> Callable[[], Space]:
    directory = str(log.database.path.parent)

    def measure() -> Space:
        free, total = room_on(directory)
        return Space(free, total, reusable=log.reusable + ledger.reusable)

    return measure


def _space_of(log: SqliteLog, ledger: SqliteLedger) -> Callable[[], Space]:
    measure, directory = _measure_of(log, ledger), log.database.path.parent

    def space() -> Space:
        lost = (store.KIND.file for store in (log, ledger) if not store.database.in_place)
        return measure()._replace(lost=next(lost, ""), damage=reason(directory))

    return space


def _trimming(data: Path) -> AbstractContextManager[bool]:
    """Nothing is cut from files that may be damaged: a person wants to see them, and deleting makes it worse."""
    return nullcontext(False) if reason(data) else trimming_allowed(data)


def _room_of(settings: Settings, ledger: SqliteLedger) -> Callable[[], Room]:
    data, floor = str(settings.data), _shares(settings).floor
    return lambda: Room(free_bytes(data) + ledger.reusable, floor)
