"""The services that the routes use, handed in by the composition root."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from recapito.api.auth.access import ONLY_LOOPBACK, Access
from recapito.clock import Clock, SystemClock
from recapito.connections.keyring import Keyring
from recapito.contracts.history import HistoryReader
from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain.cluster.view import ClusterView
from recapito.identity.wrong_secrets import WrongSecrets
from recapito.intake.dead_letters.redrive import Redriver
from recapito.intake.explain.explainer import Explainer
from recapito.intake.maintenance.damage_report import DamageReport
from recapito.intake.publish.publisher import Publisher
from recapito.intake.publish.replayer import Replayer
from recapito.intake.publish.throttle import Throttle
from recapito.intake.resources.connection_check import ConnectionChecker
from recapito.intake.resources.subscription_options import SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Topics
from recapito.observability.diagnostics import DiagnosticLog
from recapito.observability.journal import Journal, silent
from recapito.observability.status import DispatchStatus
from recapito.observability.tracing import Tracer

if TYPE_CHECKING:
    from recapito.api.estate.manager import EstateManager
    from recapito.api.estate.spread import Spread
    from recapito.api.operate.partition_calls import PartitionServices


class ClockControl(Protocol):
    """Moves a manual clock; each verb returns, with a report, when everything that came due has settled."""

    async def advance(self, seconds: float) -> Mapping[str, object]:
        """Move on by N seconds, from due time to due time; 0 settles what is due now."""

    async def until_idle(self) -> Mapping[str, object]:
        """Move from due time to due time until nothing is pending."""

    async def sleep(self, seconds: float) -> None:
        """Return when other callers have moved the clock by N seconds."""


@dataclass(frozen=True)
class Services:
    """Everything that routes need of the other layers.

    readiness: returns each check with the reason why it fails, or None; damage alone fails none.
    public_url: the URL by which clients reach this server, without a slash at the end.
    clock_mode: the setting of the clock.
    data: the absolute path of the data directory; None if everything is in memory.
    development: whether the server is in development mode.
    opens_system_topics: publishers may send events to system topics.
    dispatch: the last status of the other role.
    cluster: the cluster as this node knows it; None on a server of its own.
    estate: applies documents; without it there are no estates and no deployments.
    partition_services: the parts that other partitions call; None if there are none.
    spread: applies documents in all partitions of a cluster of several, of which this server is one.
    warnings: returns each part that a person should look at with the reason, or None; the server is ready nevertheless.
    """

    publisher: Publisher
    topics: Topics
    subscriptions: Subscriptions
    options: SubscriptionOptions
    log: Log
    registry: Registry
    ledger: Ledger
    redriver: Redriver
    replayer: Replayer
    history: HistoryReader
    explainer: Explainer
    damages: DamageReport
    clock: Clock
    public_url: str
    readiness: Callable[[], Awaitable[Mapping[str, str | None]]]
    clock_mode: str = "system"
    data: str | None = None
    development: bool = False
    opens_system_topics: bool = False
    clock_control: ClockControl | None = None
    journal: Journal = silent
    access: Access = ONLY_LOOPBACK
    throttle: Throttle | None = None
    tracer: Tracer | None = None
    diagnostics: DiagnosticLog | None = None
    dispatch: DispatchStatus = field(default_factory=DispatchStatus)
    wrong_secrets: WrongSecrets = field(default_factory=lambda: WrongSecrets(SystemClock()))
    keyring: Keyring | None = None
    examiner: ConnectionChecker | None = None
    cluster: Callable[[], ClusterView] | None = None
    estate: "EstateManager | None" = None
    partition_services: "PartitionServices | None" = None
    spread: "Spread | None" = None
    warnings: Callable[[], Mapping[str, str | None]] = dict
