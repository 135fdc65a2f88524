"""The secret of the cluster in the hands of a role: it knows the client of a forwarded request."""

import time
from collections.abc import Sequence

from recapito.api.server.protocol import ClientOf
from recapito.identity.cluster_secret import FORWARDED, ClusterSecret
from recapito.settings.settings import Settings


def read_secret(settings: Settings) -> ClusterSecret:
    return ClusterSecret.in_file(settings.cluster.secret_in(settings.data))


def make_client_of(settings: Settings) -> ClientOf:
    """The address of a forwarded request's client. A header that no node signed is passed over."""
    secret = read_secret(settings)

    def client_of(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        for name, value in headers:
            if name == FORWARDED:
                return secret.verify(value, int(time.time()))
        return None

    return client_of
