"""The intake role, put together from the settings and the open stores."""

import asyncio
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from recapito.api.app import Surface, make_surface
from recapito.api.blob_front.front import BlobFront
from recapito.api.estate.estate_file import EstateFile
from recapito.api.estate.manager import EstateManager
from recapito.api.estate.spread import Spread
from recapito.api.operate.partition_calls import PartitionServices
from recapito.api.services import ClockControl, Services
from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.storage_clients import StorageClients
from recapito.clock import SECOND, Clock, SystemClock
from recapito.composition.blob_front import make_blob_front
from recapito.composition.estate import make_estate, make_estate_file
from recapito.composition.identity import make_access, make_signer
from recapito.composition.observability import NO_OBSERVERS, Observers
from recapito.composition.outbound import (
    make_azure_access,
    make_connection_finder,
    make_handshakes,
    make_probes,
    make_token_source,
    make_vault,
)
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.contracts.caller import Caller
from recapito.contracts.history import HistoryBounds, HistoryReader
from recapito.contracts.log import Log
from recapito.domain import limits
from recapito.domain.capacity import Rate, needed, share_out
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.cluster.view import UNSYNCED, ClusterView
from recapito.domain.instant import HOUR
from recapito.errors import StoreFailed
from recapito.identity.server_identity import ServerIdentity
from recapito.identity.signer import Signer
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.dead_letters.search import DeadLetterSearch
from recapito.intake.explain.explainer import Explainer
from recapito.intake.explain.merged_history import MergedHistory
from recapito.intake.maintenance.blob_notifier import BlobNotifier, NoticeLoop
from recapito.intake.maintenance.crossing_notifier import CrossingNotifier
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.intake.maintenance.janitor import Janitor
from recapito.intake.maintenance.notice_publisher import NoticePublisher
from recapito.intake.maintenance.notice_taker import NoticeTaker
from recapito.intake.maintenance.retention import RetentionBounds
from recapito.intake.publish.disk_watch import DiskWatch
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.replayer import Replayer
from recapito.intake.publish.throttle import Throttle
from recapito.intake.resources.connection_check import ConnectionChecker
from recapito.intake.resources.expiry import Expiry
from recapito.intake.resources.handshakes import Handshakes
from recapito.intake.resources.sources import Sources
from recapito.intake.resources.subscription_options import SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Changes, Topics
from recapito.observability.journal import Journal
from recapito.observability.status import DispatchStatus
from recapito.senders.http.resolver import Resolver
from recapito.senders.http.web_caller import WebCaller
from recapito.settings.settings import Settings
from recapito.stores.memory import MemoryHistory

if TYPE_CHECKING:
    from recapito.api.router.calls import PartitionCalls  # with a client of HTTP, which few servers have
    from recapito.api.router.forward import Forwarder
    from recapito.api.router.histories import NodeHistories

NO_HISTORY = MemoryHistory(HistoryBounds(0, 0), lambda: 0, capacity=0)
Problem = Callable[[], str | None]


@dataclass(frozen=True)
class _Outbound:
    """The ways out of intake. `storage_clients` and `amqp_clients` reach dead letters and try connections.

    `caller` makes the requests of handshakes, which are None if they are off, and of a foreign token issuer.
    """

    caller: Caller
    handshakes: Handshakes | None
    signs_tokens: bool
    storage_clients: StorageClients
    amqp_clients: AmqpClients


@dataclass(frozen=True)
class Intake:
    """The parts of the intake role."""

    surface: Surface
    publisher: Publisher
    topics: Topics
    subscriptions: Subscriptions
    janitor: Janitor
    expiry: Expiry
    notifier: NoticeLoop
    outbound: _Outbound
    estate: EstateFile | None
    spread: Spread | None
    blob_front: BlobFront | None

    async def close(self) -> None:
        """End everything that waits for another server."""
        await self.outbound.caller.close()
        await self.outbound.storage_clients.close()
        await self.outbound.amqp_clients.close()
        if self.outbound.handshakes is not None:
            await self.outbound.handshakes.close()
        if self.spread is not None:
            await self.spread.close()


def make_intake(
    settings: Settings,
    stores: Stores,
    keyring: Keyring,
    clock: Clock,
    journal: Journal,
    on_append: Callable[[], None],
    dispatch_problem: Problem,
    clock_control: ClockControl | None = None,
    identity: ServerIdentity | None = None,
    status: DispatchStatus | None = None,
    observers: Observers = NO_OBSERVERS,
    notices: asyncio.Event | None = None,
    cluster: Callable[[], ClusterView] | None = None,
    partition: Partition = WHOLE,
    calls: "PartitionCalls | None" = None,
    histories: "NodeHistories | None" = None,
) -> Intake:
    """Put the intake role together.

    on_append: called after each commit; it wakes dispatch.
    dispatch_problem: the reason why dispatch does not answer; None while it does.
    clock_control: moves a manual clock.
    identity: the server's own token issuer; None if tokens come from another one.
    status: the last status of dispatch.
    notices: set when dispatch has stored a notice; without it, `Intake.notifier.ring` is called.
    cluster: the cluster as this node knows it; None on a server of its own.
    partition: the partition of the cluster that this role serves.
    calls: the way to the other partitions; None if there are none.
    histories: the histories of the other nodes of a cluster.
    """
    disk = _make_disk_watch(settings, stores, journal)
    full: Problem = disk.reason if disk else lambda: None
    unsynced = partial(_unsynced, cluster)
    patience = int(settings.publish.wait_s * SECOND)
    reserve = disk.reserve if disk else lambda size: None
    publisher = Publisher(
        stores.log, clock, on_append, full, lambda size: unsynced() or reserve(size), patience=patience
    )
    expiry = Expiry(stores.registry, clock, journal)
    wall = SystemClock()
    told = NoticePublisher(stores.log, stores.registry, clock, lambda: unsynced() or full(), on_append, journal)
    notifier: NoticeLoop = BlobNotifier(told, stores.registry, stores.ledger, wall, journal, notices)
    called = None if calls is None else _make_partition_services(stores, told, wall, partition, calls)
    if calls is not None and called is not None:
        notifier = CrossingNotifier(
            stores.registry, stores.ledger, wall, journal, calls, called.taker, partition.number
        )
    signer = make_signer(settings, identity, clock)
    outbound = _make_outbound(settings, keyring, clock, journal, signer)
    changes, profile, quota = Changes(on_append), settings.delivery.profile, settings.quota
    topics = Topics(
        stores.registry,
        clock,
        secrets.token_bytes,
        changes,
        quota,
        profile,
        outbound.handshakes,
        partition,
        None if called is None else called.sources,
    )
    subscriptions = Subscriptions(
        stores.registry,
        clock,
        topics,
        changes,
        quota,
        settings.delivery.egress,
        expiry.watch,
        handshakes=outbound.handshakes,
        signs_tokens=outbound.signs_tokens,
        find_connection=make_connection_finder(keyring),
    )
    redriver = _make_redriver(settings, stores, clock, journal, publisher, outbound, on_append, partition)
    replayer = Replayer(
        stores.log,
        stores.registry,
        stores.ledger,
        clock,
        settings.history.replay,
        partial(publisher.check_open, needed(2 * limits.SEGMENT_BYTES, 1)),
        on_append,
        journal,
    )
    status = status or DispatchStatus()
    estate = make_estate(settings, topics, subscriptions, keyring, clock, journal, partition)
    spread = None if cluster is None or partition.alone else _make_spread(settings, estate, cluster)
    file = make_estate_file(settings, estate, journal)
    ready = partial(_readiness, stores, full, dispatch_problem, status, file, cluster)
    damages = DamageReport(stores.registry, stores.ledger, partition.first_id)
    services = _make_services(
        settings,
        stores,
        keyring,
        clock,
        journal,
        publisher,
        topics,
        subscriptions,
        redriver,
        replayer,
        damages,
        ready,
        _make_history(settings, stores, histories),
    )
    probes = make_probes(outbound.storage_clients, outbound.amqp_clients, outbound.caller)
    services = replace(
        services,
        clock_control=clock_control,
        access=make_access(settings, identity, signer, outbound.caller, clock, journal),
        dispatch=status,
        examiner=ConnectionChecker(stores.registry, keyring.find, probes, wall),
        tracer=observers.tracer,
        diagnostics=observers.diagnostics,
        cluster=cluster,
        estate=estate,
        partition_services=called,
        spread=spread,
        warnings=partial(_warnings, status, file, cluster),
    )
    janitor = _make_janitor(settings, stores, journal, disk, publisher)
    front = make_blob_front(settings, stores, keyring, publisher, clock, journal)
    surface = make_surface(services)
    return Intake(surface, publisher, topics, subscriptions, janitor, expiry, notifier, outbound, file, spread, front)


def _make_spread(settings: Settings, estate: EstateManager, cluster: Callable[[], ClusterView]) -> Spread:
    def open_forwarders() -> "list[Forwarder]":
        from recapito.composition.crossing import make_forwarders  # only one partition needs its HTTP client

        return make_forwarders(settings, cluster, estate.partition.of)

    return Spread(estate, open_forwarders)


def _make_partition_services(
    stores: Stores, publisher: NoticePublisher, wall: Clock, partition: Partition, calls: "PartitionCalls"
) -> PartitionServices:
    """The parts that other partitions call."""
    sources = Sources(stores.registry, wall, partition, calls)
    return PartitionServices(NoticeTaker(publisher, stores.registry), sources)


def _warnings(
    status: DispatchStatus, file: EstateFile | None, cluster: Callable[[], ClusterView] | None
) -> dict[str, str | None]:
    """The parts that a person should look at, though the server is ready."""
    found = {"estate": None if file is None else file.problem, "destinations": status.refused()}
    of_cluster = {} if cluster is None else {f"cluster {name}": why for name, why in cluster().warnings.items()}
    return {part: reason for part, reason in {**found, **of_cluster}.items() if reason}


def _unsynced(cluster: Callable[[], ClusterView] | None) -> str | None:
    """The reason why what is acknowledged might be lost: a NATS server does not sync it."""
    return None if cluster is None else cluster().problems.get(UNSYNCED)


def _make_disk_watch(settings: Settings, stores: Stores, journal: Journal) -> DiskWatch | None:
    """The watch over the volume of the stores, which has looked once; None if they have no volume."""
    if stores.space is None:
        return None
    stop = settings.disk.stop_percent / 100, settings.disk.stop_mb * limits.MB
    disk = DiskWatch(stores.space, *stop, journal, stores.measure)
    disk.look()
    return disk


def _make_outbound(
    settings: Settings, keyring: Keyring, clock: Clock, journal: Journal, signer: Signer | None
) -> _Outbound:
    caller = WebCaller(settings.delivery.egress, settings.delivery.ca_file or None)
    token_for = make_token_source(settings, signer)
    azure = make_azure_access(settings, keyring, Resolver())
    return _Outbound(
        caller,
        make_handshakes(settings, caller, clock, journal, token_for),
        token_for is not None,
        StorageClients(azure),
        AmqpClients(azure),
    )


def _make_redriver(
    settings: Settings,
    stores: Stores,
    clock: Clock,
    journal: Journal,
    publisher: Publisher,
    outbound: _Outbound,
    on_append: Callable[[], None],
    partition: Partition,
) -> Redriver:
    return Redriver(
        stores.log,
        DeadLetterSearch(stores.registry, make_vault(settings, outbound.storage_clients), not partition.alone),
        clock,
        SystemClock(),
        partial(publisher.check_open, needed(2 * limits.SEGMENT_BYTES, 1)),
        on_append,
        lambda: str(uuid.uuid4()),
        journal,
    )


def _make_history(settings: Settings, stores: Stores, histories: "NodeHistories | None") -> HistoryReader:
    """The attempts of this server, and on a cluster those of the other nodes."""
    own = stores.history or NO_HISTORY
    return own if histories is None or not settings.history.enabled else MergedHistory(own, histories)


def _make_services(
    settings: Settings,
    stores: Stores,
    keyring: Keyring,
    clock: Clock,
    journal: Journal,
    publisher: Publisher,
    topics: Topics,
    subscriptions: Subscriptions,
    redriver: Redriver,
    replayer: Replayer,
    damages: DamageReport,
    readiness: Callable[[], Awaitable[Mapping[str, str | None]]],
    history: HistoryReader,
) -> Services:
    """The services of the API, as far as they depend on settings and stores alone."""
    rate = Rate(settings.publish.events_per_second, settings.publish.bytes_per_second)
    return Services(
        publisher=publisher,
        topics=topics,
        subscriptions=subscriptions,
        options=SubscriptionOptions(subscriptions, clock, keyring.secret_box.encrypt, keyring.secret_box.decrypt),
        log=stores.log,
        registry=stores.registry,
        ledger=stores.ledger,
        redriver=redriver,
        replayer=replayer,
        history=history,
        explainer=Explainer(
            stores.log,
            stores.registry,
            stores.ledger,
            history,
            clock,
            settings.delivery.profile,
            damages,
            wall=None if settings.one_process or not settings.history.enabled else SystemClock(),
        ),
        damages=damages,
        clock=clock,
        public_url=settings.public_url,
        readiness=readiness,
        clock_mode=settings.clock.mode,
        development=settings.server.development,
        data=None if settings.in_memory else str(settings.data.resolve()),
        opens_system_topics=settings.publish.system_topics,
        journal=journal,
        throttle=Throttle(rate, clock, publisher.stats),
        keyring=keyring,
        wrong_secrets=WrongSecrets(SystemClock(), journal),
    )


def _make_janitor(
    settings: Settings, stores: Stores, journal: Journal, disk: DiskWatch | None, publisher: Publisher
) -> Janitor:
    history = settings.history
    size = limits.MB * history.keep_events_mb
    if stores.space is not None:
        size = min(size, share_out(stores.space().total).history)
    keeping = RetentionBounds(size if history.enabled else 0, history.keep_hours * HOUR)
    return Janitor(
        stores.log,
        stores.registry,
        stores.ledger,
        SystemClock(),
        stores.trimming,
        disk,
        journal,
        keeping,
        on_survey=publisher.counters.check_subscribed,
    )


async def _readiness(
    stores: Stores,
    closed: Problem,
    dispatch_problem: Problem,
    status: DispatchStatus,
    file: EstateFile | None,
    cluster: Callable[[], ClusterView] | None,
) -> Mapping[str, str | None]:
    damage = stores.damage() or None
    problems = {} if cluster is None else {"cluster": cluster().failure}
    reasons = {
        "store": await _store_problem(stores.log) or damage,
        "disk": None if damage else closed(),
        "dispatch": dispatch_problem() or status.problem(),
        **problems,
    }
    return reasons if file is None else {**reasons, "estate": file.waiting()}


async def _store_problem(log: Log) -> str | None:
    try:
        await log.end(0)
    except StoreFailed as error:
        return str(error)
    return None
