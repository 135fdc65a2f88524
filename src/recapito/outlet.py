"""The ways out of a server, put together from its settings: senders to every kind of destination, and the vault."""

from recapito.azure.reach import Reach
from recapito.clock import Clock
from recapito.domain.subscription import AzureFunction, HybridConnection, StorageQueue
from recapito.keys.keyring import Keyring
from recapito.senders.connected import ConnectedSender
from recapito.senders.function import FunctionLeading
from recapito.senders.relay import RelayLeading
from recapito.senders.resolver import Resolver
from recapito.senders.routing import RoutingSender
from recapito.senders.storage_queue import StorageQueueSender
from recapito.senders.webhook import TokenSource, WebhookSender
from recapito.settings import Settings
from recapito.vaults.blob import BlobVault
from recapito.vaults.directory import DirectoryVault
from recapito.vaults.routing import RoutingVault


def make_reach(settings: Settings, keyring: Keyring, resolver: Resolver | None = None) -> Reach:
    """The way to Azure's services, by the server's connections."""
    delivery = settings.delivery
    return Reach(keyring.find, resolver or Resolver(), delivery.egress, delivery.ca_file or None)


def make_vault(settings: Settings, reach: Reach) -> RoutingVault:
    """Where dead letters are."""
    return RoutingVault(DirectoryVault(settings.data / "deadletters"), BlobVault(reach), reach.leads_to)


def make_sender(
    settings: Settings, keyring: Keyring, reach: Reach, resolver: Resolver, clock: Clock, token_for: TokenSource | None
) -> RoutingSender:
    """The sender to every kind of destination."""
    delivery, find = settings.delivery, keyring.find
    webhooks = WebhookSender(delivery.egress, delivery.ca_file or None, resolver, now=clock.now, token_for=token_for)
    return RoutingSender(
        webhooks,
        {
            StorageQueue: StorageQueueSender(reach),
            AzureFunction: ConnectedSender(FunctionLeading(), find, webhooks),
            HybridConnection: ConnectedSender(RelayLeading(), find, webhooks),
        },
    )
