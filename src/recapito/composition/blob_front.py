"""The front of an Azurite, put together from the settings and the parts of intake."""

import ssl

from recapito.api.blob_front.front import BlobFront
from recapito.api.blob_front.storage_service import StorageService
from recapito.clock import Clock, SystemClock
from recapito.composition.identity import make_tls
from recapito.connections.keyring import Keyring
from recapito.contracts.backend import Stores
from recapito.intake.publish.publisher import Publisher
from recapito.intake.storage.blob_reporter import BlobReporter
from recapito.intake.storage.change_notes import ChangeNotes, FileNotes, MemoryNotes
from recapito.intake.storage.reported_accounts import ReportedAccounts
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings

NOTES = "blob-changes.notes"


def make_blob_front(
    settings: Settings, stores: Stores, keyring: Keyring, publisher: Publisher, clock: Clock, journal: Journal
) -> BlobFront | None:
    """The front; None if the settings have none."""
    if not settings.azure.azurite_front:
        return None
    wall = SystemClock()
    trust = ssl.create_default_context(cafile=settings.delivery.ca_file or None)
    accounts = ReportedAccounts(stores.registry, keyring.find)
    service = StorageService(settings.azure.azurite_url.rstrip("/"), accounts.key, wall, trust)
    notes: ChangeNotes = MemoryNotes() if settings.in_memory else FileNotes(settings.data / NOTES, journal)
    reporter = BlobReporter(stores.log, accounts, publisher, clock, wall, service, notes, journal)
    return BlobFront(service, reporter, journal, make_tls(settings))
