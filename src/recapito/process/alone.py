"""Both roles in one process: in that of the command line, or for a parent that is no supervisor, such as a test run."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

from recapito.clock import ClockOrigin
from recapito.composition import identity as access
from recapito.composition.bootstrap import create_initial_resources
from recapito.composition.clock import make_clock
from recapito.composition.dispatch import make_clock_control, make_dispatch
from recapito.composition.intake import make_intake
from recapito.composition.observability import make_observers
from recapito.composition.stores import make_backend, make_keyring
from recapito.identity.server_identity import ServerIdentity
from recapito.observability.journal import Journal, LineJournal
from recapito.observability.status import DispatchStatus
from recapito.process.dispatch_role import DRAIN_NS, dispatcher_service, report_status
from recapito.process.intake_role import follow_estate, intake_services, when_applied
from recapito.process.role import report_ready, run_role, tune_process
from recapito.process.role_config import RoleConfig
from recapito.settings.settings import Settings
from recapito.system.service import ServiceTask, run_services, stop_order


def run_alone() -> int:
    """Run both roles as their parent configures them, and return the exit code."""
    return run_role("alone", _run)


async def _run(settings: Settings, config: RoleConfig, journal: Journal) -> None:
    listener, stopping = socket.socket(fileno=config.listener), asyncio.Event()

    async def await_order() -> None:
        await stop_order()
        stopping.set()

    order = asyncio.create_task(await_order())
    on_ready = partial(report_ready, config, b"alone")
    await run_both(settings, access.prepare_identity(settings), config.origin, listener, stopping, on_ready)
    order.cancel()


async def run_both(
    settings: Settings,
    identity: ServerIdentity | None,
    origin: ClockOrigin,
    listener: socket.socket,
    stopping: asyncio.Event,
    on_ready: Callable[[], None],
    front: socket.socket | None = None,
) -> None:
    """Run both roles in this process until `stopping` is set."""
    tune_process()
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
            dispatcher_service(dispatch, lambda: DRAIN_NS),
            ServiceTask(partial(report_status, dispatch.reporter, status.update), vital=False),
            *intake_services(settings, intake, listener, dispatch.dispatcher.notify, front),
        ]
        try:
            await create_initial_resources(settings, intake.topics, stores.registry)
            await follow_estate(intake, stopping.set)
            await run_services(services, stopping.wait(), partial(when_applied, intake, on_ready))
        finally:
            await dispatch.close()
            await observers.close()
