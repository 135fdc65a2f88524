"""Storage accounts registered here: documents of the registry, by their names, which are unique in all of Azure."""

import re

import msgspec

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.resources.topic import Source, TopicKind
from recapito.domain.resources.topic_type import STORAGE
from recapito.errors import Conflict, InvalidInput
from recapito.intake.resources.drafts import TopicDraft
from recapito.intake.resources.not_found import resource_missing
from recapito.intake.resources.validation import DEFAULT_LOCATION, check_scope

KIND = "storageAccount"
TYPE = "Microsoft.Storage/storageAccounts"

_ID = re.compile(
    r"/subscriptions/([A-Za-z0-9._()-]{1,90})/resourceGroups/([A-Za-z0-9._()-]{1,90})"
    r"/providers/Microsoft\.Storage/storageAccounts/([^/]+)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-z0-9]+")


class StorageAccount(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    azure_subscription: str
    resource_group: str
    location: str
    kind: str = "StorageV2"
    sku: str = "Standard_LRS"
    tags: dict[str, str] = {}
    created_at: int = 0

    @property
    def resource_id(self) -> str:
        group = f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.resource_group}"
        return f"{group}/providers/{TYPE}/{self.name}"

    def is_at(self, azure_subscription: str, resource_group: str | None) -> bool:
        """Whether the account is in that Azure subscription, and in that group if one is named."""
        return self.azure_subscription.lower() == azure_subscription.lower() and (
            resource_group is None or self.resource_group.lower() == resource_group.lower()
        )


_decode = msgspec.json.Decoder(StorageAccount).decode


def account_of(resource_id: str) -> StorageAccount | None:
    """The account that a resource id names; None for other ids."""
    parts = _ID.fullmatch(resource_id)
    if parts is None or account_problem(parts[3]) is not None:
        return None
    return StorageAccount(
        azure_subscription=parts[1], resource_group=parts[2], name=parts[3], location=DEFAULT_LOCATION
    )


def account_problem(name: str) -> str | None:
    """The reason why this cannot be the name of an account; None if it can."""
    least, most = limits.ACCOUNT_NAME_CHARS
    if least <= len(name) <= most and _NAME.fullmatch(name):
        return None
    return f"A storage account's name must be {least} to {most} lower-case letters and digits."


class StorageAccounts:
    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def find(self, name: str) -> StorageAccount | None:
        """The account of that name, in any group; None if it does not exist."""
        content = await self._registry.document(KIND, name.lower())
        return None if content is None else _decode(content)

    async def get(self, azure_subscription: str, resource_group: str, name: str) -> StorageAccount:
        """The account of that name in that group, or NotFound."""
        account = await self.find(name)
        if account is None or not account.is_at(azure_subscription, resource_group):
            raise resource_missing(TYPE, name, resource_group)
        return account

    async def page(self, after: str, limit: int) -> list[StorageAccount]:
        """Accounts in the order of their names, after a name."""
        return [_decode(document.content) for document in await self._registry.documents(KIND, after.lower(), limit)]

    async def put(self, account: StorageAccount) -> StorageAccount:
        """Create an account, or change the existing one."""
        problem = account_problem(account.name)
        if problem is not None:
            raise InvalidInput("InvalidResourceName", problem, "accountName")
        check_scope(account.azure_subscription, "subscriptionId")
        check_scope(account.resource_group, "resourceGroupName")
        old = await self.find(account.name)
        if old is not None and not old.is_at(account.azure_subscription, account.resource_group):
            raise Conflict("StorageAccountAlreadyTaken", f"The name '{account.name}' is taken.", "accountName")
        created_at = self._clock.now() if old is None else old.created_at
        stored = msgspec.structs.replace(account, created_at=created_at)
        await self._registry.put_document(KIND, account.name, msgspec.json.encode(stored))
        return stored

    async def remove(self, account: StorageAccount) -> None:
        await self._registry.delete_document(KIND, account.name)


def implicit_topic(account: StorageAccount, suffix: str) -> TopicDraft:
    """The system topic that is created with the first subscription to an account that has none."""
    return TopicDraft.of(
        kind=TopicKind.SYSTEM,
        name=f"{account.name}-{suffix}",
        azure_subscription=account.azure_subscription,
        resource_group=account.resource_group,
        location=account.location,
        source=Source(account.resource_id, STORAGE.name, implicit=True),
    )
