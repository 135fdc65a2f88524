"""The configuration and the address of the portal's process, for its parent, which does not load the portal."""

import msgspec

from recapito.domain.access.roles import is_loopback
from recapito.settings.settings import Settings


class PortalConfig(msgspec.Struct, frozen=True):
    """The line on the portal's standard input: the settings, and its listening socket."""

    settings: dict[str, object]
    listener: int


def with_portal(settings: Settings, port: int | None) -> Settings:
    """The same settings with the portal's real port; None is without a portal."""
    portal = msgspec.structs.replace(settings.portal, enabled=port is not None, port=port or 0)
    return msgspec.structs.replace(settings, portal=portal)


def portal_url(settings: Settings) -> str:
    """The portal's URL. Over TLS its host is a name, since some clients do not check addresses."""
    host = f"[{settings.portal.host}]" if ":" in settings.portal.host else settings.portal.host
    if (settings.tls.on and host == "127.0.0.1") or (settings.server.development and host in ("0.0.0.0", "[::]")):
        host = "localhost"
    return f"{'https' if settings.tls.on else 'http'}://{host}:{settings.portal.port}"


def server_url(settings: Settings) -> str:
    """The server's URL for the portal: on this machine, on whatever addresses it listens."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.server.host, settings.server.host)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"{'https' if settings.tls.on else 'http'}://{host}:{settings.server.port}"


def needs_login(settings: Settings) -> bool:
    """True unless both the portal and its server listen on loopback only, or the server is in development mode."""
    host = settings.portal.host
    if settings.server.development:
        return False
    return not (settings.on_loopback and (host == "localhost" or is_loopback(host)))
