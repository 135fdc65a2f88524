"""Resource groups: documents of the registry. A topic that is put into a missing group creates it."""

import msgspec

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.errors import Conflict
from recapito.intake.resources.not_found import group_missing
from recapito.intake.resources.validation import DEFAULT_LOCATION, check_scope

KIND = "resourceGroup"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    azure_subscription: str
    location: str
    tags: dict[str, str] = {}
    managed_by: str | None = None
    created_at: int

    @property
    def resource_id(self) -> str:
        return f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.name}"


_decode = msgspec.json.Decoder(Group).decode


class Groups:
    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def find(self, azure_subscription: str, name: str) -> Group | None:
        """The group of that name, without regard to case; None if it does not exist."""
        content = await self._registry.document(KIND, _key(azure_subscription, name))
        return None if content is None else _decode(content)

    async def get(self, azure_subscription: str, name: str) -> Group:
        """The group of that name, or NotFound."""
        group = await self.find(azure_subscription, name)
        if group is None:
            raise group_missing(name)
        return group

    async def page(self, azure_subscription: str, after: str, limit: int) -> list[Group]:
        """Groups of an Azure subscription in the order of their names, after a name."""
        prefix = _key(azure_subscription, "")
        documents = await self._registry.documents(KIND, prefix + after.lower(), limit)
        return [_decode(document.content) for document in documents if document.key.startswith(prefix)]

    async def azure_subscriptions(self) -> list[str]:
        ids: list[str] = []
        after = ""
        while page := await self._registry.documents(KIND, after, 1):
            group = _decode(page[0].content)
            ids.append(group.azure_subscription)
            after = _key(group.azure_subscription, "") + "\U0010ffff"
        return ids

    async def ensure(self, azure_subscription: str, name: str, location: str) -> None:
        """Create the group if it does not exist."""
        if await self.find(azure_subscription, name) is None:
            await self.put(azure_subscription, name, location)

    async def put(
        self,
        azure_subscription: str,
        name: str,
        location: str | None = None,
        tags: dict[str, str] | None = None,
        managed_by: str | None = None,
        moves: bool = False,
    ) -> Group:
        """Create a group, or change the existing one. Parameters that are None leave their values as they are.

        moves: the group may change its location, as the copy of a partition that follows another one's.
        """
        check_scope(azure_subscription, "subscriptionId")
        check_scope(name, "resourceGroupName")
        old = await self.find(azure_subscription, name)
        if old is not None and not moves:
            check_location(old, location)
        group = Group(
            name=old.name if old else name,
            azure_subscription=old.azure_subscription if old else azure_subscription,
            location=old.location if old and not (moves and location) else location or DEFAULT_LOCATION,
            tags=tags if tags is not None else old.tags if old else {},
            managed_by=managed_by if managed_by is not None else old.managed_by if old else None,
            created_at=old.created_at if old else self._clock.now(),
        )
        if group != old:
            await self._registry.put_document(KIND, _key(azure_subscription, name), msgspec.json.encode(group))
        return group

    async def remove(self, group: Group) -> None:
        """Remove a group after its resources."""
        await self._registry.delete_document(KIND, _key(group.azure_subscription, group.name))


def check_location(group: Group, location: str | None) -> None:
    """Raise Conflict if a group is wanted in another location than its own."""
    if location is not None and location.lower() != group.location.lower():
        message = f"The resource group is in '{group.location}' and cannot move."
        raise Conflict("InvalidResourceGroupLocation", message, "location")


def _key(azure_subscription: str, name: str) -> str:
    return f"{azure_subscription}/{name}".lower()
