"""What Microsoft's messaging clients sign in with, from what a connection holds."""

import logging
from typing import assert_never

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.credentials_async import AsyncTokenCredential

from recapito.domain.connections.connection import (
    AccountKey,
    Connection,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    SharedAccess,
)

for _library in ("azure.servicebus", "azure.eventhub"):  # what they have to say comes back as an Outcome
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)

Signing = AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential


def sign_in(connection: Connection, own: AsyncTokenCredential | None) -> Signing:
    """The library's credential; `own` is the server's identity, for a connection that goes by it."""
    match connection.credential:
        case PolicyKey(policy, key):
            return AzureNamedKeyCredential(policy, key)
        case SharedAccess(token):
            return AzureSasCredential(f"SharedAccessSignature {token}")
        case DefaultCredential():
            assert own is not None
            return own
        case AccountKey() | FunctionKey():
            raise TypeError("not a credential of a messaging namespace")
    assert_never(connection.credential)
