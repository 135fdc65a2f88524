"""Shared access signatures for Azurite."""

import datetime

from azure.storage.blob import (
    AccountSasPermissions,
    ResourceTypes,
    generate_account_sas,
)
from azure.storage.blob import Services as SasServices

from recapito.domain.connections.connection import AzureService, Connection
from recapito.domain.connections.parse_storage import (
    AZURITE_ACCOUNT,
    AZURITE_KEY,
    from_connection_string,
)
from tests.azurite.place import ACCOUNT
from tests.azurite.server import Azurite

HOUR = datetime.timedelta(hours=1)


def with_sas(azurite: Azurite, token: str) -> Connection:
    """A connection by a signature."""
    text = f"BlobEndpoint={azurite.url(AzureService.BLOB)};SharedAccessSignature={token}"
    return from_connection_string(ACCOUNT, text)


def account_sas(until: datetime.timedelta, **may: bool) -> str:
    """A signature of the account's key, for blobs."""
    now = datetime.datetime.now(datetime.UTC)
    return generate_account_sas(
        AZURITE_ACCOUNT,
        AZURITE_KEY,
        ResourceTypes(object=True),
        AccountSasPermissions(**may),
        now + until,
        start=now - 2 * HOUR,
        services=SasServices(blob=True),
    )
