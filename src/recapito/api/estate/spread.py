"""The estate of a cluster of several partitions: one of them plans and applies documents in all, for a client.

The law: all partitions plan before one of them changes anything; a fault in one, or a partition without an owner,
changes nothing. A partition that is lost later makes the outcome unknown, and sending the document again completes it.
The other partitions are asked with the client's own headers, so that it has there the rights that it has here.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.types import Scope

from recapito.api.errors import Forbidden, OutcomeUnknown
from recapito.api.estate.address import Stage, address_of
from recapito.api.estate.export import Exported
from recapito.api.estate.kinds import Wish, blamed_on
from recapito.api.estate.manager import Action, EstateManager, Report, Step, read_all, source_of
from recapito.api.estate.portion import (
    ExportedPortion,
    FailedStep,
    Portion,
    PortionReport,
    homes_of,
    merge_exports,
    merge_reports,
    portion_of,
    report_of,
    unpack,
)
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import Busy, CallerError, NotFound, StoreFailed
from recapito.intake.resources.groups import Group, check_location
from recapito.intake.resources.not_found import group_missing
from recapito.intake.resources.sources import system_topic_exists

if TYPE_CHECKING:
    from recapito.api.router.forward import Forwarder  # which loads an HTTP client

PATH = "/estate/portion"
STATE = f"{PATH}/state"
SOURCES = f"{PATH}/sources"
EXPORT = f"{PATH}/export"
_OF_BODY = (b"content-type", b"content-length", b"content-encoding", b"transfer-encoding")


class _PartitionError(msgspec.Struct):
    code: str
    message: str
    target: str | None = None


class _Refused(msgspec.Struct):
    error: _PartitionError


class _ShownGroup(msgspec.Struct, rename="camel"):
    name: str
    location: str
    tags: dict[str, str] = {}
    managed_by: str | None = None


_decode_refused = msgspec.json.Decoder(_Refused).decode
_decode_report = msgspec.json.Decoder(PortionReport).decode
_decode_topics = msgspec.json.Decoder(dict[str, str]).decode
_decode_export = msgspec.json.Decoder(list[ExportedPortion]).decode
_decode_group = msgspec.json.Decoder(_ShownGroup).decode


class Spread:
    """Makes the estates of clients.

    open_forwarders: called with the first request; returns one forwarder for each partition.
    """

    def __init__(self, own: EstateManager, open_forwarders: "Callable[[], Sequence[Forwarder]]") -> None:
        self._own = own
        self._open_forwarders = open_forwarders
        self._forwarders: Sequence[Forwarder] = ()
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Spread over {self._own.partition.of} partitions>"

    def on_behalf_of(self, scope: Scope) -> "SpreadEstate":
        """The estate, asked for by the client of a request."""
        if not self._forwarders:
            self._forwarders = self._open_forwarders()
        return SpreadEstate(self._own, self._forwarders, self._turn, scope)

    async def close(self) -> None:
        for forwarder in self._forwarders:
            await forwarder.close()


class SpreadEstate:
    """The resources of all partitions: an `Estate`. `turn` lets one document be applied at a time."""

    def __init__(self, own: EstateManager, forwarders: "Sequence[Forwarder]", turn: asyncio.Lock, scope: Scope) -> None:
        self._own = own
        self._forwarders = forwarders
        self._turn = turn
        self._scope = scope
        self._count = own.partition.of

    async def plan(self, resources: Sequence[Declared], prune: bool = False) -> list[Step]:
        wishes = read_all(resources)
        homes = await self._homes(wishes)
        return list(merge_reports(wishes, await self._plan_all(wishes, homes, prune)).steps)

    async def apply(self, resources: Sequence[Declared], prune: bool = False) -> Report:
        wishes = read_all(resources)
        async with self._turn:
            homes = await self._homes(wishes)
            plans = await self._plan_all(wishes, homes, prune)
            changing = [number for number, plan in enumerate(plans) if plan.changes]
            portions = [portion_of(wishes, homes, number, prune, dry_run=False) for number in changing]
            made = await asyncio.gather(*map(self._make, changing, portions), return_exceptions=True)
            for number, outcome in zip(changing, _settled(made), strict=True):
                plans[number] = outcome if isinstance(outcome, PortionReport) else _failed(plans[number], outcome)
            return merge_reports(wishes, plans)

    async def export(self, secrets: bool) -> list[Exported]:
        async def ask(number: int) -> list[Exported]:
            if number == self._own.partition.number:
                return await self._own.export(secrets)
            content = await self._read(number, *(("POST", EXPORT) if secrets else ("GET", PATH)))
            return [unpack(one) for one in _decode_export(content)]

        return merge_exports(await asyncio.gather(*map(ask, range(self._count))))

    async def state(self, id: str, verb: str) -> Any:
        address = address_of(id)
        home = None if address is None else address.home_among(self._count)
        if home in (None, self._own.partition.number):
            return await self._own.state(id, verb)
        return msgspec.json.decode(await self._read(home, "POST", STATE, {"id": id, "verb": verb}))["state"]

    async def group(self, azure_subscription: str, name: str) -> Group:
        """A group of another partition only has no deployments: it is as young as can be."""
        own = self._own.parts
        found = await own.topics.groups.find(azure_subscription, name)
        if found is not None:
            return found
        path = f"/subscriptions/{azure_subscription}/resourceGroups/{name}"
        for number in self._others():
            try:
                shown = _decode_group(await self._read(number, "GET", path))
            except NotFound:
                continue
            return Group(
                name=shown.name,
                azure_subscription=azure_subscription,
                location=shown.location,
                tags=shown.tags,
                managed_by=shown.managed_by,
                created_at=own.clock.now() + 1,
            )
        raise group_missing(name)

    def _others(self) -> list[int]:
        return [number for number in range(self._count) if number != self._own.partition.number]

    async def _homes(self, wishes: Sequence[Wish]) -> list[int | None]:
        """The home of each resource. The system topics of accounts are looked for in all partitions."""
        self._check_owners()
        await self._check_groups(wishes)
        sources = {*(wish.address.account.lower() for wish in wishes), *map(source_of, wishes)} - {""}
        found: dict[str, int] = {}
        topics: dict[str, str] = {}
        for number in range(self._count) if sources else ():
            here = await self._topics_of(number, sorted(sources))
            found |= dict.fromkeys(here, number)
            topics |= here
        _check_sources(wishes, topics)
        return homes_of(wishes, self._count, found)

    async def _check_groups(self, wishes: Sequence[Wish]) -> None:
        """A group cannot move; the copy that clients see counts.

        The copies of partitions may differ, if topics made them. They take any location, and so become alike.
        """
        for wish in wishes:
            if wish.address.stage is Stage.GROUP:
                with blamed_on(wish.declared), suppress(NotFound):
                    location, *_ = wish.draft
                    check_location(await self.group(wish.address.azure_subscription, wish.address.name), location)

    async def _topics_of(self, number: int, sources: Sequence[str]) -> dict[str, str]:
        """The names of the system topics of a partition, by those of these sources that have one there."""
        if number == self._own.partition.number:
            return await self._own.topics_of(sources)
        return _decode_topics(await self._read(number, "POST", SOURCES, sources))

    def _check_owners(self) -> None:
        missing = [str(number) for number in self._others() if not self._forwarders[number].has_owner]
        if missing:
            raise Busy(f"The partitions {', '.join(missing)} of the cluster have no owner at this moment. Try again.")

    async def _plan_all(self, wishes: Sequence[Wish], homes: Sequence[int | None], prune: bool) -> list[PortionReport]:
        """The plans of all partitions. A fault of the document precedes a partition that does not answer."""

        async def ask(number: int) -> PortionReport:
            portion = portion_of(wishes, homes, number, prune, dry_run=True)
            if number == self._own.partition.number:
                return report_of(Report(await self._own.plan(portion.resources, prune, portion.kept)))
            return _decode_report(await self._read(number, "POST", PATH, portion))

        plans = await asyncio.gather(*map(ask, range(self._count)), return_exceptions=True)
        faults = [plan for plan in plans if isinstance(plan, BaseException)]
        if faults:
            raise next((fault for fault in faults if isinstance(fault, CallerError)), faults[0])
        return [plan for plan in plans if isinstance(plan, PortionReport)]

    async def _make(self, number: int, portion: Portion) -> PortionReport:
        if number == self._own.partition.number:
            return report_of(await self._own.apply(portion.resources, portion.prune, portion.kept))
        return _decode_report(await self._ask(number, "POST", PATH, portion))

    async def _read(self, number: int, method: str, path: str, content: Any = None) -> bytes:
        """The answer of a partition to a request that changes nothing."""
        try:
            return await self._ask(number, method, path, content)
        except OutcomeUnknown as error:
            raise Busy(
                f"Partition {number} of the cluster does not answer, and nothing was changed. Try again."
            ) from error

    async def _ask(self, number: int, method: str, path: str, content: Any = None) -> bytes:
        """The body of a partition's answer. Raises Busy if nothing was done, and OutcomeUnknown."""
        kept = [(name, value) for name, value in self._scope["headers"] if name not in _OF_BODY]
        scope = {
            **self._scope,
            "method": method,
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": b"api-version=2022-09-01",
            "headers": [*kept, (b"content-type", b"application/json")],
        }
        answer = await self._forwarders[number].ask(scope, b"" if content is None else msgspec.json.encode(content))
        if answer.status == 200:
            return answer.body
        if answer.status >= 500:
            raise OutcomeUnknown
        error = _decode_refused(answer.body).error
        match answer.status:
            case 401 | 403:
                raise Forbidden(error.code, error.message)
            case 404:
                raise NotFound(error.code, error.message)
        raise DocumentFault(error.message, error.target or "", error.code)


def _check_sources(wishes: Sequence[Wish], stored: Mapping[str, str]) -> None:
    """A source has one system topic in all partitions. `stored` has their names, by the ids of their sources."""
    names = dict(stored)
    for wish in wishes:
        if source := source_of(wish):
            name = names.setdefault(source, wish.address.name)
            with blamed_on(wish.declared):
                if name.lower() != wish.address.name.lower():
                    raise system_topic_exists(name)


def _settled(made: Sequence[PortionReport | BaseException]) -> list[PortionReport | CallerError]:
    """The outcomes in the partitions that were to change. If none of them could begin, nothing was done."""
    settled = [one for one in made if isinstance(one, PortionReport | CallerError)]
    if len(settled) == len(made):
        return settled
    for one in made:
        if not isinstance(one, PortionReport | CallerError | Busy | OutcomeUnknown | StoreFailed):
            raise one
    busy = [one for one in made if isinstance(one, Busy)]
    raise busy[0] if len(busy) == len(made) else OutcomeUnknown


def _failed(plan: PortionReport, error: CallerError) -> PortionReport:
    """A partition took its plan and refuses it now, because another request changed its resources: all steps failed."""
    changing = [step for step in plan.steps if step.action is not Action.KEEP]
    return PortionReport(plan.steps, [FailedStep(step.id, error.code, error.message) for step in changing])
