"""The one way in which a document changes a server: read all, plan, rehearse, then apply.

The law: a document that is wrong anywhere changes nothing. It is first applied to a copy in memory of the resources
that it touches, without asking endpoints. After that only the world can make a step fail: an endpoint that refuses its
handshake, a quota, a failing store. Such a step is reported, the others are made, and the next run goes on with it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from recapito.api.estate.address import ResourceAddress, Stage
from recapito.api.estate.export import Exported, walk_all
from recapito.api.estate.kinds import Kinds, Parts, Wish, blamed_on, read_wish
from recapito.api.estate.rehearsal import Rehearsal, copy_touched
from recapito.api.estate.state import find_state
from recapito.domain import limits
from recapito.domain.cluster.partition import WHOLE, Partition
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import Busy, CallerError, NotFound, SettingsError, StoreFailed
from recapito.intake.resources.groups import Group
from recapito.intake.resources.topics import PAGE
from recapito.observability.journal import Journal, silent


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    DELETE = "delete"


class Step(NamedTuple):
    """One resource of a plan. `changed` are the properties that differ; `wish` is None for a deletion."""

    action: Action
    address: ResourceAddress
    changed: tuple[str, ...] = ()
    wish: Wish | None = None

    def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"action": self.action, "resource": self.address.title, "id": self.address.id}
        return shown | ({"changed": list(self.changed)} if self.changed else {})


class Failure(NamedTuple):
    """A step that failed, and why."""

    step: Step
    code: str
    message: str

    def show(self) -> dict[str, Any]:
        path = self.step.wish.declared.path if self.step.wish is not None else None
        return {"resource": self.step.address.title, "id": self.step.address.id, "at": path, "error": self.message}


class Report(NamedTuple):
    """The steps of a plan, and those that failed."""

    steps: Sequence[Step]
    failed: Sequence[Failure] = ()

    def show(self) -> dict[str, Any]:
        return {
            "counts": self.counts(),
            "steps": [step.show() for step in self.steps if step.action is not Action.KEEP],
            "failed": [failure.show() for failure in self.failed],
        }

    def counts(self) -> dict[str, int]:
        failed = {failure.step.address.id for failure in self.failed}
        counted = Counter(step.action for step in self.steps if step.address.id not in failed)
        return {**{str(action): counted[action] for action in Action}, "failed": len(failed)}


class Estate(Protocol):
    """All resources that documents describe: of a server, or of all partitions of a cluster on behalf of a client."""

    async def plan(self, resources: Sequence[Declared], prune: bool = False) -> list[Step]:
        """The steps that make the resources what the document wants; DocumentFault if they can never become that."""

    async def apply(self, resources: Sequence[Declared], prune: bool = False) -> Report:
        """Plan and make all steps."""

    async def export(self, secrets: bool) -> list[Exported]:
        """All resources, those first that others need. Only with `secrets` have secrets their values for certain."""

    async def state(self, id: str, verb: str) -> Any:
        """The state or the keys of a resource, for a template; None if there are none."""

    async def group(self, azure_subscription: str, name: str) -> Group:
        """The resource group of that name, or NotFound."""


class EstateManager:
    """Plans and applies documents, one at a time: an `Estate`.

    partition: the one of a cluster whose resources these are. It passes over those of other partitions.
    """

    def __init__(
        self,
        parts: Parts,
        rehearse: Callable[[], Rehearsal],
        public_url: str,
        journal: Journal = silent,
        partition: Partition = WHOLE,
    ) -> None:
        self.parts = parts
        self.kinds = Kinds(parts, moves_groups=not partition.alone)
        self.partition = partition
        self._rehearse = rehearse
        self._public_url = public_url
        self._journal = journal
        self._lock = asyncio.Lock()

    async def export(self, secrets: bool) -> list[Exported]:
        return [one async for one in walk_all(self.parts, self._public_url)]

    async def state(self, id: str, verb: str) -> Any:
        return await find_state(self.parts, self._public_url, id, verb)

    async def group(self, azure_subscription: str, name: str) -> Group:
        return await self.parts.topics.groups.get(azure_subscription, name)

    async def topics_of(self, sources: Sequence[str]) -> dict[str, str]:
        """The names of the system topics here, by those of these sources that have one."""
        found = [(source, await self.parts.topics.system_topic_of(source)) for source in sources]
        return {source: topic.name for source, topic in found if topic is not None}

    async def plan(self, resources: Sequence[Declared], prune: bool = False, kept: Collection[str] = ()) -> list[Step]:
        """The steps of a plan. `kept` are the ids, in lower case, that pruning spares beside those of the document."""
        every = read_all(resources)
        topics = topics_of_sources(every)
        wishes = [wish for wish in every if await self._keeps(wish.address, topics)]
        steps = [await self._step(wish) for wish in wishes]
        changing = [step.wish for step in steps if step.action is not Action.KEEP and step.wish is not None]
        if changing:
            rehearsal = self._rehearse()
            await copy_touched(self.kinds, rehearsal, changing)
            stage = Kinds(rehearsal.parts, moves_groups=not self.partition.alone)
            for wish in changing:
                with blamed_on(wish.declared):
                    await stage.put(wish)
        if prune:
            steps += [step async for step in self._surplus({*kept, *kept_by(every)})]
        return steps

    async def apply(self, resources: Sequence[Declared], prune: bool = False, kept: Collection[str] = ()) -> Report:
        async with self._lock:
            steps = await self.plan(resources, prune, kept)
            if any(step.action is not Action.KEEP for step in steps):
                self._journal("estate.planned", **Report(steps).counts())
            report = Report(steps, await self._make(steps))
            for step in steps:
                if step.action is not Action.KEEP:
                    changed = ", ".join(step.changed)
                    self._journal("estate.step", action=step.action, resource=step.address.title, changed=changed)
            for failure in report.failed:
                self._journal("estate.failed", resource=failure.step.address.title, reason=failure.message)
            return report

    async def _keeps(self, address: ResourceAddress, topics: Mapping[str, str]) -> bool:
        """Whether a resource lives in this partition."""
        home = address.home_among(self.partition.of)
        if not address.account or self.partition.alone:
            return home in (None, self.partition.number)
        if (topic := topics.get(address.account.lower())) is not None:
            return self.partition.holds(topic)
        return home == self.partition.number or await self.parts.topics.system_topic_of(address.account) is not None

    async def _step(self, wish: Wish) -> Step:
        with blamed_on(wish.declared):
            try:
                changed = await self.kinds.changes(wish)
            except SettingsError:  # a stored connection cannot be decrypted, and is replaced
                changed = ["connection"]
        if changed is None:
            return Step(Action.CREATE, wish.address, wish=wish)
        return Step(Action.UPDATE if changed else Action.KEEP, wish.address, tuple(changed), wish)

    async def _make(self, steps: Sequence[Step]) -> list[Failure]:
        failed: list[Failure] = []
        turns = asyncio.Semaphore(limits.ESTATE_AT_ONCE)

        async def make(step: Step) -> None:
            try:
                async with turns:
                    if step.wish is None:
                        await self.kinds.delete(step.address)
                    else:
                        await self.kinds.put(step.wish)
            except NotFound as error:
                if step.action is not Action.DELETE:  # a deletion of something bigger may have taken it along
                    failed.append(Failure(step, error.code, error.message))
            except CallerError as error:
                failed.append(Failure(step, error.code, error.message))
            except (Busy, StoreFailed) as error:
                failed.append(Failure(step, "ServiceUnavailable", str(error)))

        changing = [step for step in steps if step.action is not Action.KEEP]
        for step in changing:
            if step.address.stage is not Stage.SUBSCRIPTION or step.wish is None:
                await make(step)
        await asyncio.gather(*(make(step) for step in changing if _asks(step)))
        return failed

    async def _surplus(self, kept: set[str]) -> AsyncIterator[Step]:
        """Deletions of resources that are not kept, the smaller ones first."""
        found = [address async for address in self._all(kept)]
        for address in sorted(found, key=lambda address: -address.stage):
            yield Step(Action.DELETE, address)

    async def _all(self, kept: set[str]) -> AsyncIterator[ResourceAddress]:
        topics = self.parts.topics
        for kind in TopicKind:
            async for topic in topics.walk(kind):
                address = _topic_address(topic)
                implicit = topic.source is not None and topic.source.implicit
                if address.id.lower() not in kept and not implicit:
                    yield address
                    continue
                async for one in self._inside(topic, kept):
                    yield one
        async for account_address in self._accounts():
            if account_address.id.lower() not in kept:
                yield account_address
        for listed in await self.parts.keyring.list():
            address = ResourceAddress(Stage.CONNECTION, listed.resource_id)
            if address.id.lower() not in kept and not listed.given:
                yield address
        async for group_address in self._groups():
            if group_address.id.lower() not in kept:
                yield group_address

    async def _inside(self, topic: Topic, kept: set[str]) -> AsyncIterator[ResourceAddress]:
        """The subscriptions and domain topics of a topic that go, while it stays."""
        at = _topic_address(topic)
        gone = set()
        if topic.kind is TopicKind.DOMAIN:
            after = ""
            while page := await self.parts.topics.domain_topics.page(topic, after, PAGE):
                for inner in page:
                    address = at._replace(stage=Stage.DOMAIN_TOPIC, name=inner.name, topic=topic.name)
                    if address.id.lower() not in kept:
                        gone.add(inner.name.lower())
                        yield address
                after = page[-1].name
        async for one in self.parts.subscriptions.walk(topic):
            address = at._replace(
                stage=Stage.SUBSCRIPTION,
                name=one.name,
                topic=topic.name,
                domain_topic=one.domain_topic,
            )
            names = {address.id.lower(), address._replace(account=_source_of(topic)).id.lower()}
            if not names & kept and (one.domain_topic or "").lower() not in gone:
                yield address

    async def _accounts(self) -> AsyncIterator[ResourceAddress]:
        after = ""
        while page := await self.parts.topics.accounts.page(after, PAGE):
            for account in page:
                yield ResourceAddress(Stage.ACCOUNT, account.name, account.azure_subscription, account.resource_group)
            after = page[-1].name

    async def _groups(self) -> AsyncIterator[ResourceAddress]:
        for azure in await self.parts.topics.groups.azure_subscriptions():
            after = ""
            while page := await self.parts.topics.groups.page(azure, after, PAGE):
                for group in page:
                    yield ResourceAddress(Stage.GROUP, group.name, group.azure_subscription, group.name)
                after = page[-1].name


def read_all(resources: Sequence[Declared]) -> list[Wish]:
    """All resources of a document in the order in which they are made. Two names of one resource are a fault."""
    wishes = [read_wish(declared) for declared in resources]
    places: dict[str, str] = {}
    for wish in wishes:
        id = wish.address.id.lower()
        if id in places:
            raise DocumentFault(f"The {wish.address.title} is there twice, first at {places[id]}.", wish.declared.path)
        places[id] = wish.declared.path
    return sorted(wishes, key=lambda wish: wish.address.stage)


def topics_of_sources(wishes: Sequence[Wish]) -> dict[str, str]:
    """The names of the system topics of a document, by the ids of their sources in lower case."""
    return {source: wish.address.name for wish in wishes if (source := source_of(wish))}


def source_of(wish: Wish) -> str:
    """The id of the source of a system topic, in lower case; empty for other resources."""
    source = wish.draft.draft.wanted.source if wish.address.stage is Stage.TOPIC else None
    return "" if source is None else source.resource_id.lower()


def _asks(step: Step) -> bool:
    """Whether a step may ask an endpoint for its consent, so that it is made beside others."""
    return step.address.stage is Stage.SUBSCRIPTION and step.wish is not None


def kept_by(wishes: Sequence[Wish]) -> set[str]:
    """The ids, in lower case, of the resources that a document names or needs."""
    kept = {wish.address.id.lower() for wish in wishes}
    for wish in wishes:
        kept |= {id.lower() for id in _needed(wish.address)}
    return kept


def _needed(address: ResourceAddress) -> list[str]:
    """The ids of resources that another one needs: its group, its topic, its domain topic, its account."""
    if address.stage is Stage.CONNECTION:
        return []
    needed = [address._replace(stage=Stage.GROUP, account="").id]
    if address.account:
        needed.append(address.account)
    elif address.topic:
        needed.append(address._replace(stage=Stage.TOPIC, name=address.topic).id)
    if address.domain_topic is not None:
        needed.append(address._replace(stage=Stage.DOMAIN_TOPIC, name=address.domain_topic).id)
    return needed


def _topic_address(topic: Topic) -> ResourceAddress:
    return ResourceAddress(Stage.TOPIC, topic.name, topic.azure_subscription, topic.resource_group, topic.kind)


def _source_of(topic: Topic) -> str:
    return topic.source.resource_id if topic.source is not None else ""
