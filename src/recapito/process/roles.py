"""The roles of a server as processes: both in one process, or intake and dispatch in one each.

A role ends when its parent orders it to or is gone (`system/service.py`); it then finishes the work that it has begun.
"""

import asyncio
import gc
import os
import resource
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from recapito.api.server.protocol import ClientOf
from recapito.clock import SECOND, ClockOrigin, SystemClock
from recapito.composition import identity as access
from recapito.composition.bootstrap import create_initial_resources
from recapito.composition.clock import make_clock, make_clock_control
from recapito.composition.cluster_secret import make_client_of
from recapito.composition.dispatch import Dispatch, make_dispatch
from recapito.composition.intake import Intake, make_intake
from recapito.composition.observability import make_observers
from recapito.composition.stores import make_backend, make_keyring
from recapito.contracts.backend import Backend
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain import limits
from recapito.domain.cluster.partition import Partition
from recapito.domain.cluster.view import ClusterView
from recapito.errors import StoreLost
from recapito.identity.server_identity import ServerIdentity
from recapito.observability.journal import Journal, LineJournal
from recapito.observability.status import DispatchStatus, Status, to_bytes
from recapito.process.http_server import HttpServer
from recapito.process.node_link import NodeLink
from recapito.process.role_config import RoleConfig
from recapito.process.wakeup import Wakeup
from recapito.settings import settings as settings_module
from recapito.settings.settings import Settings
from recapito.system.hang_up import on_hang_up
from recapito.system.service import ServiceTask, run_configured, run_services, stop_order

HEARTBEAT_NS = SECOND
HEARTBEAT_MISSED_NS = 5 * SECOND
DRAIN_NS = 5 * SECOND
HAND_OVER_NS = 1 * SECOND  # of a node: another waits to own
SWITCH_INTERVAL_S = 0.0005
GARBAGE_OBJECTS = 10_000


def run_role(role: str) -> int:
    """Run one role as its parent configures it, and return the exit code."""
    runner = {"intake": _run_intake, "dispatch": _run_dispatch, "alone": _run_alone}[role]

    def start(config: RoleConfig) -> Coroutine[Any, Any, None]:
        settings = settings_module.from_tree(config.settings)
        _tune_process()
        return runner(settings, config, LineJournal(role=role))

    return run_configured(RoleConfig, start)


async def run_alone(
    settings: Settings,
    identity: ServerIdentity | None,
    origin: ClockOrigin,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
    front: socket.socket | None = None,
) -> None:
    """Run both roles in this process until `stopping` is set."""
    _tune_process()
    journal = LineJournal(role="alone")
    clock = make_clock(settings, origin)
    status, observers = DispatchStatus(), make_observers(settings, "alone", clock, journal)
    async with make_backend(settings, journal).open_both(clock) as stores:
        keyring = make_keyring(settings, stores.registry)
        notices = asyncio.Event()
        dispatch = make_dispatch(settings, stores, keyring, clock, journal, identity, observers, on_notice=notices.set)
        clock_control = make_clock_control(settings, clock, dispatch, stores)
        intake = make_intake(
            settings,
            stores,
            keyring,
            clock,
            journal,
            on_append=dispatch.dispatcher.notify,
            dispatch_problem=lambda: None,
            status=status,
            observers=observers,
            clock_control=clock_control,
            identity=identity,
            notices=notices,
        )
        if clock_control is not None:
            clock_control.wait_for(intake.expiry.quiet)
            clock_control.wait_for(intake.notifier.quiet)
        services = [
            _dispatcher(dispatch, lambda: DRAIN_NS),
            ServiceTask(partial(_report, dispatch.reporter, status.update), vital=False),
            *_services_of_intake(settings, intake, listener, dispatch.dispatcher.notify, front),
        ]
        try:
            await create_initial_resources(settings, intake.topics, stores.registry)
            await _follow_estate(intake, stopping.set)
            await run_services(services, stopping.wait(), partial(_when_applied, intake, on_ready))
        finally:
            await dispatch.close()
            await observers.close()


async def _run_alone(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    """Run both roles for a parent that is no supervisor, such as a test run."""
    listener, stopping = socket.socket(fileno=config.listener), asyncio.Event()
    identity = access.prepare_identity(settings)

    async def await_order() -> None:
        await stop_order()
        stopping.set()

    order = asyncio.create_task(await_order())
    await run_alone(settings, identity, config.origin, listener, stopping, partial(_report_ready, config, b"alone"))
    order.cancel()


async def _run_intake(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    clock = make_clock(settings, config.origin)
    wakeup = Wakeup(socket.socket(fileno=config.wake), HEARTBEAT_MISSED_NS, limits.STATUS_BYTES)
    status, observers = DispatchStatus(), make_observers(settings, "intake", clock, journal)
    listener = socket.socket(fileno=config.listener)
    link, lost = _open_link(settings, config), Loss()
    partition = Partition(config.partition, config.partitions)
    backend = make_backend(settings, journal, lost.found, partition)
    async with backend.open_intake(clock) as stores:
        intake = make_intake(
            settings,
            stores,
            make_keyring(settings, stores.registry),
            clock,
            journal,
            on_append=wakeup.ring,
            dispatch_problem=wakeup.missing,
            status=status,
            observers=observers,
            identity=access.prepare_identity(settings),
            cluster=None if link is None else _view_of(link, backend),
            partition=partition,
        )
        wakeup.listen(intake.notifier.ring, status.update_from)
        await create_initial_resources(settings, intake.topics, stores.registry, partition)
        await _follow_estate(intake, lambda: None)
        client_of = None if link is None else make_client_of(settings)
        front = socket.socket(fileno=config.front) if config.front >= 0 else None
        services = _services_of_intake(settings, intake, listener, wakeup.ring, front, client_of, partition.alone)
        services = [ServiceTask(lost.wait), *services]
        report = partial(_report_ready, config, b"intake")
        await run_services(services, stop_order(), partial(_when_applied, intake, report))
    await observers.close()
    lost.check()


async def _run_dispatch(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    clock = make_clock(settings, config.origin)
    wakeup = Wakeup(socket.socket(fileno=config.wake), HEARTBEAT_MISSED_NS)
    observers = make_observers(settings, "dispatch", clock, journal)
    link, lost = _open_link(settings, config), Loss()
    partition = Partition(config.partition, config.partitions)
    async with make_backend(settings, journal, lost.found, partition).open_dispatch(clock) as stores:
        keyring, identity = make_keyring(settings, stores.registry), access.prepare_identity(settings)
        permit = None if link is None else link.may_send
        dispatch = make_dispatch(settings, stores, keyring, clock, journal, identity, observers, wakeup.ring, permit)
        wakeup.listen(dispatch.dispatcher.notify)
        if link is not None:
            link.listen(dispatch.slots.wake_all)
        stop = asyncio.create_task(stop_order())
        patience = DRAIN_NS if link is None else HAND_OVER_NS
        services = [
            ServiceTask(lost.wait),
            _dispatcher(dispatch, lambda: patience if stop.done() and not stop.cancelled() and stop.result() else 0),
            ServiceTask(partial(_report, dispatch.reporter, lambda status: wakeup.send(to_bytes(status))), vital=False),
            ServiceTask(lambda: dispatch.reporter.gauge.watch_loop(SystemClock()), vital=False),
        ]
        try:
            await run_services(services, stop, partial(_report_ready, config, b"dispatch"))
        finally:
            await dispatch.close()
            await observers.close()
    lost.check()


class Loss:
    """Whether another node has taken the store. The store tells it from any thread; the role then ends."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def found(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()

    def check(self) -> None:
        """Raise StoreLost if it was found: the exit code tells the parent."""
        if self._event.is_set():
            raise StoreLost("another node owns the store now")


def _open_link(settings: Settings, config: RoleConfig) -> NodeLink | None:
    """The link to the parent of a node of a cluster, listening; None elsewhere."""
    if config.node < 0:
        return None
    link = NodeLink(config.node, settings.cluster.node_name)
    link.listen()
    return link


def _view_of(link: NodeLink, backend: Backend) -> Callable[[], ClusterView]:
    """The parent's view of the cluster, with the doubts of this process."""
    from recapito.composition.cluster import with_doubts  # NATS takes a while to load

    return lambda: with_doubts(link.view, backend)


def _dispatcher(dispatch: Dispatch, patience: Callable[[], int]) -> ServiceTask:
    """The dispatcher. At its end, exchanges under way may settle for `patience` nanoseconds."""

    async def drain(task: "asyncio.Task[None]") -> None:
        if not task.done():
            await dispatch.service.drain(SystemClock().now() + patience())
        task.cancel()

    return ServiceTask(dispatch.service.run, drain)


def _services_of_intake(
    settings: Settings,
    intake: Intake,
    listener: socket.socket,
    ring: Callable[[], None],
    front: socket.socket | None,
    client_of: ClientOf | None = None,
    ends_tls: bool = True,
) -> list[ServiceTask]:
    """The services of intake. When they end, every publish that was accepted is stored and answered.

    Dispatch is rung every second as well: a change without a ring, after a failed commit say, is seen then. If TLS
    ends at the router of the node instead, the URLs in answers are those that the clients used all the same.
    """
    tls = access.make_tls(settings) if ends_tls else None
    server = HttpServer(intake.surface, tls, client_of, secure=settings.tls.on)

    async def finish_requests(task: "asyncio.Task[None]") -> None:
        server.stop()
        await intake.close()  # a request may wait for what these ask

    async def finish_publishes(task: "asyncio.Task[None]") -> None:
        await intake.publisher.close()

    return [
        ServiceTask(lambda: intake.publisher.gauge.watch_loop(SystemClock()), vital=False),
        ServiceTask(partial(_beat, ring), vital=False),
        ServiceTask(intake.notifier.run),
        ServiceTask(lambda: intake.expiry.run(intake.subscriptions.expire)),
        ServiceTask(intake.janitor.run),
        ServiceTask(intake.publisher.run, finish_publishes),
        *_services_of_front(intake, front),
        ServiceTask(lambda: server.serve(sockets=[listener]), finish_requests),
        *([] if intake.estate is None else [ServiceTask(intake.estate.run)]),
    ]


async def _follow_estate(intake: Intake, stop: Callable[[], None]) -> None:
    """Check the estate file, and apply it again on SIGHUP. A server does not start with a file that is wrong."""
    if intake.estate is not None:
        await intake.estate.check()
        on_hang_up(intake.estate.reload, stop)


def _when_applied(intake: Intake, report: Callable[[], None]) -> None:
    """Report that a server is ready, once its estate file was applied."""
    if intake.estate is None:
        report()
        return
    waiting = asyncio.create_task(intake.estate.until_applied())
    _WAITING.add(waiting)
    waiting.add_done_callback(_WAITING.discard)
    waiting.add_done_callback(lambda task: None if task.cancelled() else report())


_WAITING: set["asyncio.Task[None]"] = set()  # the event loop itself keeps no task alive


def _services_of_front(intake: Intake, listener: socket.socket | None) -> list[ServiceTask]:
    """The front of an Azurite, and the search for changes whose event is missing; nothing without a socket."""
    if listener is None or intake.blob_front is None:
        return []
    front = intake.blob_front
    return [ServiceTask(front.reporter.run), ServiceTask(lambda: front.serve(listener))]


def _tune_process() -> None:
    """Shorten the turns of threads, collect garbage seldom, and allow many connections.

    With a busy event loop the store's thread waits for its turn longer than for the disk: with this interval a commit
    took 1 ms instead of 6 to 9. Garbage in cycles is rare here; looking for it after every 700 objects, as Python does,
    was a tenth of the dispatcher's work. Everything loaded so far stays to the end and is frozen; `__main__` switches
    the collector off while it loads. Open, late and idle connections together may exceed the usual limit of 1,024.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    gc.enable()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _report_ready(config: RoleConfig, role: bytes) -> None:
    with suppress(OSError):
        os.write(config.ready, role + b"\n")


async def _report(reporter: StatusReporter, send: Callable[[Status], bool]) -> None:
    """Send the status of dispatch every second; it is a heartbeat too."""
    wall = SystemClock()
    while True:
        status = reporter.report()
        if send(status):
            reporter.sent(status)
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)


async def _beat(ring: Callable[[], None]) -> None:
    wall = SystemClock()
    while True:
        ring()
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)
