"""The outbound parts of a server, by its settings: senders, handshakes, probes and the vault."""

import secrets
import time
from typing import Any

from recapito.azure.access import AzureAccess
from recapito.azure.amqp_clients import AmqpClients
from recapito.azure.entra import EntraTokens
from recapito.azure.probes import BrokerProbe, StorageProbe
from recapito.azure.storage_clients import StorageClients
from recapito.clock import Clock, SystemClock
from recapito.connections.keyring import Keyring
from recapito.contracts.caller import Caller
from recapito.contracts.sender import Sender
from recapito.domain.connections.connection import AzureService, Connection, DefaultCredential
from recapito.domain.resources.destination import (
    DESTINATION_KINDS,
    AzureFunction,
    AzureResource,
    EventGrid,
    EventHub,
    HybridConnection,
    ServiceBusQueue,
    ServiceBusTopic,
    StorageQueue,
    WebHook,
)
from recapito.domain.resources.resource_id import (
    EVENT_HUBS_NAMESPACE,
    SERVICE_BUS_NAMESPACE,
    STORAGE_ACCOUNT,
    parse_resource_id,
)
from recapito.extras import require
from recapito.identity.signer import Signer
from recapito.intake.resources.connection_check import Probe
from recapito.intake.resources.connection_required import Find
from recapito.intake.resources.handshakes import Handshakes, TokenSource
from recapito.observability.journal import Journal
from recapito.senders.azure_http import AzureHttpSender
from recapito.senders.broker import BrokerSender
from recapito.senders.entra_webhook import EntraWebhookSender
from recapito.senders.event_grid import EventGridAdapter
from recapito.senders.function import FunctionAdapter
from recapito.senders.http.resolver import Resolver
from recapito.senders.probes import EventGridProbe, HttpProbe
from recapito.senders.relay import RelayAdapter
from recapito.senders.routing import RoutingSender
from recapito.senders.signing import RequestSigner
from recapito.senders.storage_queue import StorageQueueSender
from recapito.senders.webhook import WebhookSender
from recapito.settings.settings import Settings
from recapito.vaults.blob import BlobVault
from recapito.vaults.directory import DirectoryVault
from recapito.vaults.routing import RoutingVault

_BY_LIBRARY = {
    STORAGE_ACCOUNT: "Storage accounts",
    SERVICE_BUS_NAMESPACE: "Service Bus",
    EVENT_HUBS_NAMESPACE: "Event hubs",
}
"""The resources that only Microsoft's libraries reach; functions and hybrid connections take HTTP."""


def make_connection_finder(keyring: Keyring) -> Find:
    """Finds the connection of a subscription that is created; MissingExtra if this server could never use it."""

    async def find(resource_id: str) -> Connection | None:
        title = _BY_LIBRARY.get(parse_resource_id(resource_id).top.kind)
        if title is not None:
            require("azure", f"{title} cannot be reached by this server")
        connection = await keyring.find(resource_id)
        if connection is not None and isinstance(connection.credential, DefaultCredential):
            require("azure", f"{resource_id} cannot be reached with this server's own identity")
        return connection

    return find


def make_azure_access(settings: Settings, keyring: Keyring, resolver: Resolver) -> AzureAccess:
    """The way to Azure's services, by the server's connections."""
    return AzureAccess(keyring.find, resolver, settings.delivery.egress, settings.delivery.ca_file or None)


def make_vault(settings: Settings, storage_clients: StorageClients) -> RoutingVault:
    """The vault for dead letters in directories and in blob containers."""
    return RoutingVault(
        DirectoryVault(settings.data / "deadletters"), BlobVault(storage_clients), storage_clients.leads_to
    )


def make_probes(
    storage_clients: StorageClients, amqp_clients: AmqpClients, caller: Caller
) -> dict[AzureService, Probe]:
    """The probe of each service; every kind of destination that needs a connection has one."""
    storage, entities, hosts = StorageProbe(storage_clients), BrokerProbe(amqp_clients), HttpProbe(caller, time.time_ns)
    probes: dict[AzureService, Probe] = {
        AzureService.BLOB: storage.container,
        AzureService.QUEUE: storage.queue,
        AzureService.MESSAGING: entities.entity,
        AzureService.FUNCTION: hosts.function,
        AzureService.RELAY: hosts.relay,
        AzureService.EVENT_GRID: EventGridProbe(EventGridAdapter(EntraTokens()), caller, time.time_ns).topic,
    }
    missing = {kind.service for kind in DESTINATION_KINDS.values() if kind.service} - set(probes)
    assert not missing, f"no probe for {missing}"
    return probes


def make_token_source(settings: Settings, signer: Signer | None) -> TokenSource | None:
    """The source of tokens for protected webhooks: Microsoft Entra or our own issuer; None if there is neither."""
    if settings.delivery.webhook_tokens == "entra":
        require("azure", "delivery.webhook_tokens: tokens of Microsoft Entra cannot be fetched")
        tokens = EntraTokens()

        async def fetch(tenant: str, application: str) -> str | None:
            token = await tokens.token(tenant, application)
            return token if isinstance(token, str) else None

        return fetch
    if signer is None:
        return None

    async def sign(tenant: str, application: str) -> str | None:
        return signer.webhook_token(application)

    return sign


def make_handshakes(
    settings: Settings, caller: Caller, clock: Clock, journal: Journal, token_for: TokenSource | None
) -> Handshakes | None:
    """The handshakes that ask webhooks for their consent; None if they are off."""
    if settings.delivery.handshake == "off":
        return None
    return Handshakes(caller, clock, SystemClock(), secrets.token_bytes, settings.public_url, journal, token_for)


def make_sender(
    settings: Settings,
    keyring: Keyring,
    storage_clients: StorageClients,
    amqp_clients: AmqpClients,
    resolver: Resolver,
    clock: Clock,
    signer: Signer | None,
) -> RoutingSender:
    """The sender to every kind of destination in `DESTINATION_KINDS`."""
    delivery, find, brokers, tokens = settings.delivery, keyring.find, BrokerSender(amqp_clients), EntraTokens()
    token_for = None if signer is None else signer.webhook_token
    webhooks = WebhookSender(
        delivery.egress,
        delivery.ca_file or None,
        resolver,
        now=clock.now,
        token_for=token_for,
        keeps_headers=settings.history.enabled,
        signer=RequestSigner(keyring.secret_box.decrypt),
    )
    resources: dict[type[AzureResource], Sender[Any]] = {
        StorageQueue: StorageQueueSender(storage_clients),
        AzureFunction: AzureHttpSender(FunctionAdapter(), find, webhooks),
        HybridConnection: AzureHttpSender(RelayAdapter(), find, webhooks),
        EventGrid: AzureHttpSender(EventGridAdapter(tokens), find, webhooks),
        ServiceBusQueue: brokers,
        ServiceBusTopic: brokers,
        EventHub: brokers,
    }
    missing = set(DESTINATION_KINDS) - set(resources) - {WebHook}
    assert not missing, f"no sender for {missing}"
    protected = EntraWebhookSender(webhooks, tokens) if delivery.webhook_tokens == "entra" else webhooks
    return RoutingSender(protected, resources)
