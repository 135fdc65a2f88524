"""The dispatch role, put together from the settings and the open stores."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.storage_clients import StorageClients
from recapito.clock import SECOND, Clock, ManualClock, SystemClock
from recapito.composition.identity import make_signer
from recapito.composition.observability import NO_OBSERVERS, Observers
from recapito.composition.outbound import make_azure_access, make_sender, make_vault
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.dispatch.capacity import Slots
from recapito.dispatch.clock_mover import ClockMover
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.in_flight import LateAnswers
from recapito.dispatch.open_lanes import OpenLanes
from recapito.dispatch.service import DispatchService
from recapito.dispatch.signals import Signal
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain.capacity import share_of_requests
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.identity.server_identity import ServerIdentity
from recapito.observability.journal import Journal
from recapito.senders.http.resolver import Resolver
from recapito.senders.routing import RoutingSender
from recapito.senders.tracing import TracingSender
from recapito.settings.settings import Settings


@dataclass(frozen=True)
class Dispatch:
    """The parts of the dispatch role. `late` holds the exchanges that may still be answered, `slots` bounds others."""

    dispatcher: Dispatcher
    reporter: StatusReporter
    service: DispatchService
    sender: RoutingSender
    storage_clients: StorageClients
    amqp_clients: AmqpClients
    late: LateAnswers
    slots: Slots

    async def close(self) -> None:
        """Abort open exchanges and close all clients."""
        await self.sender.close()
        await self.storage_clients.close()
        await self.amqp_clients.close()


def make_dispatch(
    settings: Settings,
    stores: Stores,
    keyring: Keyring,
    clock: Clock,
    journal: Journal,
    identity: ServerIdentity | None = None,
    observers: Observers = NO_OBSERVERS,
    on_notice: Callable[[], None] = lambda: None,
    permit: Callable[[], bool] | None = None,
    partition: Partition = WHOLE,
) -> Dispatch:
    """Put the dispatch role together.

    identity: the server's own token issuer, which signs tokens for protected webhooks.
    on_notice: called when a notice is stored; it wakes intake.
    permit: whether this process may send now; None: always.
    partition: the partition of the cluster that this role serves.
    """
    signer = make_signer(settings, identity, clock)
    resolver = Resolver()
    azure = make_azure_access(settings, keyring, resolver)
    storage_clients, amqp_clients = StorageClients(azure), AmqpClients(azure)
    sender = make_sender(settings, keyring, storage_clients, amqp_clients, resolver, clock, signer)
    tracer = observers.tracer
    context = DispatchContext(
        log_id=stores.log.id,
        clock=clock,
        sender=sender if tracer is None else TracingSender(sender, tracer),
        segments=SegmentCache(stores.log),
        slots=Slots(share_of_requests(settings.delivery.requests, 1), permit=permit),
        late=LateAnswers(),
        random=random.random if settings.delivery.jitter else lambda: 0.0,
        journal=journal,
        extra_fields=settings.dead_letter.extra_fields,
        history=stores.recording,
        diagnostics=observers.diagnostics,
        room=stores.room,
        no_trimming=stores.no_trimming,
    )
    lanes, burials, housekeeping = OpenLanes(settings.delivery.profile), Signal(), SystemClock()
    dispatcher = Dispatcher(stores.log, stores.registry, stores.ledger, context, lanes, burials, housekeeping)
    writer = DeadLetterWriter(
        stores.ledger,
        stores.registry,
        make_vault(settings, storage_clients),
        clock,
        lanes.owner_of,
        burials,
        housekeeping,
        lambda: str(uuid.uuid4()),
        journal,
        settings.dead_letter.keep_for_ever,
        on_notice,
        alone=partition.alone,
    )
    reporter = StatusReporter(dispatcher, context)
    service = DispatchService(dispatcher, writer, housekeeping)
    return Dispatch(dispatcher, reporter, service, sender, storage_clients, amqp_clients, context.late, context.slots)


def make_clock_control(settings: Settings, clock: Clock, dispatch: Dispatch, stores: Stores) -> ClockMover | None:
    """The control of a manual clock; None if the clock runs by itself."""
    if not isinstance(clock, ManualClock):
        return None
    patience = int(settings.clock.patience_s * SECOND)
    return ClockMover(clock, SystemClock(), dispatch.service, stores.ledger, patience, dispatch.late)
