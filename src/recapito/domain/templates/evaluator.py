"""The value of expressions in a template: parameters, variables, copies, names of resources and their states.

Everything that an expression may ask for is handed in. A state that is missing raises `ReferenceNeeded`; the caller
supplies it in `known` and begins again.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from recapito.domain import limits
from recapito.domain.templates import faults
from recapito.domain.templates.expression import (
    Call,
    Expression,
    Literal,
    Member,
    NotAnExpression,
    is_expression,
    parse,
    plain_text,
)
from recapito.domain.templates.faults import DocumentFault, ReferenceNeeded
from recapito.domain.templates.functions import FUNCTIONS

REFERENCE, LIST_KEYS = "reference", "listkeys"
_IMPURE = ("newguid", "utcnow")
_UNBUILT = (
    *("lambda", "map", "filter", "reduce", "sort", "toobject", "groupby", "mapvalues"),
    *("datetimeadd", "datetimefromepoch", "datetimetoepoch", "datauri", "datauritostring", "pickzones", "providers"),
    *("managementgroup", "managementgroupresourceid", "parsecidr", "cidrhost", "cidrsubnet", "deployer", "fail"),
)


class Surroundings(NamedTuple):
    """The place of a deployment."""

    azure_subscription: str
    resource_group: str
    location: str
    tenant: str = "00000000-0000-0000-0000-000000000000"
    deployment: str = "main"
    public_url: str = ""

    @property
    def group_id(self) -> str:
        return f"/subscriptions/{self.azure_subscription}/resourceGroups/{self.resource_group}"


Known = Mapping[tuple[str, str], Any]
"""States of resources by verb (`reference`, `listkeys`) and resource id in lower case."""


class Evaluator:
    """Evaluates the values of one template. `predict` returns the state that a resource of the template will have."""

    def __init__(self, surroundings: Surroundings, known: Known) -> None:
        self.surroundings = surroundings
        self.parameters: dict[str, Any] = {}
        self.variables: Mapping[str, Any] = {}
        self.ids: dict[str, str] = {}  # by symbolic name, name and last part of the name, in lower case
        self.predict: Callable[[str], Any] | None = None
        self._known = known
        self._values: dict[str, Any] = {}
        self._under_way: list[str] = []
        self._loops: list[tuple[str, int]] = []
        self._steps = 0
        self._places: dict[str, Callable[..., Any]] = {
            "copyindex": self._copy_index,
            "deployment": self._deployment,
            "environment": lambda: {"name": "Recapito", "resourceManager": surroundings.public_url},
            "extensionresourceid": lambda base, type, *names: extension_id(base, type, names),
            "listkeys": lambda name, *_: self._state(LIST_KEYS, name),
            "parameters": self._parameter,
            "reference": self._reference,
            "resourcegroup": self._group,
            "resourceid": self._resource_id,
            "subscription": self._subscription,
            "subscriptionresourceid": self._subscription_resource_id,
            "tenant": lambda: {"tenantId": surroundings.tenant},
            "tenantresourceid": lambda type, *names: extension_id("", type, names),
            "variables": self._variable,
        }

    def value(self, raw: Any, path: str) -> Any:
        """A value of the document with its expressions replaced; the copies of properties are made here."""
        if isinstance(raw, str):
            return self._expression(raw, path) if is_expression(raw) else plain_text(raw)
        if isinstance(raw, list):
            return [self.value(item, faults.at(path, n)) for n, item in enumerate(raw)]
        if not isinstance(raw, dict):
            return raw
        new: dict[str, Any] = {}
        for name, member in raw.items():
            if name.lower() == "copy" and isinstance(member, list):
                for n, loop in enumerate(member):
                    new |= self._copied(loop, f"{path}.copy[{n}]")
            else:
                new[name] = self.value(member, faults.at(path, name))
        return new

    def text(self, raw: Any, path: str) -> str:
        value = self.value(raw, path)
        if not isinstance(value, str) or not value:
            raise DocumentFault(f"'{path}' must be a text.", path)
        return value

    def count(self, raw: Any, path: str) -> int:
        """The number of a copy, within the limits."""
        value = self.value(raw, path)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limits.TEMPLATE_COPIES:
            raise DocumentFault(f"'{path}' must be a number from 0 to {limits.TEMPLATE_COPIES}.", path)
        return value

    @contextmanager
    def within(self, loops: list[tuple[str, int]]) -> Iterator[None]:
        """Evaluate with these loops, innermost last."""
        before, self._loops = self._loops, loops
        try:
            yield
        finally:
            self._loops = before

    def _copied(self, loop: Any, path: str) -> dict[str, list[Any]]:
        if not isinstance(loop, dict) or not {"name", "count", "input"} <= set(loop):
            raise DocumentFault(f"'{path}' must have a name, a count and an input.", path)
        name = self.text(loop["name"], f"{path}.name")
        made = []
        for index in range(self.count(loop["count"], f"{path}.count")):
            with self.within([*self._loops, (name, index)]):
                made.append(self.value(loop["input"], f"{path}.input"))
        return {name: made}

    def _expression(self, text: str, path: str) -> Any:
        try:
            return self._evaluate(parse(text))
        except DocumentFault as fault:
            raise DocumentFault(fault.message, fault.target or path) from None
        except NotAnExpression as error:
            raise DocumentFault(f"The expression at '{path}' cannot be read: {error}.", path) from None
        except RecursionError:
            raise DocumentFault(f"The expression at '{path}' is nested too deeply.", path) from None

    def _evaluate(self, tree: Expression) -> Any:
        match tree:
            case Literal(value):
                return value
            case Member(of, key):
                return _member(self._evaluate(of), self._evaluate(key))
            case Call(name, arguments):
                return self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self._steps += 1
        if self._steps > limits.TEMPLATE_STEPS:
            raise DocumentFault(f"The template calls functions more than {limits.TEMPLATE_STEPS} times.", "")
        if name == "if":  # the branch that is not chosen may be wrong
            if len(arguments) != 3:
                raise DocumentFault("if() takes a condition and two values.", "")
            chosen = self._evaluate(arguments[0])
            if not isinstance(chosen, bool):
                raise DocumentFault("The first argument of if() must be true or false.", "")
            return self._evaluate(arguments[1 if chosen else 2])
        function = self._places.get(name) or FUNCTIONS.get(name)
        if function is None:
            raise self._unknown(name)
        values = [self._evaluate(argument) for argument in arguments]
        try:
            return _bounded(function(*values))
        except (DocumentFault, ReferenceNeeded):
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            what = str(error) if isinstance(error, ValueError) else "its arguments do not fit"
            raise DocumentFault(f"{name}() fails: {what}.", "") from None

    def _unknown(self, name: str) -> DocumentFault:
        known = [*FUNCTIONS, *self._places, "if"]
        if name in _IMPURE:
            return DocumentFault(f"{name}() gives another value each time, so it is not built.", "")
        if name in _UNBUILT:
            return DocumentFault(f"The template function {name}() is not built.", "")
        return DocumentFault(f"The template function {name}() is not known. {_hint(name, known)}", "")

    def _parameter(self, name: str) -> Any:
        if name.lower() not in self.parameters:
            raise DocumentFault(f"There is no parameter '{name}'. {_hint(name, list(self.parameters))}", "")
        return self.parameters[name.lower()]

    def _variable(self, name: str) -> Any:
        found = next((key for key in self.variables if key.lower() == name.lower()), None)
        if found is None:
            raise DocumentFault(f"There is no variable '{name}'. {_hint(name, list(self.variables))}", "")
        if found not in self._values:
            path = f"variables.{found}"
            with self.guarded(path), self.within([]):
                self._values[found] = self.value(self.variables[found], path)
        return self._values[found]

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Refuse a value that needs itself."""
        if what in self._under_way:
            circle = " → ".join([*self._under_way[self._under_way.index(what) :], what])
            raise DocumentFault(f"A value needs itself: {circle}.", what)
        self._under_way.append(what)
        try:
            yield
        finally:
            self._under_way.pop()

    def _copy_index(self, name: Any = None, offset: int = 0) -> int:
        if isinstance(name, int):
            name, offset = None, name
        for loop, index in reversed(self._loops):
            if name is None or loop.lower() == str(name).lower():
                return index + offset
        raise DocumentFault("copyIndex() is used outside of its copy.", "")

    def _deployment(self) -> dict[str, Any]:
        name = self.surroundings.deployment
        id = f"{self.surroundings.group_id}/providers/Microsoft.Resources/deployments/{name}"
        return {"name": name, "id": id, "properties": {"mode": "Incremental", "provisioningState": "Accepted"}}

    def _group(self) -> dict[str, Any]:
        place = self.surroundings
        return {
            "id": place.group_id,
            "name": place.resource_group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": place.location,
            "tags": {},
            "properties": {"provisioningState": "Succeeded"},
        }

    def _subscription(self) -> dict[str, Any]:
        id = self.surroundings.azure_subscription
        tenant = self.surroundings.tenant
        return {"id": f"/subscriptions/{id}", "subscriptionId": id, "tenantId": tenant, "displayName": "Recapito"}

    def _resource_id(self, *parts: str) -> str:
        """The id of a resource, in this group unless other places come first."""
        at = next((n for n, part in enumerate(parts) if "/" in part), None)
        if at is None or at > 2:
            raise DocumentFault("resourceId() needs a type such as 'Microsoft.EventGrid/topics'.", "")
        place = self.surroundings
        group = parts[at - 1] if at else place.resource_group
        subscription = parts[0] if at == 2 else place.azure_subscription
        return extension_id(f"/subscriptions/{subscription}/resourceGroups/{group}", parts[at], parts[at + 1 :])

    def _subscription_resource_id(self, *parts: str) -> str:
        at = 0 if "/" in parts[0] else 1
        subscription = parts[0] if at else self.surroundings.azure_subscription
        return extension_id(f"/subscriptions/{subscription}", parts[at], parts[at + 1 :])

    def _reference(self, name: str, version: str = "", full: str = "") -> Any:
        state = self._state(REFERENCE, name)
        return state if full.lower() == "full" else state.get("properties", {})

    def _state(self, verb: str, name: str) -> Any:
        id = name if name.startswith("/") else self.ids.get(name.lower())
        if id is None:
            raise DocumentFault(f"{verb}() names '{name}', which is no resource of the template.", "")
        found = self._known.get((verb, id.lower()))
        if found is None and verb == REFERENCE and self.predict is not None:
            found = self.predict(id)
        if found is None:
            raise ReferenceNeeded(id, verb)
        return found


def extension_id(base: str, type: str, names: tuple[str, ...]) -> str:
    """The id of a resource of that type and those names under a base."""
    namespace, *types = type.strip("/").split("/")
    if len(types) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise DocumentFault(f"The type '{type}' has {len(types)} parts, and its name must have as many.", "")
    steps = "".join(f"/{one}/{name}" for one, name in zip(types, names, strict=True))
    return f"{base}/providers/{namespace}{steps}"


def _hint(name: str, known: list[str]) -> str:
    return faults.nearest(name, known) if known else "The template has none."


def _member(of: Any, key: Any) -> Any:
    if isinstance(of, list) and isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(of):
            return of[key]
        raise DocumentFault(f"The array has {len(of)} items, so there is none at {key}.", "")
    if isinstance(of, dict) and isinstance(key, str):
        found = next((name for name in of if name == key), None) or next(
            (name for name in of if name.lower() == key.lower()), None
        )
        if found is not None:
            return of[found]
        raise DocumentFault(f"The object has no member '{key}'. {_hint(key, list(of))}", "")
    raise DocumentFault(f"'{key}' cannot be taken of this value.", "")


def _bounded(value: Any) -> Any:
    """The value, if it is not too large: texts that grow by repetition end here."""
    if isinstance(value, str) and len(value) > limits.EXPRESSION_TEXT_CHARS:
        raise ValueError(f"it makes a text above {limits.EXPRESSION_TEXT_CHARS} characters")
    if isinstance(value, list | dict) and len(value) > limits.EXPRESSION_ITEMS:
        raise ValueError(f"it makes more than {limits.EXPRESSION_ITEMS} items")
    return value
