"""The storage accounts that system topics report on, by the names that clients of the front use in URLs.

The law: a change of a topic, a subscription or a connection that is stored holds for the next request. They are read
when one of them has changed, and not for each request: a read would wait for the commit under way.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from recapito.contracts.registry import Registry, has_subscription, system_topics
from recapito.domain.connections.connection import AccountKey, Connection
from recapito.domain.connections.parse_storage import AZURITE_ACCOUNT, AZURITE_KEY
from recapito.domain.resources.resource_id import STORAGE_ACCOUNT, parse_resource_id
from recapito.domain.resources.topic import Topic
from recapito.errors import CallerError, SettingsError


class _Account(NamedTuple):
    """One name of the source of a system topic; the key is None where the name is not a connection's."""

    name: str
    key: str | None


class _Reading(NamedTuple):
    """Topics with a subscription, and keys, by the names of accounts, as they were at that number of changes."""

    changes: int
    topics: dict[str, list[Topic]]
    keys: dict[str, str]


class ReportedAccounts:
    """Finds the topics and the key of an account. `find_connection` returns None for a resource without a connection.

    The registry must be the object by which intake writes.
    """

    def __init__(self, registry: Registry, find_connection: Callable[[str], Awaitable[Connection | None]]) -> None:
        self._registry = registry
        self._find_connection = find_connection
        self._reading = _Reading(-1, {}, {})

    async def topics(self, account: str) -> list[Topic]:
        """The system topics of a storage account that have a subscription."""
        return (await self._read()).topics.get(account.lower(), [])

    async def key(self, account: str) -> str | None:
        """The key of a storage account: Azurite's own, or that of a connection of a system topic's source."""
        return (await self._read()).keys.get(account)

    async def _read(self) -> _Reading:
        changes = self._registry.changes
        if self._reading.changes != changes:
            self._reading = await self._read_all(changes)  # a change meanwhile makes the number another one
        return self._reading

    async def _read_all(self, changes: int) -> _Reading:
        topics: dict[str, list[Topic]] = {}
        keys: dict[str, str] = {}
        async for topic, source in system_topics(self._registry):
            accounts = await self._accounts(source)
            keys |= {account.name: account.key for account in accounts if account.key is not None}
            if accounts and await has_subscription(self._registry, topic):
                for name in {account.name.lower() for account in accounts}:
                    topics.setdefault(name, []).append(topic)
        return _Reading(changes, topics, {**keys, AZURITE_ACCOUNT: AZURITE_KEY})

    async def _accounts(self, source: str) -> list[_Account]:
        """The account of a resource by its own name, and by the connection that leads to it; none for another kind."""
        try:
            resource = parse_resource_id(source)
        except CallerError:
            return []
        if resource.kind != STORAGE_ACCOUNT:
            return []
        accounts = [_Account(resource.names[0], None)]
        try:
            connection = await self._find_connection(resource.text)
        except (CallerError, SettingsError):
            return accounts
        credential = None if connection is None else connection.credential
        if isinstance(credential, AccountKey):
            accounts.append(_Account(credential.account, credential.key))
        return accounts
