"""What the routes need, handed in by the composition root."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from recapito.api.issuer import TokenIssuer
from recapito.api.token import NO_TOKENS, TokenVerifier
from recapito.clock import Clock, SystemClock
from recapito.diagnostics import DiagnosticLog
from recapito.guessing import WrongSecrets
from recapito.history import HistoryReader
from recapito.intake.damages import Damages
from recapito.intake.examiner import Examiner
from recapito.intake.explainer import Explainer
from recapito.intake.provisioner import Provisioner
from recapito.intake.publisher import Publisher
from recapito.intake.redrive import Redriver
from recapito.intake.throttle import Throttle
from recapito.keys.keyring import Keyring
from recapito.status import Heard
from recapito.store import Ledger, Log, Registry
from recapito.telemetry import Journal, silent
from recapito.tracing import Tracer


class ClockControl(Protocol):
    """Moves a manual clock; each verb returns when everything that came due has settled, and says what happened."""

    async def advance(self, seconds: float) -> Mapping[str, object]:
        """Move on by so many seconds, from due time to due time; 0 settles what is due now."""

    async def until_idle(self) -> Mapping[str, object]:
        """Move from due time to due time until nothing is pending."""

    async def sleep(self, seconds: float) -> None:
        """Return when others have moved the clock so far."""


class Access(NamedTuple):
    """Who is believed. `issuer` is our own, if there is one; `authority` is where tokens are got.

    `open_to_loopback` lets callers on this machine manage without a token. `scrape_token` reads metrics and details of
    readiness and nothing else; without `status_authenticated` anybody reads them.
    """

    tokens: TokenVerifier = NO_TOKENS
    issuer: TokenIssuer | None = None
    authority: str = ""
    open_to_loopback: bool = True
    scrape_token: str = ""
    status_authenticated: bool = True

    def __repr__(self) -> str:
        return f"<Access by {self.authority}>"


ONLY_LOOPBACK = Access()


@dataclass(frozen=True)
class Services:
    """`readiness` names what must work, each with the reason why it does not, or None; damage alone stops nothing.

    `public_url` is how clients reach this server, without a slash at the end; `clock_mode` is the setting of the clock.
    `dispatch` is what is known of the other role.
    """

    publisher: Publisher
    provisioner: Provisioner
    log: Log
    registry: Registry
    ledger: Ledger
    redriver: Redriver
    history: HistoryReader
    explainer: Explainer
    damages: Damages
    clock: Clock
    public_url: str
    readiness: Callable[[], Awaitable[Mapping[str, str | None]]]
    clock_mode: str = "system"
    clock_control: ClockControl | None = None
    journal: Journal = silent
    access: Access = ONLY_LOOPBACK
    throttle: Throttle | None = None
    tracer: Tracer | None = None
    diagnostics: DiagnosticLog | None = None
    dispatch: Heard = field(default_factory=Heard)
    wrong_secrets: WrongSecrets = field(default_factory=lambda: WrongSecrets(SystemClock()))
    keyring: Keyring | None = None
    examiner: Examiner | None = None
