"""A document into resources: an estate as it is, a template with the states of resources that its expressions need."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from recapito.api.arm.scope import ScopeStyle, SubscriptionScope
from recapito.api.estate.address import Stage, address_of
from recapito.api.estate.kinds import Parts
from recapito.api.wire.topic import show_keys, show_topic
from recapito.domain import limits
from recapito.domain.estate.estate import is_template, resources_of
from recapito.domain.resources.topic import TopicKind
from recapito.domain.templates.evaluator import LIST_KEYS, Surroundings
from recapito.domain.templates.faults import DocumentFault, ReferenceNeeded
from recapito.domain.templates.template import Declared, Template
from recapito.errors import NotFound


class Expansion(NamedTuple):
    """The resources of a document. `secure` names the parameters whose values are not shown."""

    resources: list[Declared]
    secure: frozenset[str] = frozenset()


class Expander:
    """Expands documents against the resources that a server has."""

    def __init__(self, parts: Parts, public_url: str) -> None:
        self._parts = parts
        self._public_url = public_url

    async def expand(self, data: Any, given: Mapping[str, Any], place: Surroundings) -> Expansion:
        """The resources of an estate or a template."""
        if not is_template(data):
            if given:
                raise DocumentFault("Parameters belong to templates; an estate file has none.", "parameters")
            return Expansion(resources_of(data))
        known: dict[tuple[str, str], Any] = {}
        while True:
            try:
                template = Template(data, given, place._replace(public_url=self._public_url), known)
                return Expansion(template.resources(), frozenset(template.secure))
            except ReferenceNeeded as need:
                await self._learn(known, need)

    async def outputs(self, data: Any, given: Mapping[str, Any], place: Surroundings) -> dict[str, Any]:
        """The outputs of a template, after its resources were made."""
        known: dict[tuple[str, str], Any] = {}
        while True:
            try:
                return Template(data, given, place._replace(public_url=self._public_url), known).outputs()
            except ReferenceNeeded as need:
                await self._learn(known, need)

    async def _learn(self, known: dict[tuple[str, str], Any], need: ReferenceNeeded) -> None:
        if len(known) >= limits.TEMPLATE_REFERENCES:
            raise DocumentFault(f"A template may ask for {limits.TEMPLATE_REFERENCES} states at most.", "resources")
        state = await self._state(need.resource_id, need.verb)
        if state is None:
            what = "keys" if need.verb == LIST_KEYS else "state"
            raise DocumentFault(
                f"The {what} of '{need.resource_id}' is not known: it does not exist here yet, or has none.",
                "resources",
            )
        known[need.verb, need.resource_id.lower()] = state

    async def _state(self, id: str, verb: str) -> Any:
        address, topics = address_of(id), self._parts.topics
        if address is None:
            return None
        place = address.azure_subscription, address.group
        try:
            if address.stage is Stage.TOPIC:
                topic = await topics.get(*place, address.name, address.kind)
                if verb == LIST_KEYS:
                    return None if address.kind is TopicKind.SYSTEM else show_keys(topic)
                return show_topic(topic, self._public_url)
            if address.stage is Stage.SUBSCRIPTION and verb != LIST_KEYS and not address.account:
                topic = await topics.get(*place, address.topic, address.kind)
                found = await self._parts.subscriptions.get(topic, address.name, address.domain_topic)
                scope = SubscriptionScope(topic, address.domain_topic, ScopeStyle.NESTED)
                return scope.show(found, self._parts.clock.now())
            if address.stage is Stage.ACCOUNT and verb != LIST_KEYS:
                account = await topics.accounts.get(*place, address.name)
                return {"id": account.resource_id, "name": account.name, "location": account.location, "properties": {}}
        except NotFound:
            return None
        return None
