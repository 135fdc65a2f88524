"""Puts the dispatch role together on any stores: the one place to edit when a constructor changes."""

from collections.abc import Callable
from itertools import count
from typing import Any

from recapito.clock import Clock
from recapito.contracts.vault import Vault
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.open_lanes import OpenLanes
from recapito.dispatch.service import DispatchService
from recapito.dispatch.signals import Signal
from recapito.domain import limits

PROFILE = "2021-03"


def make_dispatch(
    log: Any,
    ledger: Any,
    vault: Vault,
    context: DispatchContext,
    housekeeping: Clock,
    profile: str = PROFILE,
    dispatcher: type[Dispatcher] = Dispatcher,
    new_guid: Callable[[], str] | None = None,
    keep_for_ever: bool = False,
    on_notice: Callable[[], None] = lambda: None,
    group_events: int = limits.DEAD_LETTER_GROUP_EVENTS,
) -> DispatchService:
    """`log` is the registry too. Guids are counted where none are given."""
    numbers = count()
    lanes, burials = OpenLanes(profile), Signal()
    writer = DeadLetterWriter(
        ledger,
        log,
        vault,
        context.clock,
        lanes.owner_of,
        burials,
        housekeeping,
        new_guid or (lambda: f"guid-{next(numbers)}"),
        context.journal,
        keep_for_ever,
        on_notice,
        group_events,
    )
    return DispatchService(dispatcher(log, log, ledger, context, lanes, burials, housekeeping), writer, housekeeping)
