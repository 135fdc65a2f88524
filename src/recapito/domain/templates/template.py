"""A template expanded: its resources with their ids and bodies, in the order of the document, and its outputs.

The law: a template is refused whole. An unknown key or function, a name that is there twice, a dependency on a resource
that is not there and a circle of dependencies are faults at a path.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from recapito.domain import limits
from recapito.domain.templates import faults
from recapito.domain.templates.evaluator import Evaluator, Known, Surroundings, extension_id
from recapito.domain.templates.faults import DocumentFault

_TOP = (
    *("$schema", "contentVersion", "apiProfile", "languageVersion", "metadata", "definitions"),
    *("parameters", "functions", "variables", "resources", "outputs"),
)
_BODY = ("location", "tags", "sku", "kind", "identity", "properties", "extendedLocation", "managedBy")
_RESOURCE = (
    *_BODY,
    *("type", "apiVersion", "name", "scope", "condition", "copy", "dependsOn", "resources", "existing"),
    *("comments", "metadata", "asserts", "zones", "plan"),
)
_PARAMETER = (
    *("type", "defaultValue", "allowedValues", "minValue", "maxValue", "minLength", "maxLength", "metadata"),
    *("nullable", "$ref", "items", "properties", "additionalProperties"),
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "securestring": str,
    "int": int,
    "bool": bool,
    "object": dict,
    "secureobject": dict,
    "array": list,
}
_GROUP = "microsoft.resources/resourcegroups"


class Declared(NamedTuple):
    """One resource that a document asks for: its id, its body as ARM takes it, and the path of its place.

    `flat`: the document writes the body's properties without `properties` around them.
    """

    id: str
    body: dict[str, Any]
    path: str
    flat: bool = False


class _Row(NamedTuple):
    """A resource before its body is evaluated."""

    raw: Mapping[str, Any]
    path: str
    symbol: str
    type: str
    name: str
    id: str
    loops: list[tuple[str, int]]
    existing: bool


class Template:
    """A template with its parameters filled in. `known` are the states of resources that its expressions ask for."""

    def __init__(
        self, document: Mapping[str, Any], given: Mapping[str, Any], surroundings: Surroundings, known: Known
    ) -> None:
        _check_keys(document, _TOP, "")
        self._document = document
        self._evaluator = Evaluator(surroundings, known)
        if document.get("functions"):
            raise DocumentFault("Functions of your own are not built.", "functions")
        self.secure = _read_parameters(_object(document, "parameters"), given, self._evaluator)
        variables = _object(document, "variables")
        _check_count(variables, limits.TEMPLATE_VARIABLES, "variables")
        self._evaluator.variables = self._with_copies(variables)
        self._rows = list(self._walk_all())
        if len(self._rows) > limits.TEMPLATE_RESOURCES:
            raise DocumentFault(f"A template may have {limits.TEMPLATE_RESOURCES} resources at most.", "resources")
        self._by_id: dict[str, _Row] = {}
        for row in self._rows:
            if row.id.lower() in self._by_id:
                other = self._by_id[row.id.lower()].path
                raise DocumentFault(f"'{row.type}' '{row.name}' is there twice, first at {other}.", row.path)
            self._by_id[row.id.lower()] = row
            for name in (row.name.rpartition("/")[2], row.name, row.symbol):
                if name:
                    self._evaluator.ids[name.lower()] = row.id
        self._check_order()

    @property
    def ids(self) -> list[str]:
        """The ids of its resources, those that it only names as existing left out."""
        return [row.id for row in self._rows if not row.existing]

    def resources(self) -> list[Declared]:
        self._evaluator.predict = self._predict
        return [Declared(row.id, self._body(row), row.path) for row in self._rows if not row.existing]

    def outputs(self) -> dict[str, Any]:
        """The outputs as ARM shows them; secure ones without their values. States come from `known` alone."""
        self._evaluator.predict = None
        outputs = _object(self._document, "outputs")
        _check_count(outputs, limits.TEMPLATE_OUTPUTS, "outputs")
        shown: dict[str, Any] = {}
        for name, output in outputs.items():
            path = f"outputs.{name}"
            if not isinstance(output, dict):
                raise DocumentFault(f"'{path}' must have a type and a value.", path)
            if not self._holds(output, path):
                continue
            type = str(output.get("type", "string"))
            shown[name] = {"type": type[:1].upper() + type[1:]}
            if not type.lower().startswith("secure"):
                shown[name]["value"] = self._output(output, path)
        return shown

    def _output(self, output: Mapping[str, Any], path: str) -> Any:
        copy = output.get("copy")
        if copy is None:
            return self._evaluator.value(output.get("value"), f"{path}.value")
        if not isinstance(copy, dict):
            raise DocumentFault(f"'{path}.copy' must have a count and an input.", f"{path}.copy")
        loop = {"name": "value", **copy}
        return self._evaluator.value({"copy": [loop]}, path)["value"]

    def _with_copies(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables by name, those that a copy makes included."""
        found = {name: value for name, value in variables.items() if name.lower() != "copy"}
        copies = variables.get("copy") or []
        if not isinstance(copies, list):
            raise DocumentFault("'variables.copy' must be an array.", "variables.copy")
        for n, loop in enumerate(copies):
            path = f"variables.copy[{n}]"
            if not isinstance(loop, dict) or not isinstance(loop.get("name"), str):
                raise DocumentFault(f"'{path}' must have a name, a count and an input.", path)
            found[loop["name"]] = f"[variables('{_INNER}{n}').{loop['name']}]"
            found[f"{_INNER}{n}"] = {"copy": [loop]}
        return found

    def _holds(self, raw: Mapping[str, Any], path: str) -> bool:
        held = self._evaluator.value(raw.get("condition", True), f"{path}.condition")
        if not isinstance(held, bool):
            raise DocumentFault(f"'{path}.condition' must be true or false.", f"{path}.condition")
        return held

    def _walk_all(self) -> Iterator[_Row]:
        resources = self._document.get("resources", [])
        if isinstance(resources, dict):  # with symbolic names, as Bicep writes them
            for symbol, raw in resources.items():
                yield from self._walk(raw, f"resources.{symbol}", symbol, None, [])
            return
        if not isinstance(resources, list):
            raise DocumentFault("'resources' must be an array.", "resources")
        for n, raw in enumerate(resources):
            yield from self._walk(raw, f"resources[{n}]", "", None, [])

    def _walk(
        self, raw: Any, path: str, symbol: str, parent: _Row | None, loops: list[tuple[str, int]]
    ) -> Iterator[_Row]:
        """A resource with its copies, and the children in it."""
        if not isinstance(raw, dict):
            raise DocumentFault(f"'{path}' must be a resource.", path)
        _check_keys(raw, _RESOURCE, path)
        copy = raw.get("copy")
        if copy is None:
            yield from self._one(raw, path, symbol, parent, loops)
            return
        if not isinstance(copy, dict) or not {"name", "count"} <= set(copy):
            raise DocumentFault(f"'{path}.copy' must have a name and a count.", f"{path}.copy")
        name = self._evaluator.text(copy["name"], f"{path}.copy.name")
        for index in range(self._evaluator.count(copy["count"], f"{path}.copy.count")):
            yield from self._one(raw, path, symbol, parent, [*loops, (name, index)])

    def _one(
        self, raw: Mapping[str, Any], path: str, symbol: str, parent: _Row | None, loops: list[tuple[str, int]]
    ) -> Iterator[_Row]:
        with self._evaluator.within(loops):
            if not self._holds(raw, path):
                return
            row = self._row(raw, path, symbol, parent, loops)
        yield row
        children = raw.get("resources") or []
        if not isinstance(children, list | dict):
            raise DocumentFault(f"'{path}.resources' must be an array.", f"{path}.resources")
        if isinstance(children, dict):
            members = [(child, f"{path}.resources.{name}", name) for name, child in children.items()]
        else:
            members = [(child, f"{path}.resources[{n}]", "") for n, child in enumerate(children)]
        for child, at, name in members:
            yield from self._walk(child, at, name, row, loops)

    def _row(
        self, raw: Mapping[str, Any], path: str, symbol: str, parent: _Row | None, loops: list[tuple[str, int]]
    ) -> _Row:
        type = self._evaluator.text(raw.get("type"), f"{path}.type")
        name = self._evaluator.text(raw.get("name"), f"{path}.name")
        if parent is not None and "." not in type.partition("/")[0]:
            type, name = f"{parent.type}/{type}", f"{parent.name}/{name}"
        place = self._evaluator.surroundings
        if type.lower() == _GROUP:
            id = f"/subscriptions/{place.azure_subscription}/resourceGroups/{name}"
            return _Row(raw, path, symbol, type, name, id, loops, bool(raw.get("existing")))
        base = place.group_id
        if "scope" in raw:
            scope = self._evaluator.text(raw["scope"], f"{path}.scope")
            base = scope if scope.startswith("/") else _scope_id(base, scope)
        try:
            id = extension_id(base, type, tuple(name.split("/")))
        except DocumentFault as fault:
            raise DocumentFault(fault.message, f"{path}.name") from None
        return _Row(raw, path, symbol, type, name, id, loops, bool(raw.get("existing")))

    def _body(self, row: _Row) -> dict[str, Any]:
        with self._evaluator.guarded(row.path), self._evaluator.within(row.loops):
            return {key: self._evaluator.value(row.raw[key], f"{row.path}.{key}") for key in _BODY if key in row.raw}

    def _predict(self, id: str) -> Any:
        """The state that a resource of this template will have, as far as its body shows it."""
        row = self._by_id.get(id.lower())
        if row is None or row.existing:
            return None
        body = self._body(row)
        properties = dict(body.get("properties") or {})
        kind = row.type.rpartition("/")[2].lower()
        if row.type.lower() in ("microsoft.eventgrid/topics", "microsoft.eventgrid/domains"):
            properties["endpoint"] = f"{self._evaluator.surroundings.public_url}/{kind}/{row.name}/api/events"
        return {**body, "id": row.id, "name": row.name, "type": row.type, "properties": properties}

    def _check_order(self) -> None:
        """Refuse dependencies on resources that are not there, and circles."""
        needs = {row.id.lower(): list(self._needs(row)) for row in self._rows}
        settled: set[str] = set()
        for start in needs:
            way: list[tuple[str, int]] = [(start, 0)]
            on_way = {start}
            while way:
                id, index = way.pop()
                if id in settled or index == len(needs[id]):
                    settled.add(id)
                    on_way.discard(id)
                    continue
                way.append((id, index + 1))
                following = needs[id][index]
                if following in on_way:
                    row = self._by_id[following]
                    ids = [id for id, _ in way] + [following]
                    circle = " → ".join(self._by_id[id].name for id in ids[ids.index(following) :])
                    raise DocumentFault(f"'{row.name}' depends on itself: {circle}.", f"{row.path}.dependsOn")
                if following not in settled:
                    way.append((following, 0))
                    on_way.add(following)

    def _needs(self, row: _Row) -> Iterator[str]:
        named = row.raw.get("dependsOn") or []
        if not isinstance(named, list):
            raise DocumentFault(f"'{row.path}.dependsOn' must be an array.", f"{row.path}.dependsOn")
        for n, raw in enumerate(named):
            path = f"{row.path}.dependsOn[{n}]"
            with self._evaluator.within(row.loops):
                wanted = self._evaluator.text(raw, path).lower()
            found = [one.id.lower() for one in self._rows if _answers_to(one, wanted)]
            if not found and not self._is_left_out(wanted):
                raise DocumentFault(f"'{wanted}' is not a resource of this document.", path)
            yield from found

    def _is_left_out(self, wanted: str) -> bool:
        """Whether the document has a resource of that name whose condition is false, or a copy of none."""
        resources = self._document.get("resources", [])
        all = list(resources.values()) if isinstance(resources, dict) else resources
        names = {str(name).lower() for name in resources} if isinstance(resources, dict) else set()
        names |= {str(raw["copy"].get("name")).lower() for raw in all if isinstance(raw.get("copy"), dict)}
        conditional = [raw for raw in all if "condition" in raw or "copy" in raw]
        last = wanted.rpartition("/")[2]
        for raw in conditional:
            if "copy" not in raw:
                names.add(self._evaluator.text(raw.get("name"), "name").lower().rpartition("/")[2])
        return wanted in names or last in names


_INNER = "copy: "  # no variable of a template has a blank in its name


def _answers_to(row: _Row, wanted: str) -> bool:
    loops = [name.lower() for name, _ in row.loops]
    short = f"{row.type}/{row.name}".lower()
    names = (row.id.lower(), row.symbol.lower(), row.name.lower(), short)
    return wanted in names or wanted in loops or row.id.lower().endswith(f"/providers/{wanted.lstrip('/')}")


def _scope_id(group: str, scope: str) -> str:
    """The id of a scope that is written as a type and a name: `Microsoft.EventGrid/topics/orders`."""
    return f"{group}/providers/{scope.strip('/')}"


def _object(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise DocumentFault(f"'{key}' must be an object.", key)
    return value


def _check_keys(raw: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    lower = {name.lower() for name in known}
    for name in raw:
        if name.lower() not in lower:
            place = faults.at(path, name)
            raise DocumentFault(f"'{name}' is not a key of a template. {faults.nearest(name, list(known))}", place)


def _check_count(of: Mapping[str, Any], most: int, path: str) -> None:
    if len(of) > most:
        raise DocumentFault(f"A template may have {most} {path} at most.", path)


def _read_parameters(declared: Mapping[str, Any], given: Mapping[str, Any], evaluator: Evaluator) -> set[str]:
    """Fill in the parameters, and return the names of the secure ones."""
    _check_count(declared, limits.TEMPLATE_PARAMETERS, "parameters")
    names = {name.lower() for name in declared}
    for name in given:
        if name.lower() not in names:
            hint = faults.nearest(name, list(declared)) if declared else "It has none."
            raise DocumentFault(f"The template has no parameter '{name}'. {hint}", f"parameters.{name}")
    values = {name.lower(): value for name, value in given.items()}
    secure = set()
    for name, parameter in declared.items():
        path = f"parameters.{name}"
        if not isinstance(parameter, dict) or not isinstance(parameter.get("type", "object"), str):
            raise DocumentFault(f"'{path}' must have a type.", path)
        _check_keys(parameter, _PARAMETER, path)
        kind = parameter.get("type", "object").lower()
        if name.lower() in values:
            value = _given(values[name.lower()], name, path)
        elif "defaultValue" in parameter:
            value = evaluator.value(parameter["defaultValue"], f"{path}.defaultValue")
        elif parameter.get("nullable"):
            value = None
        else:
            raise DocumentFault(f"The parameter '{name}' has no value: give one, or a defaultValue.", path)
        _check_parameter(value, kind, parameter, name, path)
        if kind.startswith("secure"):
            secure.add(name)
        evaluator.parameters[name.lower()] = value
    return secure


def _given(given: Any, name: str, path: str) -> Any:
    if isinstance(given, dict) and set(given) == {"value"}:
        return given["value"]
    if isinstance(given, dict) and "reference" in given:
        raise DocumentFault(f"The parameter '{name}' is in a key vault, which is not built: give its value.", path)
    raise DocumentFault(f"'{path}' must be an object with a value.", path)


def _check_parameter(value: Any, kind: str, parameter: Mapping[str, Any], name: str, path: str) -> None:
    wanted, whole = _TYPES.get(kind), value
    if wanted is None:
        raise DocumentFault(f"'{kind}' is not a type. {faults.nearest(kind, list(_TYPES))}", f"{path}.type")
    if value is None and parameter.get("nullable"):
        return
    if not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
        if "type" in parameter:
            raise DocumentFault(f"The value of the parameter '{name}' must be of type {kind}.", path)
        return
    allowed = parameter.get("allowedValues")
    if allowed is not None and not isinstance(allowed, list):
        raise DocumentFault(f"'{path}.allowedValues' must be an array.", f"{path}.allowedValues")
    if allowed is not None and value not in allowed:
        raise DocumentFault(f"The parameter '{name}' must be one of {', '.join(map(str, allowed))}.", path)
    least, most = ("minValue", "maxValue") if kind == "int" else ("minLength", "maxLength")
    low, high = (_bound(parameter.get(key), f"{path}.{key}") for key in (least, most))
    size = whole if kind in ("int", "bool") else len(whole)
    if (low is not None and size < low) or (high is not None and size > high):
        raise DocumentFault(f"The parameter '{name}' is not within its {least} and {most}.", path)


def _bound(value: Any, path: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise DocumentFault(f"'{path}' must be a whole number.", path)
    return value
