"""The composition root: settings in, the parts of a service out. It alone names concrete classes."""

import random
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from recapito.api.app import Surface, make_surface
from recapito.api.services import ClockControl, Services
from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.storage_clients import StorageClients
from recapito.clock import SECOND, Clock, ManualClock, Origin, SystemClock
from recapito.composition.identity import make_access, make_signer
from recapito.composition.observability import NO_OBSERVERS, Observers
from recapito.composition.outbound import (
    make_amqp_clients,
    make_handshakes,
    make_probes,
    make_sender,
    make_storage_clients,
    make_token_source,
    make_vault,
)
from recapito.composition.stores import Stores
from recapito.contracts.caller import Caller
from recapito.contracts.log import Log
from recapito.dispatch.capacity import Slots
from recapito.dispatch.clock_mover import ClockMover
from recapito.dispatch.context import DispatchContext
from recapito.dispatch.dead_letter_writer import DeadLetterWriter
from recapito.dispatch.dispatcher import Dispatcher
from recapito.dispatch.feed.segment_cache import SegmentCache
from recapito.dispatch.lane.late_answers import LateAnswers
from recapito.dispatch.status_reporter import StatusReporter
from recapito.domain import limits
from recapito.domain.capacity.rate import Rate
from recapito.domain.capacity.volume_shares import needed, share_out
from recapito.domain.instant import HOUR
from recapito.errors import StoreFailed
from recapito.identity.server_identity import Identity
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.dead_letters.search import DeadLetterSearch
from recapito.intake.explain.explainer import Explainer
from recapito.intake.maintenance.blob_notifier import BlobNotifier
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.intake.maintenance.janitor import Janitor
from recapito.intake.maintenance.retention import Keeping
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.throttle import Throttle
from recapito.intake.resources.connection_check import ConnectionChecker
from recapito.intake.resources.expiry import Expiry
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.provisioner import Provisioner
from recapito.observability.journal import Journal
from recapito.observability.status import DispatchStatus
from recapito.senders.http.resolver import Resolver
from recapito.senders.http.web_caller import WebCaller
from recapito.senders.routing import RoutingSender
from recapito.senders.tracing import TracingSender
from recapito.settings.settings import Settings


def make_clock(settings: Settings, origin: Origin) -> Clock:
    """The clock that the settings name; processes of one server share its origin."""
    return ManualClock(origin.wall) if settings.clock.manual else SystemClock(origin, settings.clock.rate)


@dataclass(frozen=True)
class Intake:
    """The intake role: the HTTP surface, group commit, the janitor, expiry, notices, handshakes unless they are off.

    `caller` is what they and a foreign issuer of tokens are asked by; `reach` leads to dead letters, and with `brokers`
    to what connections are tried on.
    """

    surface: Surface
    publisher: Publisher
    provisioner: Provisioner
    janitor: Janitor
    expiry: Expiry
    notifier: BlobNotifier
    handshakes: Handshakes | None
    caller: Caller
    storage_clients: StorageClients
    amqp_clients: AmqpClients


@dataclass(frozen=True)
class Dispatch:
    """The dispatch role: the lanes, who reports about them, the writer of dead letters, senders, the way to Azure.

    `late` are the exchanges that may still be answered.
    """

    dispatcher: Dispatcher
    reporter: StatusReporter
    writer: DeadLetterWriter
    sender: RoutingSender
    storage_clients: StorageClients
    amqp_clients: AmqpClients
    late: LateAnswers


def make_intake(
    settings: Settings,
    stores: Stores,
    clock: Clock,
    journal: Journal,
    on_append: Callable[[], None],
    dispatch_problem: Callable[[], str | None],
    clock_control: ClockControl | None = None,
    identity: Identity | None = None,
    heard: DispatchStatus | None = None,
    observers: Observers = NO_OBSERVERS,
) -> Intake:
    """Put the intake role together. `on_append` wakes dispatch; `dispatch_problem` says why it does not answer.

    `heard` is what dispatch says of itself.
    """
    disk = None
    if stores.space is not None:
        stop = settings.disk.stop_percent / 100, settings.disk.stop_mb * limits.MB
        disk = DiskWatch(stores.space, *stop, journal, stores.measure)
        disk.look()
    closed = disk.reason if disk else lambda: None
    patience = int(settings.publish.wait_s * SECOND)
    reserve = disk.reserve if disk else lambda size: None
    publisher = Publisher(stores.log, clock, on_append, closed, reserve, patience=patience)
    expiry = Expiry(stores.registry, clock, journal)
    notifier = BlobNotifier(
        stores.log, stores.registry, stores.ledger, clock, SystemClock(), closed, on_append, journal
    )
    if isinstance(clock_control, ClockMover):
        clock_control.wait_for(expiry.quiet)
        clock_control.wait_for(notifier.quiet)
    caller = WebCaller(settings.delivery.egress, settings.delivery.ca_file or None)
    signer = make_signer(settings, identity, clock)
    token_for = make_token_source(settings, signer)
    handshakes = make_handshakes(settings, caller, clock, journal, token_for)
    provisioner = Provisioner(
        stores.registry,
        clock,
        secrets.token_bytes,
        settings.delivery.profile,
        settings.delivery.egress,
        on_append,
        settings.quota,
        expiry.watch,
        handshakes=handshakes,
        signs_tokens=token_for is not None,
        find_connection=stores.keyring.find,
    )

    async def readiness() -> Mapping[str, str | None]:
        damage = stores.damage() or None
        return {
            "store": await _store_problem(stores.log) or damage,
            "disk": None if damage else closed(),
            "dispatch": dispatch_problem() or (heard.problem() if heard else None),
        }

    resolver = Resolver()
    storage_clients, amqp_clients = (
        make_storage_clients(settings, stores.keyring, resolver),
        make_amqp_clients(settings, stores.keyring, resolver),
    )
    examiner = ConnectionChecker(
        stores.registry, stores.keyring.find, make_probes(storage_clients, amqp_clients, caller), SystemClock()
    )
    redriver = Redriver(
        stores.log,
        DeadLetterSearch(stores.registry, make_vault(settings, storage_clients)),
        clock,
        SystemClock(),
        partial(publisher.check_open, needed(2 * limits.SEGMENT_BYTES, 1)),
        on_append,
        lambda: str(uuid.uuid4()),
        journal,
    )
    damages = DamageReport(stores.registry, stores.ledger)
    rate = Rate(settings.publish.events_per_second, settings.publish.bytes_per_second)
    services = Services(
        publisher=publisher,
        provisioner=provisioner,
        log=stores.log,
        registry=stores.registry,
        ledger=stores.ledger,
        redriver=redriver,
        history=stores.history,
        explainer=Explainer(
            stores.log, stores.registry, stores.ledger, stores.history, clock, settings.delivery.profile, damages
        ),
        damages=damages,
        clock=clock,
        public_url=settings.public_url,
        readiness=readiness,
        clock_mode=settings.clock.mode,
        clock_control=clock_control,
        journal=journal,
        access=make_access(settings, identity, signer, caller, clock, journal),
        throttle=Throttle(rate, clock, publisher.stats),
        keyring=stores.keyring,
        dispatch=heard or DispatchStatus(),
        wrong_secrets=WrongSecrets(SystemClock(), journal),
        tracer=observers.tracer,
        diagnostics=observers.diagnostics,
        examiner=examiner,
    )
    kept = settings.history
    most = limits.MB * kept.keep_events_mb
    if stores.space is not None:
        most = min(most, share_out(stores.space().total).history)
    keeping = Keeping(most if kept.enabled else 0, kept.keep_hours * HOUR)
    janitor = Janitor(
        stores.log, stores.registry, stores.ledger, SystemClock(), stores.trimming, disk, journal, keeping
    )
    janitor.subscribed = publisher.tallies.look
    return Intake(
        make_surface(services),
        publisher,
        provisioner,
        janitor,
        expiry,
        notifier,
        handshakes,
        caller,
        storage_clients,
        amqp_clients,
    )


async def _store_problem(log: Log) -> str | None:
    try:
        await log.end(0)
    except StoreFailed as error:
        return str(error)
    return None


def make_dispatch(
    settings: Settings,
    stores: Stores,
    clock: Clock,
    journal: Journal,
    identity: Identity | None = None,
    observers: Observers = NO_OBSERVERS,
    on_notice: Callable[[], None] = lambda: None,
) -> Dispatch:
    """Put the dispatch role together. `on_notice` wakes intake."""
    signer = make_signer(settings, identity, clock)
    resolver = Resolver()
    storage_clients = make_storage_clients(settings, stores.keyring, resolver)
    amqp_clients = make_amqp_clients(settings, stores.keyring, resolver)
    sender = make_sender(settings, stores.keyring, storage_clients, amqp_clients, resolver, clock, signer)
    tracer = observers.tracer
    context = DispatchContext(
        log_id=stores.log.id,
        clock=clock,
        sender=sender if tracer is None else TracingSender(sender, tracer),
        segments=SegmentCache(stores.log),
        slots=Slots(),
        late=LateAnswers(),
        random=random.random if settings.delivery.jitter else lambda: 0.0,
        journal=journal,
        extra_fields=settings.dead_letter.extra_fields,
        history=stores.recording,
        diagnostics=observers.diagnostics,
        room=stores.room,
    )
    dispatcher = Dispatcher(
        stores.log, stores.registry, stores.ledger, context, SystemClock(), settings.delivery.profile
    )
    writer = DeadLetterWriter(
        stores.ledger,
        stores.registry,
        make_vault(settings, storage_clients),
        clock,
        dispatcher.owner_of,
        lambda: str(uuid.uuid4()),
        journal,
        settings.dead_letter.keep_for_ever,
        on_notice,
    )
    return Dispatch(
        dispatcher, StatusReporter(dispatcher, context), writer, sender, storage_clients, amqp_clients, context.late
    )


def make_clock_control(settings: Settings, clock: Clock, dispatch: Dispatch, stores: Stores) -> ClockControl | None:
    """What moves the clock, if it is manual."""
    if not isinstance(clock, ManualClock):
        return None
    patience = int(settings.clock.patience_s * SECOND)
    return ClockMover(clock, SystemClock(), dispatch.dispatcher, stores.ledger, patience, dispatch.late)
