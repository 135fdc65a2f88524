"""Checks of connections: each resource that a subscription reaches by one is probed, and problems are reported.

A connection that no subscription uses yet is tried on a name that does not exist: "not found" proves the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple

from recapito.clock import Clock
from recapito.contracts.registry import Registry
from recapito.domain import limits
from recapito.domain.connections.connection import AccountKey, AzureService, Connection, check_usable
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.instant import SECOND
from recapito.domain.resources.destination import DESTINATION_KINDS, WebHook, service_of
from recapito.domain.resources.resource_id import (
    ResourceId,
    container_id,
    parse_resource_id,
    queue_id,
)
from recapito.domain.resources.subscription import DeadLetterBlobs, Subscription
from recapito.errors import InvalidInput, NotFound, SettingsError
from recapito.intake.resources.connection_required import Find

OK, NOTE, WRONG = "ok", "note", "wrong"
STAND_IN = "recapito-check"
CLOSED = "it cannot be opened"
PAGE = 200

_ASK = {
    Result.SOCKET_ERROR: "Is it up, may this machine reach it, and is its address right? If not",
    Result.RESOLUTION_ERROR: "Is the name right, and known where the server runs? If not",
    Result.TIMED_OUT: "Is it up, and may this machine reach it? If its address is wrong",
}

Probe = Callable[[ResourceId, Connection], Awaitable[Outcome]]


class CheckFinding(NamedTuple):
    """The result of trying one resource."""

    state: str
    resource: str
    found: str
    remedy: str = ""


class CheckTarget(NamedTuple):
    """A resource that is reached by a service; `made_up` is a name that does not exist there."""

    service: AzureService
    place: ResourceId
    made_up: bool = False


class ConnectionUses(NamedTuple):
    """The resources that subscriptions reach, by the keys of their connections, and those without a connection."""

    by_connection: dict[str, list[CheckTarget]]
    unconnected: list[str]


class ConnectionChecker:
    """Tries connections from where deliveries start. `wall` is real time, which bounds each try."""

    def __init__(self, registry: Registry, find: Find, probes: Mapping[AzureService, Probe], wall: Clock) -> None:
        self._registry = registry
        self._find = find
        self._probes = probes
        self._wall = wall

    async def uses(self) -> ConnectionUses:
        """The resources that subscriptions name, and the connection of each."""
        uses = ConnectionUses({}, [])
        seen: set[tuple[AzureService, str]] = set()
        async for subscription in self._subscriptions():
            for target in _named(subscription):
                key = target.service, target.place.key
                if key in seen:
                    continue
                seen.add(key)
                try:
                    connection = await self._find(target.place.text)
                except SettingsError:  # the list of connections shows this one
                    continue
                if connection is None or target.service not in connection.endpoints:
                    uses.unconnected.append(target.place.text)
                else:
                    uses.by_connection.setdefault(connection.key, []).append(target)
        return uses

    async def examine(self, resource_id: str) -> list[CheckFinding]:
        """Try the connection of a resource. NotFound if it has none."""
        try:
            connection = await self._find(resource_id)
        except SettingsError as error:
            return [CheckFinding(WRONG, resource_id, CLOSED, str(error))]
        if connection is None:
            remedy = f"recapito connection set {resource_id}"
            raise NotFound("ResourceNotFound", f"There is no connection for {resource_id}. Set one: {remedy}")
        targets = (await self.uses()).by_connection.get(connection.key) or _stand_ins(connection)
        return await asyncio.gather(*(self._try(connection, target) for target in targets[: limits.EXAMINED_RESOURCES]))

    async def _try(self, connection: Connection, target: CheckTarget) -> CheckFinding:
        name = target.place.top.text if target.made_up else target.place.text
        try:
            check_usable(connection, target.service, self._wall.now())
        except InvalidInput as error:
            return CheckFinding(WRONG, name, "The signature is not usable.", error.message)
        if target.service is AzureService.RELAY and not target.made_up:
            if parse_resource_id(connection.resource_id).key == target.place.key:
                said = "It is not tried, because its listener would get the request."
                return CheckFinding(NOTE, name, said, "publish an event, and look at its delivery")
            target = _stand_in(target.place.top, AzureService.RELAY)
        try:
            async with asyncio.timeout(limits.EXAMINATION_WAIT_NS / SECOND):
                outcome = await self._probes[target.service](target.place, connection)
        except TimeoutError:
            return CheckFinding(WRONG, name, "There is no answer.", "Is it up, and may this machine reach it?")
        return _judge(name, connection, target, outcome)

    async def _subscriptions(self) -> AsyncIterator[Subscription]:
        after = 0
        while page := await self._registry.subscriptions(None, after, PAGE):
            for subscription in page:
                if subscription.deleted_position is None:
                    yield subscription
            after = page[-1].id


def _judge(name: str, connection: Connection, target: CheckTarget, outcome: Outcome) -> CheckFinding:
    if outcome.result is Result.SUCCESS:
        return CheckFinding(OK, name, f"its {target.service} service takes what is sent")
    absence = Result.INVALID_AZURE_FUNCTION_DESTINATION if target.service is AzureService.FUNCTION else Result.NOT_FOUND
    absent = outcome.result is absence
    if absent and target.made_up and target.service is AzureService.RELAY:
        text = "It answers; whether it takes the key, only a delivery shows."
        return CheckFinding(NOTE, name, text, "publish an event, and look at its delivery")
    if absent and target.made_up:
        return CheckFinding(OK, name, f"its {target.service} service answers, and knows us")
    keyed = isinstance(connection.credential, AccountKey)
    if outcome.result is Result.FORBIDDEN and target.service is AzureService.QUEUE and not keyed:
        text = "The credential may not look at it; whether it may add messages is not known."
        return CheckFinding(NOTE, name, text, "publish an event, and look at its delivery")
    status = "" if outcome.status is None else f" ({outcome.status})"
    text = outcome.detail.removeprefix(f"{STAND_IN} of ")  # a name that does not exist
    return CheckFinding(WRONG, name, f"{outcome.result}{status}", _remedy(text, connection, outcome))


def _remedy(text: str, connection: Connection, outcome: Outcome) -> str:
    """The answer of a service contains its remedy; without an answer the things to check are added."""
    ask = None if outcome.status else _ASK.get(outcome.result)
    if ask is None:
        return text
    if "egress refused" in text:
        return f"{text}. The setting delivery.egress decides which addresses are dialled."
    return f"{text}. {ask}: recapito connection set {connection.resource_id}"


def _named(subscription: Subscription) -> list[CheckTarget]:
    destination, place = subscription.destination, subscription.dead_letter
    targets: list[CheckTarget] = []
    if not isinstance(destination, WebHook):
        targets.append(CheckTarget(service_of(destination), parse_resource_id(destination.resource_id)))
    if isinstance(place, DeadLetterBlobs):
        targets.append(
            CheckTarget(AzureService.BLOB, parse_resource_id(container_id(place.account, place.container_name)))
        )
    return targets


def _stand_ins(connection: Connection) -> list[CheckTarget]:
    """The targets for a connection that no subscription uses: its own resource, or names that do not exist in it."""
    resource = parse_resource_id(connection.resource_id)
    if resource != resource.top:
        return [CheckTarget(service, resource) for service in connection.endpoints]
    return [_stand_in(resource, service) for service in connection.endpoints]


def _stand_in(top: ResourceId, service: AzureService) -> CheckTarget:
    """A name that is not in an account or a namespace; of a resource that has no parts, the resource itself."""
    if service is AzureService.BLOB:
        return CheckTarget(service, parse_resource_id(container_id(top.text, STAND_IN)), made_up=True)
    if service is AzureService.QUEUE:
        return CheckTarget(service, parse_resource_id(queue_id(top.text, STAND_IN)), made_up=True)
    for kind in DESTINATION_KINDS.values():
        for resource in kind.resources if kind.service is service and top.kind not in kind.resources else ():
            parent, _, collection = resource.rpartition("/")
            if parent == top.kind:
                return CheckTarget(service, parse_resource_id(f"{top.text}/{collection}/{STAND_IN}"), made_up=True)
    return CheckTarget(service, top)
