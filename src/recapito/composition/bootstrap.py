"""The initial resources of a server: the storage accounts of its settings, and a topic if it has none."""

from contextlib import suppress

from recapito.contracts.registry import Registry
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.errors import StoreDamaged
from recapito.intake.resources.drafts import TopicDraft
from recapito.intake.resources.storage_accounts import account_of
from recapito.intake.resources.topics import Topics
from recapito.settings.settings import Settings

FIRST_TOPIC = TopicDraft.of(
    name="demo", azure_subscription="00000000-0000-0000-0000-000000000000", resource_group="local"
)


async def create_initial_resources(
    settings: Settings, topics: Topics, registry: Registry, partition: Partition = WHOLE
) -> None:
    """Register the storage accounts of the settings, and give an empty store without an estate file one topic.

    A store with a damaged page is not empty: it gets nothing, and serves whatever can be read.
    """
    with suppress(StoreDamaged):
        await _create(settings, topics, registry, partition)


async def _create(settings: Settings, topics: Topics, registry: Registry, partition: Partition) -> None:
    for id in settings.azure.storage_accounts:
        account = account_of(id)
        if account is not None and await topics.accounts.find(account.name) is None:
            await topics.put_account(account)
    is_home = partition.holds(FIRST_TOPIC.wanted.name)
    if is_home and not settings.estate.file and not await registry.topics("", 1):
        await topics.put(FIRST_TOPIC)
