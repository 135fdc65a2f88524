"""Estates, by the settings: the manager with its rehearsals in memory, and the file that a server follows."""

import os
import secrets
import sys
from pathlib import Path

from recapito.api.estate.estate_file import EstateFile
from recapito.api.estate.expansion import Expander
from recapito.api.estate.kinds import Parts
from recapito.api.estate.manager import EstateManager
from recapito.api.estate.rehearsal import Rehearsal
from recapito.clock import Clock, SystemClock
from recapito.composition.stores import make_keyring
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.domain.cluster.partition import Partition
from recapito.domain.connections.connection import Connection
from recapito.intake.resources.subscription_options import SubscriptionOptions
from recapito.intake.resources.subscriptions import Subscriptions
from recapito.intake.resources.topics import Changes, Topics
from recapito.observability.journal import Journal
from recapito.settings.settings import Settings
from recapito.stores.memory import MemoryLog


def make_estate(
    settings: Settings,
    topics: Topics,
    subscriptions: Subscriptions,
    keyring: Keyring,
    clock: Clock,
    journal: Journal,
    partition: Partition,
) -> EstateManager:
    """The manager of estates; each plan is rehearsed on a store in memory of its own."""
    wall = SystemClock()

    def rehearse() -> Rehearsal:
        registry, changes = MemoryLog(), Changes()
        ring = make_keyring(settings, registry, SecretBox.in_memory())

        async def find(resource_id: str) -> Connection | None:
            return await ring.find(resource_id) or await keyring.find(resource_id)

        stage = Topics(registry, clock, secrets.token_bytes, changes, settings.quota, settings.delivery.profile)
        events = Subscriptions(
            registry,
            clock,
            stage,
            changes,
            settings.quota,
            settings.delivery.egress,
            signs_tokens=subscriptions.signs_tokens,
            find_connection=find,
        )
        return Rehearsal(Parts(stage, events, _options(events, ring, clock), ring, clock, wall), registry)

    options = _options(subscriptions, keyring, clock)
    parts = Parts(topics, subscriptions, options, keyring, clock, wall)
    return EstateManager(parts, rehearse, settings.public_url, journal, partition)


def _options(subscriptions: Subscriptions, keyring: Keyring, clock: Clock) -> SubscriptionOptions:
    return SubscriptionOptions(subscriptions, clock, keyring.secret_box.encrypt, keyring.secret_box.decrypt)


def make_estate_file(settings: Settings, estate: EstateManager, journal: Journal) -> EstateFile | None:
    """The estate file of the settings. Its steps are printed too if a person reads along."""
    if not settings.estate.file:
        return None

    def say(line: str) -> None:
        if sys.stderr.isatty():
            print(f"recapito: {line}", file=sys.stderr, flush=True)

    expander = Expander(estate.state, settings.public_url)
    path, wall = Path(settings.estate.file), SystemClock()
    return EstateFile(path, estate, expander, settings.estate.prune, os.environ, wall, journal, say)
