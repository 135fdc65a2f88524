"""Deployments: documents of the registry, at most a fixed number in a group. Those of a deleted group stay away."""

from typing import Any

import msgspec

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.intake.resources.groups import Group

KIND = "deployment"
PAGE = 200


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that has ended. `error` is None if it succeeded; `made` has an action and an id for each resource.

    It holds neither the template nor the values of secure parameters.
    """

    name: str
    at: int
    parameters: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    made: tuple[tuple[str, str, str], ...] = ()
    error: str | None = None


_decode = msgspec.json.Decoder(Deployment).decode


class Deployments:
    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def find(self, group: Group, name: str) -> Deployment | None:
        content = await self._registry.document(KIND, _key(group, name))
        found = None if content is None else _decode(content)
        return found if found is not None and found.at >= group.created_at else None

    async def list(self, group: Group) -> list[Deployment]:
        """The deployments of a group, the newest first."""
        prefix, after, found = _key(group, ""), _key(group, ""), []
        while page := await self._registry.documents(KIND, after, PAGE):
            found += [_decode(document.content) for document in page if document.key.startswith(prefix)]
            after = page[-1].key
            if not after.startswith(prefix):
                break
        return sorted((one for one in found if one.at >= group.created_at), key=lambda one: -one.at)

    async def keep(self, group: Group, deployment: Deployment) -> None:
        """Store a deployment in place of an older one of its name; the oldest of a full group goes."""
        for old in (await self.list(group))[limits.DEPLOYMENTS - 1 :]:
            await self.remove(group, old.name)
        await self._registry.put_document(KIND, _key(group, deployment.name), msgspec.json.encode(deployment))

    async def remove(self, group: Group, name: str) -> bool:
        return await self._registry.delete_document(KIND, _key(group, name))


def _key(group: Group, name: str) -> str:
    return f"{group.azure_subscription}/{group.name}/{name}".lower()
