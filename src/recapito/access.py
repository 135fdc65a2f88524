"""The composition of access: settings in; who is believed, and the certificate that is served, out."""

from ssl import SSLContext

from recapito.api.issuer import TokenIssuer
from recapito.api.jwks import RemoteKeys, trust_remote
from recapito.api.services import Access
from recapito.api.token import TokenVerifier, Trust
from recapito.caller import Caller, ask_in_time
from recapito.clock import Clock, SystemClock
from recapito.domain import limits
from recapito.domain.access import Plane, Role, roles_named
from recapito.domain.call import Reply, Request
from recapito.domain.directory import Directory, Registered, hash_secret
from recapito.domain.instant import utc
from recapito.keys import certificate
from recapito.keys import identity as identities
from recapito.keys.identity import Identity
from recapito.keys.signer import Signer
from recapito.settings import Settings
from recapito.telemetry import Journal

AZURE_MANAGEMENT = ("https://management.azure.com/", "https://management.core.windows.net/")
AZURE_DATA = "https://eventgrid.azure.net"


def make_access(
    settings: Settings, identity: Identity | None, signer: Signer | None, caller: Caller, clock: Clock, journal: Journal
) -> Access:
    """Who is believed: the principals of our own issuer, or those of another."""
    if identity is None or signer is None:
        tokens = TokenVerifier(_trust_another(settings, caller, journal), clock.now)
        return Access(tokens, None, settings.identity.issuer, settings.on_loopback)
    issuer = _make_issuer(settings, identity, signer)
    tokens = TokenVerifier(issuer.trust(), clock.now)
    return Access(tokens, issuer, f"{issuer.url}/{issuer.tenant}", settings.on_loopback)


def prepare_identity(settings: Settings) -> Identity | None:
    """What our own token issuer is made of; None if the settings name another issuer."""
    if settings.identity.issuer:
        return None
    directory = None if settings.server.store == "memory" else settings.data / "identity"
    return identities.prepare(directory, settings.identity.tenant, for_development=settings.on_loopback)


def make_signer(settings: Settings, identity: Identity | None, clock: Clock) -> Signer | None:
    """What signs tokens, if we have an issuer of our own."""
    if identity is None:
        return None
    # Clients count the hour of a token by their own clocks: where ours is not real time, it must not end before.
    real = settings.clock.mode == "system"
    lifetime = limits.BEARER_LIFE_NS if real else limits.BEARER_LIFE_UNREAL_NS
    return Signer(identity.key, settings.public_url, identity.tenant, clock.now, lifetime)


def _make_issuer(settings: Settings, identity: Identity, signer: Signer) -> TokenIssuer:
    principals = [
        Registered(one.client_id, one.secret_sha256 or hash_secret(one.secret), roles_named(list(one.roles)))
        for one in settings.identity.principals
    ]
    if identity.development is not None:
        made = identity.development
        principals.append(Registered(made.client_id, hash_secret(made.client_secret), frozenset(Role)))
    audiences = {
        Plane.MANAGEMENT: frozenset({*AZURE_MANAGEMENT, *settings.own_urls}),
        Plane.DATA: frozenset({AZURE_DATA}),
    }
    return TokenIssuer(signer, Directory(principals), audiences)


def _trust_another(settings: Settings, caller: Caller, journal: Journal) -> Trust | None:
    """How the tokens of the issuer are verified that the settings name, if they name one."""
    chosen, wall = settings.identity, SystemClock()
    if not chosen.issuer:
        return None

    async def fetch(url: str) -> bytes | None:
        answer = await ask_in_time(caller, Request("GET", url), wall, limits.ISSUER_WAIT_NS)
        return answer.body if isinstance(answer, Reply) and answer.status == 200 else None

    keys = RemoteKeys(chosen.issuer, fetch, wall, journal)
    return trust_remote(keys, chosen.issuer, chosen.audience, chosen.role_claim, chosen.role_names)


def prepare_tls(settings: Settings) -> None:
    """Make the server's certificate if it needs one of ours, and refuse files that are no good."""
    if settings.tls.on and not settings.tls.cert:
        now = utc(SystemClock().now())
        certificate.prepare(settings.data / "tls", settings.certificate_names, now)
    make_tls(settings)


def make_tls(settings: Settings) -> SSLContext | None:
    """What the server needs to speak TLS, if it does."""
    if not settings.tls.on:
        return None
    return certificate.load_context(*settings.certificate_files)
