"""The manager of estates on stores in memory, with rehearsals like those of a server."""

from recapito.api.estate.kinds import Parts
from recapito.api.estate.manager import EstateManager
from recapito.api.estate.rehearsal import Rehearsal
from recapito.clock import Clock
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.registry import Registry
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.connections.connection import Connection
from recapito.intake.resources.subscription_options import SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Topics
from recapito.intake.resources.validation import DEFAULT_QUOTA, Quota
from recapito.observability.journal import Journal, silent
from recapito.stores.memory import MemoryLog
from tests.intake.doubles import make_resources

URL = "http://here"


def make_estate(
    registry: Registry,
    topics: Topics,
    subscriptions: Subscriptions,
    clock: Clock,
    journal: Journal = silent,
    partition: Partition = WHOLE,
    url: str = URL,
) -> EstateManager:
    """A manager of these topics and subscriptions, with connections of its own."""
    keyring = Keyring(registry, SecretBox.in_memory())

    def rehearse() -> Rehearsal:
        log = MemoryLog()
        ring = Keyring(log, SecretBox.in_memory())

        async def find(resource_id: str) -> Connection | None:
            return await ring.find(resource_id) or await keyring.find(resource_id)

        stage, events = make_resources(log, clock, find_connection=find)
        return Rehearsal(Parts(stage, events, options(events, ring), ring, clock, clock), log)

    def options(subscriptions: Subscriptions, keyring: Keyring) -> SubscriptionOptions:
        return SubscriptionOptions(subscriptions, clock, keyring.secret_box.encrypt, keyring.secret_box.decrypt)

    own = options(subscriptions, keyring)
    return EstateManager(Parts(topics, subscriptions, own, keyring, clock, clock), rehearse, url, journal, partition)


def new_estate(clock: Clock, journal: Journal = silent, quota: Quota = DEFAULT_QUOTA) -> EstateManager:
    """A manager of an empty server, whose subscriptions find its connections."""
    log = MemoryLog()
    found: list[EstateManager] = []

    async def find(resource_id: str) -> Connection | None:
        return await found[0].parts.keyring.find(resource_id)

    topics, subscriptions = make_resources(log, clock, quota=quota, find_connection=find)
    found.append(make_estate(log, topics, subscriptions, clock, journal))
    return found[0]
