"""Portions of an estate, one for each partition of a cluster: their split, their merge, and their form between nodes.

The law: every resource is in the portion of its home, and one without a topic in every portion; a merged plan, report
or export names each resource once, and reads as that of one server.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recapito.api.estate.address import ResourceAddress, Stage, address_of
from recapito.api.estate.export import Exported, Secret
from recapito.api.estate.kinds import Wish
from recapito.api.estate.manager import Action, Failure, Report, Step, topics_of_sources
from recapito.domain.cluster.partition import home_of
from recapito.domain.resources.topic import TopicKind
from recapito.domain.templates.template import Declared

_KINDS = list(TopicKind)


class Portion(msgspec.Struct, frozen=True):
    """The resources of one partition. Pruning spares `kept` too: the groups and accounts of the whole document."""

    resources: list[Declared]
    kept: list[str]
    prune: bool
    dry_run: bool


class PlannedStep(NamedTuple):
    action: Action
    id: str
    changed: tuple[str, ...] = ()


class FailedStep(NamedTuple):
    id: str
    code: str
    message: str


class PortionReport(msgspec.Struct, frozen=True):
    """The steps in one partition, those that keep a resource included."""

    steps: list[PlannedStep]
    failed: list[FailedStep] = []

    @property
    def changes(self) -> bool:
        return any(step.action is not Action.KEEP for step in self.steps)


class PlacedSecret(NamedTuple):
    """A secret and its place in a body: names of members and numbers of items."""

    place: list[str | int]
    name: str
    value: str


class ExportedPortion(NamedTuple):
    """One resource of an export, with null in the places of its secrets."""

    id: str
    body: dict[str, Any]
    secrets: list[PlacedSecret]


def homes_of(wishes: Sequence[Wish], partitions: int, found: Mapping[str, int]) -> list[int | None]:
    """The home of each resource; None if every partition keeps it.

    found: the partitions of the system topics that exist, by the ids of their sources in lower case.
    """
    topics = topics_of_sources(wishes)

    def home(address: ResourceAddress) -> int | None:
        source = address.account.lower()
        if source in topics:
            return home_of(topics[source], partitions)
        return found[source] if source in found else address.home_among(partitions)

    return [home(wish.address) for wish in wishes]


def portion_of(wishes: Sequence[Wish], homes: Sequence[int | None], number: int, prune: bool, dry_run: bool) -> Portion:
    """The part of a document that a partition keeps."""
    kept = set()
    for wish in wishes:
        if wish.address.stage is not Stage.CONNECTION:
            kept.add(wish.address._replace(stage=Stage.GROUP, account="").id.lower())
        if wish.address.account:
            kept.add(wish.address.account.lower())
    mine = [wish.declared for wish, home in zip(wishes, homes, strict=True) if home in (None, number)]
    return Portion(mine, sorted(kept) if prune else [], prune, dry_run)


def report_of(report: Report) -> PortionReport:
    """The report of one partition."""
    return PortionReport(
        [PlannedStep(step.action, step.address.id, step.changed) for step in report.steps],
        [FailedStep(failure.step.address.id, failure.code, failure.message) for failure in report.failed],
    )


def merge_reports(wishes: Sequence[Wish], reports: Iterable[PortionReport]) -> Report:
    """The reports of all partitions as one, in the order of the document; deletions follow, the smaller ones first."""
    told: dict[str, list[PlannedStep]] = {}
    failed: dict[str, FailedStep] = {}
    for report in reports:
        for step in report.steps:
            told.setdefault(step.id.lower(), []).append(step)
        for failure in report.failed:
            failed.setdefault(failure.id.lower(), failure)
    steps = [_merge_steps(wish, told.pop(wish.address.id.lower())) for wish in wishes]
    gone = [address for same in told.values() if (address := address_of(same[0].id)) is not None]
    steps += [Step(Action.DELETE, address) for address in sorted(gone, key=lambda address: -address.stage)]
    named = [(step, failed.get(step.address.id.lower())) for step in steps]
    return Report(steps, [Failure(step, found.code, found.message) for step, found in named if found is not None])


def _merge_steps(wish: Wish, steps: Sequence[PlannedStep]) -> Step:
    """One resource of all partitions that keep it. The first one that has it decides: clients see its copy."""
    shown = next((step for step in steps if step.action is not Action.CREATE), steps[0])
    return Step(shown.action, wish.address, shown.changed, wish)


def pack(exported: Exported, secrets: bool) -> ExportedPortion:
    """A resource of an export in the form between nodes; without `secrets` their values are empty."""
    found: list[PlacedSecret] = []

    def take(value: Any, place: list[str | int]) -> Any:
        if isinstance(value, Secret):
            found.append(PlacedSecret(place, value.name, value.value if secrets else ""))
            return None
        if isinstance(value, dict):
            return {name: take(member, [*place, name]) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [take(item, [*place, number]) for number, item in enumerate(value)]
        return value

    return ExportedPortion(exported.address.id, take(exported.body, []), found)


def unpack(portion: ExportedPortion) -> Exported:
    address = address_of(portion.id)
    assert address is not None, portion.id
    for place, name, value in portion.secrets:
        inner: Any = portion.body
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = Secret(name, value)
    return Exported(address, portion.body)


def merge_exports(exports: Iterable[Sequence[Exported]]) -> list[Exported]:
    """The exports of all partitions in the order of one server's: the first partition that has a resource shows it."""
    once: dict[str, Exported] = {}
    for export in exports:
        for one in export:
            once.setdefault(one.address.id.lower(), one)
    return sorted(once.values(), key=lambda one: _place(one.address))


def _place(address: ResourceAddress) -> tuple[int, int, str, str]:
    """The place in an export: groups, accounts, connections, then topics; whatever is in a topic stays behind it."""
    if address.stage < Stage.TOPIC:
        return address.stage, 0, address.azure_subscription.lower(), address.name.lower()
    topic = address.account.rpartition("/")[2] or address.topic or address.name  # an implicit topic is named like this
    return Stage.TOPIC, _KINDS.index(address.kind), topic.lower(), ""
