"""The intake role: it serves HTTP, stores what is published and managed, and cleans up.

It does not load the modules of dispatch: a restart waits for every module.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from recapito.api.server.protocol import ClientOf
from recapito.clock import SystemClock
from recapito.composition import identity as access
from recapito.composition.bootstrap import create_initial_resources
from recapito.composition.clock import make_clock
from recapito.composition.cluster_secret import make_client_of
from recapito.composition.intake import Intake, make_intake
from recapito.composition.observability import make_observers
from recapito.composition.stores import make_backend, make_keyring
from recapito.contracts.backend import Backend
from recapito.domain import limits
from recapito.domain.cluster.partition import Partition
from recapito.domain.cluster.view import ClusterView
from recapito.observability.journal import Journal
from recapito.observability.status import DispatchStatus
from recapito.process.http_server import HttpServer
from recapito.process.node_link import NodeLink
from recapito.process.role import HEARTBEAT_MISSED_NS, HEARTBEAT_NS, Loss, open_link, report_ready, run_role
from recapito.process.role_config import RoleConfig
from recapito.process.wakeup import Wakeup
from recapito.settings.settings import Settings
from recapito.system.hang_up import on_hang_up
from recapito.system.service import ServiceTask, run_services, stop_order

if TYPE_CHECKING:
    from recapito.api.router.calls import PartitionCalls
    from recapito.api.router.histories import NodeHistories


def run_intake() -> int:
    """Run the role as its parent configures it, and return the exit code."""
    return run_role("intake", _run)


async def _run(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    clock = make_clock(settings, config.origin)
    wakeup = Wakeup(socket.socket(fileno=config.wake), HEARTBEAT_MISSED_NS, limits.STATUS_BYTES)
    status, observers = DispatchStatus(), make_observers(settings, "intake", clock, journal)
    listener = socket.socket(fileno=config.listener)
    link, lost = open_link(settings, config), Loss()
    partition = Partition(config.partition, config.partitions)
    calls = None if link is None or partition.alone else _make_calls(settings, link, partition)
    histories = None if link is None else _make_histories(settings, link, partition)
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
            calls=calls,
            histories=histories,
        )
        wakeup.listen(intake.notifier.ring, status.update_from)
        await create_initial_resources(settings, intake.topics, stores.registry, partition)
        await follow_estate(intake, lambda: None, is_node=link is not None)
        client_of = None if link is None else make_client_of(settings)
        front = socket.socket(fileno=config.front) if config.front >= 0 else None
        services = intake_services(settings, intake, listener, wakeup.ring, front, client_of, partition.alone)
        services = [ServiceTask(lost.wait), *services]
        report = partial(report_ready, config, b"intake")
        await run_services(services, stop_order(), partial(when_applied, intake, report))
    if calls is not None:
        await calls.close()
    if histories is not None:
        await histories.close()
    await observers.close()
    lost.check()


def _make_calls(settings: Settings, link: NodeLink, partition: Partition) -> "PartitionCalls":
    """The way to the other partitions, with a client of HTTP that NATS has loaded already."""
    from recapito.composition.crossing import make_calls

    return make_calls(settings, lambda: link.view, partition)


def _make_histories(settings: Settings, link: NodeLink, partition: Partition) -> "NodeHistories":
    from recapito.composition.crossing import make_histories  # with a client of HTTP

    return make_histories(settings, lambda: link.view, partition)


def _view_of(link: NodeLink, backend: Backend) -> Callable[[], ClusterView]:
    """The parent's view of the cluster, with the doubts of this process."""
    from recapito.composition.cluster import with_doubts  # NATS takes a while to load

    return lambda: with_doubts(link.view, backend)


def intake_services(
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


async def follow_estate(intake: Intake, stop: Callable[[], None], is_node: bool = False) -> None:
    """Check the estate file, and apply it again on SIGHUP.

    A server of its own does not start with a file that is wrong. A node of a cluster owns all the same, and shows the
    fault: a takeover must not fail because of a file.
    """
    if intake.estate is not None:
        if not is_node:
            await intake.estate.check()
        on_hang_up(intake.estate.reload, stop)


def when_applied(intake: Intake, report: Callable[[], None]) -> None:
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


async def _beat(ring: Callable[[], None]) -> None:
    wall = SystemClock()
    while True:
        ring()
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)
