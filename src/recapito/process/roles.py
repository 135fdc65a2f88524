"""Running what `app` has put together: both roles in one process, or one role of a server on two.

A role ends when its standard input closes: its parent is gone, or wants it to stop. It then finishes what it has begun.
"""

import asyncio
import gc
import os
import resource
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from ssl import SSLContext

import msgspec
import uvicorn
import uvloop

from recapito.api.app import Surface
from recapito.api.server.fast_publish import FastPublishProtocol
from recapito.clock import SECOND, Origin, SystemClock
from recapito.composition import identity as access
from recapito.composition import service
from recapito.composition import stores as storage
from recapito.composition.bootstrap import create_initial_resources
from recapito.composition.observability import make_observers
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain import limits
from recapito.errors import SettingsError, VolumeFull
from recapito.identity.server_identity import Identity
from recapito.observability.journal import Journal, LineJournal
from recapito.observability.status import DispatchStatus, Status, to_bytes
from recapito.process.role_config import RoleConfig
from recapito.process.wakeup import Wakeup
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings

HEARTBEAT_NS = SECOND
HEARTBEAT_MISSED_NS = 5 * SECOND
DRAIN_NS = 5 * SECOND
KEEP_ALIVE_S = 75
GOODBYE_S = 0.2
SWITCH_INTERVAL_S = 0.0005
GARBAGE_OBJECTS = 10_000


class HttpServer(uvicorn.Server):
    """uvicorn on our socket; signals are the caller's business."""

    def __init__(self, surface: Surface, tls: SSLContext | None = None) -> None:
        config = uvicorn.Config(
            surface.app,
            loop="none",
            http=partial(FastPublishProtocol, surface.publish),  # type: ignore[arg-type] # it only calls it
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        config.load()
        config.ssl = tls  # uvicorn would make one of its own, with old ciphers
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but nobody waits for clients that do not say goodbye, as TLS wants them to."""
        ending = asyncio.create_task(super().shutdown(sockets))
        while not (await asyncio.wait({ending}, timeout=GOODBYE_S))[0]:
            for connection in [*self.server_state.connections]:
                if connection.transport.is_closing():
                    connection.transport.abort()
        await ending

    def stop(self) -> None:
        """Finish open requests, then return from `serve`."""
        self.should_exit = True


async def run_alone(
    settings: Settings,
    identity: Identity | None,
    origin: Origin,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
) -> None:
    """Both roles in this process, until `stopping` is set."""
    _tune_process()
    journal = LineJournal(role="alone")
    clock = service.make_clock(settings, origin)
    heard, observers = DispatchStatus(), make_observers(settings, "alone", clock, journal)
    async with storage.open_both(settings, clock, journal) as stores:
        notices = asyncio.Event()
        dispatch = service.make_dispatch(settings, stores, clock, journal, identity, observers, on_notice=notices.set)
        intake = service.make_intake(
            settings,
            stores,
            clock,
            journal,
            on_append=dispatch.dispatcher.notify,
            dispatch_problem=lambda: None,
            heard=heard,
            notices=notices,
            observers=observers,
            clock_control=service.make_clock_control(settings, clock, dispatch, stores),
            identity=identity,
        )
        dispatching = asyncio.create_task(dispatch.service.run())
        reporting = asyncio.create_task(_report(dispatch.reporter, heard.take))
        try:
            ring = dispatch.dispatcher.notify
            await _serve(settings, intake, stores, listener, ring, _any(stopping, dispatching), on_ready)
        finally:
            reporting.cancel()
            await _end_dispatch(dispatch, dispatching, DRAIN_NS)
            await observers.close()


def run_role(role: str) -> int:
    """One role, as its parent orders on standard input; the exit code."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # the parent has ended before it could order anything
    order = msgspec.json.decode(line, type=RoleConfig)
    settings = settings_module.from_tree(order.settings)
    journal = LineJournal(role=role)
    _tune_process()
    runner = {"intake": _run_intake, "dispatch": _run_dispatch, "alone": _run_alone}[role]
    try:
        uvloop.run(runner(settings, order, journal))
    except SettingsError as error:
        print(f"recapito: {error}", file=sys.stderr, flush=True)
        return os.EX_TEMPFAIL if isinstance(error, VolumeFull) else os.EX_CONFIG
    return 0


async def _run_alone(settings: Settings, order: RoleConfig, journal: Journal) -> None:
    """Both roles for a parent that is no supervisor, such as a test run."""
    listener, identity, stopping = (
        socket.socket(fileno=order.listener),
        access.prepare_identity(settings),
        asyncio.Event(),
    )

    async def await_stop() -> None:
        await _order_to_stop()
        stopping.set()

    told = asyncio.create_task(await_stop())
    await run_alone(settings, identity, order.origin, listener, stopping, partial(_say_ready, order, b"alone"))
    told.cancel()


async def _run_intake(settings: Settings, order: RoleConfig, journal: Journal) -> None:
    clock = service.make_clock(settings, order.origin)
    wake = Wakeup(socket.socket(fileno=order.wake), HEARTBEAT_MISSED_NS, limits.STATUS_BYTES)
    heard, observers = DispatchStatus(), make_observers(settings, "intake", clock, journal)
    listener = socket.socket(fileno=order.listener)
    async with storage.open_intake(settings, clock, journal) as stores:
        intake = service.make_intake(
            settings,
            stores,
            clock,
            journal,
            on_append=wake.ring,
            dispatch_problem=wake.missing,
            heard=heard,
            observers=observers,
            identity=access.prepare_identity(settings),
        )
        wake.listen(intake.notifier.ring, heard.update_from)
        ready = partial(_say_ready, order, b"intake")
        await _serve(settings, intake, stores, listener, wake.ring, _order_to_stop(), ready)
    await observers.close()


async def _run_dispatch(settings: Settings, order: RoleConfig, journal: Journal) -> None:
    clock = service.make_clock(settings, order.origin)
    wake = Wakeup(socket.socket(fileno=order.wake), HEARTBEAT_MISSED_NS)
    observers = make_observers(settings, "dispatch", clock, journal)
    async with storage.open_dispatch(settings, clock, journal) as stores:
        identity = access.prepare_identity(settings)
        dispatch = service.make_dispatch(settings, stores, clock, journal, identity, observers, on_notice=wake.ring)
        wake.listen(dispatch.dispatcher.notify)
        dispatching = asyncio.create_task(dispatch.service.run())
        beating = asyncio.create_task(_report(dispatch.reporter, lambda status: wake.tell(to_bytes(status))))
        measuring = asyncio.create_task(dispatch.reporter.gauge.watch_loop(SystemClock()))
        stop = asyncio.create_task(_order_to_stop())
        _say_ready(order, b"dispatch")
        try:
            await asyncio.wait({stop, dispatching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (beating, measuring, stop):
                task.cancel()
            await _end_dispatch(dispatch, dispatching, DRAIN_NS if stop.done() and stop.result() else 0)
            await observers.close()


async def _serve(
    settings: Settings,
    intake: service.Intake,
    stores: storage.Stores,
    listener: socket.socket,
    ring: Callable[[], None],
    stopping: Awaitable[object],
    on_ready: Callable[[], None],
) -> None:
    """Serve HTTP until told to stop; what was accepted until then is stored and answered.

    Dispatch is rung every second as well: whatever changed without a ring, after a failed commit say, is seen then.
    """
    await create_initial_resources(settings, intake.topics, stores.registry)
    server = HttpServer(intake.surface, access.make_tls(settings))
    publishing = asyncio.create_task(intake.publisher.run())
    sweeping = asyncio.create_task(intake.janitor.run())
    expiring = asyncio.create_task(intake.expiry.run(intake.subscriptions.expire))
    notifying = asyncio.create_task(intake.notifier.run())
    beating = asyncio.create_task(_beat(ring))
    measuring = asyncio.create_task(intake.publisher.gauge.watch_loop(SystemClock()))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stop = asyncio.ensure_future(stopping)
    on_ready()
    await asyncio.wait({stop, publishing, sweeping, expiring, notifying, serving}, return_when=asyncio.FIRST_COMPLETED)
    server.stop()
    await intake.caller.close()
    await intake.storage_clients.close()
    await intake.amqp_clients.close()
    if intake.handshakes is not None:
        await intake.handshakes.close()
    await serving
    await intake.publisher.close()
    for task in (stop, sweeping, expiring, notifying, beating, measuring):
        task.cancel()
    for task in (publishing, sweeping, expiring, notifying):  # one that failed says why
        with suppress(asyncio.CancelledError):
            await task


async def _end_dispatch(dispatch: service.Dispatch, dispatching: "asyncio.Task[None]", patience: int) -> None:
    """Let what is under way settle, for a while, then end."""
    if not dispatching.done():
        await dispatch.service.drain(SystemClock().now() + patience)
    dispatching.cancel()
    try:
        await dispatching
    except asyncio.CancelledError:
        pass
    finally:
        await dispatch.sender.close()
        await dispatch.storage_clients.close()
        await dispatch.amqp_clients.close()


async def _any(event: asyncio.Event, task: "asyncio.Task[None]") -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _order_to_stop() -> bool:
    """Wait until the parent says to stop, or is gone: then nobody waits for us, and we end at once."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[bool] = loop.create_future()
    stdin = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(stdin)
        told.set_result(os.read(stdin, 64) != b"")

    loop.add_reader(stdin, read)
    try:
        return await told
    finally:
        loop.remove_reader(stdin)


def _tune_process() -> None:
    """Give the threads their turn, look for garbage seldom, and have room for many connections.

    With a busy event loop the store's thread waits for its turn longer than for the disk: a commit took 1 ms instead of
    6 to 9 with this interval. Garbage in cycles is rare here; looking for it after every 700 objects, as Python does,
    was a tenth of the dispatcher's work, and what is here already stays to the end; while it was loaded, nobody looked.
    Open, late and idle connections together may be more than the usual limit of 1,024.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say_ready(order: RoleConfig, role: bytes) -> None:
    with suppress(OSError):
        os.write(order.ready, role + b"\n")


async def _report(reporter: StatusReporter, tell: Callable[[Status], bool]) -> None:
    """Say every second how dispatch is, and that it is."""
    wall = SystemClock()
    while True:
        status = reporter.report()
        if tell(status):
            reporter.sent(status)
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)


async def _beat(ring: Callable[[], None]) -> None:
    wall = SystemClock()
    while True:
        ring()
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)
