"""Which certificate the portal believes its server: the very one that the settings say is served, and no other."""

import ssl

from recapito.settings.settings import Settings


def trust_server(settings: Settings) -> ssl.SSLContext | None:
    """How the portal checks its server, if that speaks TLS; whoever issued the certificate, and for whatever name."""
    if not settings.tls.on:
        return None
    context = ssl.create_default_context(cafile=str(settings.certificate_files[0]))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
