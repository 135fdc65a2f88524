"""The one way in which a document changes a server: read all, plan, rehearse, then apply.

The law: a document that is wrong anywhere changes nothing. It is first applied to a copy in memory of the resources
that it touches, without asking endpoints. After that only the world can make a step fail: an endpoint that refuses its
handshake, a quota, a failing store. Such a step is reported, the others are made, and the next run goes on with it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from recapito.api.estate.address import ResourceAddress, Stage
from recapito.api.estate.kinds import Kinds, Parts, Wish, blamed_on, read_wish
from recapito.api.estate.rehearsal import Rehearsal, copy_touched
from recapito.domain import limits
from recapito.domain.resources.topic import Topic, TopicKind
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.template import Declared
from recapito.errors import Busy, CallerError, NotFound, SettingsError, StoreFailed
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


class EstateManager:
    """Plans and applies documents, one at a time."""

    def __init__(self, parts: Parts, rehearse: Callable[[], Rehearsal], journal: Journal = silent) -> None:
        self.parts = parts
        self.kinds = Kinds(parts)
        self._rehearse = rehearse
        self._journal = journal
        self._lock = asyncio.Lock()

    async def plan(self, resources: Sequence[Declared], prune: bool = False) -> list[Step]:
        """The steps that make the server what the document wants; DocumentFault if it can never become that."""
        wishes = _read_all(resources)
        steps = [await self._step(wish) for wish in wishes]
        changing = [step.wish for step in steps if step.action is not Action.KEEP and step.wish is not None]
        if changing:
            rehearsal = self._rehearse()
            await copy_touched(self.kinds, rehearsal, changing)
            stage = Kinds(rehearsal.parts)
            for wish in changing:
                with blamed_on(wish.declared):
                    await stage.put(wish)
        if prune:
            steps += [step async for step in self._surplus(wishes)]
        return steps

    async def apply(self, resources: Sequence[Declared], prune: bool = False) -> Report:
        """Plan and make all steps."""
        async with self._lock:
            steps = await self.plan(resources, prune)
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

    async def _surplus(self, wishes: Sequence[Wish]) -> AsyncIterator[Step]:
        """Deletions of resources that the document neither names nor needs, the smaller ones first."""
        kept = {wish.address.id.lower() for wish in wishes}
        for wish in wishes:
            kept |= {id.lower() for id in _needed(wish.address)}
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


def _read_all(resources: Sequence[Declared]) -> list[Wish]:
    """All resources of a document in the order in which they are made. Two names of one resource are a fault."""
    wishes = [read_wish(declared) for declared in resources]
    places: dict[str, str] = {}
    for wish in wishes:
        id = wish.address.id.lower()
        if id in places:
            raise DocumentFault(f"The {wish.address.title} is there twice, first at {places[id]}.", wish.declared.path)
        places[id] = wish.declared.path
    return sorted(wishes, key=lambda wish: wish.address.stage)


def _asks(step: Step) -> bool:
    """Whether a step may ask an endpoint for its consent, so that it is made beside others."""
    return step.address.stage is Stage.SUBSCRIPTION and step.wish is not None


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
