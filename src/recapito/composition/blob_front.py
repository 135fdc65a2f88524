"""The front of an Azurite, put together from the settings and the parts of intake."""

import ssl
from functools import partial

from recapito.api.blob_front.front import BlobFront
from recapito.api.blob_front.storage_service import StorageService
from recapito.clock import Clock, SystemClock
from recapito.composition.identity import make_tls
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.contracts.registry import Registry, system_topics
from recapito.domain.connections.connection import AccountKey
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.errors import CallerError, SettingsError
from recapito.intake.publish.publisher import Publisher
from recapito.intake.storage.blob_reporter import BlobReporter
from recapito.intake.storage.change_notes import ChangeNotes, DirectoryNotes, MemoryNotes
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings

NOTES = "blob-changes"


def make_blob_front(
    settings: Settings, stores: Stores, keyring: Keyring, publisher: Publisher, clock: Clock, journal: Journal
) -> BlobFront | None:
    """The front; None if the settings have none."""
    if not settings.azure.azurite_front:
        return None
    wall = SystemClock()
    trust = ssl.create_default_context(cafile=settings.delivery.ca_file or None)
    key_of = partial(_key_of, stores.registry, keyring)
    service = StorageService(settings.azure.azurite_url.rstrip("/"), key_of, wall, trust)
    notes: ChangeNotes = MemoryNotes() if settings.in_memory else DirectoryNotes(settings.data / NOTES, journal)
    reporter = BlobReporter(stores.log, stores.registry, publisher, clock, wall, keyring.find, service, notes, journal)
    return BlobFront(service, reporter, journal, make_tls(settings))


async def _key_of(registry: Registry, keyring: Keyring, account: str) -> str | None:
    """The key of a storage account by its name: Azurite's own, or that of a connection of a system topic's source."""
    if account == AZURITE_ACCOUNT:
        return AZURITE_KEY
    async for _, source in system_topics(registry):
        try:
            connection = await keyring.find(source)
        except (CallerError, SettingsError):
            continue
        credential = connection.credential if connection else None
        if isinstance(credential, AccountKey) and credential.account == account:
            return credential.key
    return None
