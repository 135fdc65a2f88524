"""The dispatch role: it delivers, retries and writes dead letters.

It does not load the modules of intake: a restart waits for every module.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from recapito.clock import SECOND, SystemClock
from recapito.composition import identity as access
from recapito.composition.clock import make_clock
from recapito.composition.dispatch import Dispatch, make_dispatch
from recapito.composition.observability import make_observers
from recapito.composition.stores import make_backend, make_keyring
from recapito.dispatch.capacity import Slots
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain.capacity import share_of_requests
from recapito.domain.cluster.partition import Partition
from recapito.observability.journal import Journal
from recapito.observability.status import Status, to_bytes
from recapito.process.node_link import NodeLink
from recapito.process.role import HEARTBEAT_MISSED_NS, HEARTBEAT_NS, Loss, open_link, report_ready, run_role
from recapito.process.role_config import RoleConfig
from recapito.process.wakeup import Wakeup
from recapito.settings.settings import Settings
from recapito.system.service import ServiceTask, run_services, stop_order

DRAIN_NS = 5 * SECOND
HAND_OVER_NS = 1 * SECOND  # of a node: another waits to own


def run_dispatch() -> int:
    """Run the role as its parent configures it, and return the exit code."""
    return run_role("dispatch", _run)


async def _run(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    clock = make_clock(settings, config.origin)
    wakeup = Wakeup(socket.socket(fileno=config.wake), HEARTBEAT_MISSED_NS)
    observers = make_observers(settings, "dispatch", clock, journal)
    link, lost = open_link(settings, config), Loss()
    partition = Partition(config.partition, config.partitions)
    async with make_backend(settings, journal, lost.found, partition).open_dispatch(clock) as stores:
        keyring, identity = make_keyring(settings, stores.registry), access.prepare_identity(settings)
        permit = None if link is None else link.may_send
        dispatch = make_dispatch(
            settings, stores, keyring, clock, journal, identity, observers, wakeup.ring, permit, partition
        )
        wakeup.listen(dispatch.dispatcher.notify)
        if link is not None:
            link.listen(partial(heed_view, link, dispatch.slots, settings.delivery.requests))
        stop = asyncio.create_task(stop_order())

        def patience() -> int:
            ordered = stop.done() and not stop.cancelled() and stop.result()
            return (DRAIN_NS if link is None else HAND_OVER_NS) if ordered else 0

        def send_status(status: Status) -> bool:
            return wakeup.send(to_bytes(status))

        services = [
            ServiceTask(lost.wait),
            dispatcher_service(dispatch, patience),
            ServiceTask(partial(report_status, dispatch.reporter, send_status), vital=False),
            ServiceTask(lambda: dispatch.reporter.gauge.watch_loop(SystemClock()), vital=False),
        ]
        try:
            await run_services(services, stop, partial(report_ready, config, b"dispatch"))
        finally:
            await dispatch.close()
            await observers.close()
    lost.check()


def heed_view(link: NodeLink, slots: Slots, most: int) -> None:
    """Share the requests of the node with its other partitions, and let lanes try that could not send."""
    slots.allow(share_of_requests(most, link.view.owned))
    slots.wake_all()


def dispatcher_service(dispatch: Dispatch, patience: Callable[[], int]) -> ServiceTask:
    """The dispatcher. At its end, exchanges under way may settle for `patience` nanoseconds."""

    async def drain(task: "asyncio.Task[None]") -> None:
        if not task.done():
            await dispatch.service.drain(SystemClock().now() + patience())
        task.cancel()

    return ServiceTask(dispatch.service.run, drain)


async def report_status(reporter: StatusReporter, send: Callable[[Status], bool]) -> None:
    """Send the status of dispatch every second; it is a heartbeat too."""
    wall = SystemClock()
    while True:
        status = reporter.report()
        if send(status):
            reporter.sent(status)
        await wall.sleep_until(wall.now() + HEARTBEAT_NS)
