"""The identity of a server, by its settings: the issuers that it trusts, and the certificate that it serves."""

import secrets
from contextlib import suppress
from pathlib import Path
from ssl import SSLContext, create_default_context

from recapito.api.auth.access import Access
from recapito.api.auth.issuer import TokenIssuer
from recapito.api.auth.jwks import RemoteKeys, trust_remote
from recapito.api.auth.tokens import NO_TOKENS, IssuerTrust, TokenVerifier
from recapito.clock import Clock, SystemClock
from recapito.contracts.caller import Caller, ask_in_time
from recapito.domain import limits
from recapito.domain.access.near_networks import LOOPBACK_ONLY, NearNetworks
from recapito.domain.access.roles import Plane, PrincipalDirectory, RegisteredPrincipal, Role, hash_secret, roles_named
from recapito.domain.handshake.http_call import HttpReply, HttpRequest
from recapito.domain.instant import utc
from recapito.errors import SettingsError
from recapito.identity import certificate
from recapito.identity import server_identity as identities
from recapito.identity.server_identity import ServerIdentity
from recapito.identity.signer import Signer
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings
from recapito.system.routes import connected_networks
from recapito.system.secret_file import PUBLIC, keep, write

AZURE_MANAGEMENT = ("https://management.azure.com/", "https://management.core.windows.net/")
AZURE_DATA = "https://eventgrid.azure.net"
_SERVED = Path("tls", "url")
_TOKEN_BYTES = 32
_LEAST_TOKEN_CHARS = 16


def make_access(
    settings: Settings,
    identity: ServerIdentity | None,
    signer: Signer | None,
    caller: Caller,
    clock: Clock,
    journal: Journal,
) -> Access:
    """The tokens that are accepted: those of our own issuer, or of another."""
    if identity is None or signer is None:
        tokens = TokenVerifier(_trust_another(settings, caller, journal), clock.now)
        return Access(tokens, None, settings.identity.issuer, *_opening(settings))
    issuer = _make_issuer(settings, identity, signer)
    tokens = TokenVerifier(issuer.trust(), clock.now)
    return Access(tokens, issuer, f"{issuer.url}/{issuer.tenant}", *_opening(settings))


def near_networks(settings: Settings) -> NearNetworks:
    """The networks whose callers need no login: in development mode those that this machine is connected to."""
    return connected_networks() if settings.server.development else LOOPBACK_ONLY


def _opening(settings: Settings) -> tuple[bool, str, bool, NearNetworks]:
    """Who gets in without a token of a principal, as `Access` has it."""
    return settings.on_loopback or settings.server.development, *_status(settings), near_networks(settings)


def make_status_access(settings: Settings) -> Access:
    """The access to metrics and details of readiness alone, for a process that knows no principals."""
    return Access(NO_TOKENS, None, "", *_opening(settings))


def scrape_token_file(settings: Settings) -> Path:
    return settings.data / "identity" / "scrape-token"


def _status(settings: Settings) -> tuple[str, bool]:
    """The scrape token, made once, and whether it is required.

    A server in memory has none, for it has no file to read it from.
    """
    if not settings.metrics.authenticate or settings.in_memory:
        return "", settings.metrics.authenticate
    path = scrape_token_file(settings)
    token = keep(path, lambda: f"{secrets.token_urlsafe(_TOKEN_BYTES)}\n".encode()).decode("latin-1").strip()
    if len(token) < _LEAST_TOKEN_CHARS:
        raise SettingsError(f"{path} holds no scrape token; remove the file, and a new one is made")
    return token, True


def prepare_identity(settings: Settings) -> ServerIdentity | None:
    """The parts of our own token issuer; None if the settings name another issuer."""
    if settings.identity.issuer:
        return None
    directory = None if settings.in_memory else settings.data / "identity"
    return identities.prepare(
        directory, settings.identity.tenant, for_development=settings.on_loopback or settings.server.development
    )


def make_signer(settings: Settings, identity: ServerIdentity | None, clock: Clock) -> Signer | None:
    """The signer of tokens; None without an issuer of our own."""
    if identity is None:
        return None
    # Clients count the hour of a token by real time: if our clock is faster, the token must not end before.
    real = settings.clock.mode == "system"
    lifetime = limits.BEARER_LIFE_NS if real else limits.BEARER_LIFE_UNREAL_NS
    return Signer(identity.key, settings.public_url, identity.tenant, clock.now, lifetime)


def _make_issuer(settings: Settings, identity: ServerIdentity, signer: Signer) -> TokenIssuer:
    principals = [
        RegisteredPrincipal(
            principal.client_id,
            principal.secret_sha256 or hash_secret(principal.secret),
            roles_named(list(principal.roles)),
        )
        for principal in settings.identity.principals
    ]
    if identity.development is not None:
        development = identity.development
        secret = hash_secret(development.client_secret)
        principals.append(RegisteredPrincipal(development.client_id, secret, frozenset(Role)))
    audiences = {
        Plane.MANAGEMENT: frozenset({*AZURE_MANAGEMENT, *settings.own_urls}),
        Plane.DATA: frozenset({AZURE_DATA}),
    }
    return TokenIssuer(signer, PrincipalDirectory(principals), audiences)


def _trust_another(settings: Settings, caller: Caller, journal: Journal) -> IssuerTrust | None:
    """The verification of tokens of the issuer that the settings name; None if they name none."""
    chosen, wall = settings.identity, SystemClock()
    if not chosen.issuer:
        return None

    async def fetch(url: str) -> bytes | None:
        answer = await ask_in_time(caller, HttpRequest("GET", url), wall, limits.ISSUER_WAIT_NS)
        return answer.body if isinstance(answer, HttpReply) and answer.status == 200 else None

    keys = RemoteKeys(chosen.issuer, fetch, wall, journal)
    return trust_remote(keys, chosen.issuer, chosen.audience, chosen.role_claim, chosen.role_names)


def prepare_tls(settings: Settings) -> None:
    """Make the server's certificate, unless the settings name one, and refuse files that cannot be used."""
    if settings.tls.on and not settings.tls.cert:
        now = utc(SystemClock().now())
        certificate.prepare(settings.data / "tls", settings.certificate_names, now)
    make_tls(settings)


def leave_url(settings: Settings) -> None:
    """Write the URL at which a certificate of ours is served, for `recapito tls`; serve even if that fails."""
    if settings.tls.on and not settings.tls.cert and served_url(settings) != settings.public_url:
        with suppress(SettingsError):
            write(settings.data / _SERVED, settings.public_url.encode(), PUBLIC)


def served_url(settings: Settings) -> str | None:
    """The URL at which the server of this data directory serves over TLS, or did last; None if it never did."""
    try:
        return (settings.data / _SERVED).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def make_node_tls(settings: Settings) -> SSLContext | None:
    """The TLS context with which a node calls another; None without TLS. The nodes share one authority of their own."""
    if not settings.node_url.startswith("https:"):
        return None
    context = create_default_context()
    authority = certificate.files_in(settings.data / "tls").authority
    if authority.exists():
        context.load_verify_locations(authority)
    return context


def make_tls(settings: Settings) -> SSLContext | None:
    """The TLS context of the server; None without TLS."""
    if not settings.tls.on:
        return None
    return certificate.load_context(*settings.certificate_files)
