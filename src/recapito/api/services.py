"""The services that the routes use, handed in by the composition root."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recapito.api.auth.issuer import TokenIssuer
from recapito.api.auth.tokens import NO_TOKENS, TokenVerifier
from recapito.clock import Clock, SystemClock
from recapito.connections.keyring import Keyring
from recapito.contracts.history import HistoryReader
from recapito.contracts.ledger import Ledger
from recapito.contracts.log import Log
from recapito.contracts.registry import Registry
from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks
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


class ClockControl(Protocol):
    """Moves a manual clock; each verb returns, with a report, when everything that came due has settled."""

    async def advance(self, seconds: float) -> Mapping[str, object]:
        """Move on by N seconds, from due time to due time; 0 settles what is due now."""

    async def until_idle(self) -> Mapping[str, object]:
        """Move from due time to due time until nothing is pending."""

    async def sleep(self, seconds: float) -> None:
        """Return when other callers have moved the clock by N seconds."""


class Access(NamedTuple):
    """The credentials that are accepted.

    tokens: verifies bearer tokens.
    issuer: our own token issuer, if there is one.
    authority: the URL that issues tokens.
    open_to_loopback: callers on this machine manage without a token.
    near: the networks whose callers do so too, in development mode.
    scrape_token: reads metrics and details of readiness, and nothing else.
    status_authenticated: metrics and details of readiness need a token.
    """

    tokens: TokenVerifier = NO_TOKENS
    issuer: TokenIssuer | None = None
    authority: str = ""
    open_to_loopback: bool = True
    scrape_token: str = ""
    status_authenticated: bool = True
    near: NearNetworks = LOOPBACK_ONLY

    def __repr__(self) -> str:
        return f"<Access by {self.authority}>"


ONLY_LOOPBACK = Access()


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
    estate: applies documents; without it there are no estates and no deployments.
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
    estate: "EstateManager | None" = None
    warnings: Callable[[], Mapping[str, str | None]] = dict
