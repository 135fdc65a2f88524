"""A document into resources: an estate as it is, a template with the states of resources that its expressions need."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from recapito.domain import limits
from recapito.domain.estate.estate import is_template, resources_of
from recapito.domain.templates.evaluator import LIST_KEYS, Surroundings
from recapito.domain.templates.faults import DocumentFault, ReferenceNeeded
from recapito.domain.templates.template import Declared, Template


class Expansion(NamedTuple):
    """The resources of a document. `secure` names the parameters whose values are not shown."""

    resources: list[Declared]
    secure: frozenset[str] = frozenset()


class Expander:
    """Expands documents.

    find_state: returns the state or the keys of a resource; None if there are none.
    """

    def __init__(self, find_state: Callable[[str, str], Awaitable[Any]], public_url: str) -> None:
        self._find_state = find_state
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
        state = await self._find_state(need.resource_id, need.verb)
        if state is None:
            what = "keys" if need.verb == LIST_KEYS else "state"
            raise DocumentFault(
                f"The {what} of '{need.resource_id}' is not known: it does not exist here yet, or has none.",
                "resources",
            )
        known[need.verb, need.resource_id.lower()] = state
