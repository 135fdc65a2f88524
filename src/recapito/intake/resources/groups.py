"""Resource groups: documents of the registry. A topic that is put into a group that is not there makes it."""

import msgspec

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.errors import Conflict
from recapito.intake.resources import rules
from recapito.intake.resources.not_found import group_missing

KIND = "resourceGroup"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A resource group."""

    name: str
    azure_subscription: str
    location: str
    tags: dict[str, str] = {}
    managed_by: str | None = None
    created_at: int

    @property
    def resource_id(self) -> str:
        """The ARM id."""
        return f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.name}"


_decode = msgspec.json.Decoder(Group).decode


class Groups:
    """Keeps the resource groups."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def find(self, azure_subscription: str, name: str) -> Group | None:
        """The group of that name, without regard to case."""
        content = await self._registry.document(KIND, _key(azure_subscription, name))
        return None if content is None else _decode(content)

    async def get(self, azure_subscription: str, name: str) -> Group:
        """The group of that name, or the error that it is not there."""
        found = await self.find(azure_subscription, name)
        if found is None:
            raise group_missing(name)
        return found

    async def page(self, azure_subscription: str, after: str, limit: int) -> list[Group]:
        """Groups of an Azure subscription in the order of their names, after a name."""
        prefix = _key(azure_subscription, "")
        found = await self._registry.documents(KIND, prefix + after.lower(), limit)
        return [_decode(document.content) for document in found if document.key.startswith(prefix)]

    async def azure_subscriptions(self) -> list[str]:
        """The Azure subscriptions that have a group."""
        found: list[str] = []
        after = ""
        while page := await self._registry.documents(KIND, after, 1):
            group = _decode(page[0].content)
            found.append(group.azure_subscription)
            after = _key(group.azure_subscription, "") + "\U0010ffff"
        return found

    async def ensure(self, azure_subscription: str, name: str, location: str) -> None:
        """Make the group unless it is there: what is put into it needs one."""
        if await self.find(azure_subscription, name) is None:
            await self.put(azure_subscription, name, location)

    async def put(
        self,
        azure_subscription: str,
        name: str,
        location: str | None = None,
        tags: dict[str, str] | None = None,
        managed_by: str | None = None,
    ) -> Group:
        """Create a group, or change the one that is there. What is not given stays as it is."""
        rules.check_scope(azure_subscription, "subscriptionId")
        rules.check_scope(name, "resourceGroupName")
        old = await self.find(azure_subscription, name)
        if old is not None and location is not None and location.lower() != old.location.lower():
            raise Conflict(
                "InvalidResourceGroupLocation",
                f"The resource group is in '{old.location}' and can not move.",
                "location",
            )
        group = Group(
            name=old.name if old else name,
            azure_subscription=old.azure_subscription if old else azure_subscription,
            location=old.location if old else location or rules.DEFAULT_LOCATION,
            tags=tags if tags is not None else old.tags if old else {},
            managed_by=managed_by if managed_by is not None else old.managed_by if old else None,
            created_at=old.created_at if old else self._clock.now(),
        )
        if group != old:
            await self._registry.put_document(KIND, _key(azure_subscription, name), msgspec.json.encode(group))
        return group

    async def remove(self, group: Group) -> None:
        """Remove a group; what was in it is gone already."""
        await self._registry.delete_document(KIND, _key(group.azure_subscription, group.name))


def _key(azure_subscription: str, name: str) -> str:
    return f"{azure_subscription}/{name}".lower()
