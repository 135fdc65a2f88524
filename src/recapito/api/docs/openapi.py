"""The description of our API in OpenAPI 3.1, made from the routes and the types of their bodies."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito import __version__
from recapito.api.arm.routing import ArmRoute, answer
from recapito.api.auth.management import admit_to_status
from recapito.api.docs.documented_route import DocumentedRoute
from recapito.api.wire.decode import Shown
from recapito.domain.delivery.headers import SAS_KEY
from recapito.domain.events.schema_table import INPUT_SCHEMAS

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_SCHEMAS = "#/components/schemas/"
# Patterns of names. The rules allow more; with narrower patterns the values that clients generate succeed.
_NAME = "^[a-z][a-z0-9-]{2,40}$"
_PATTERNS = {
    "account": "^[a-z0-9]{3,24}$",
    "namespace": "^Microsoft\\.(EventGrid|Storage|Resources)$",
    "scope": "^subscriptions/[a-z]{3,9}/resourceGroups/[a-z]{3,9}/providers/Microsoft\\.EventGrid/topics/[a-z]{3,9}$",
}
_LISTING = ("$filter", "$top", "$skiptoken")
_ERROR: Shown = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "target": {"type": ["string", "null"]},
                "details": {"type": "array", "items": {"type": "object"}},
            },
        }
    },
}
_OBJECT: Shown = {"application/json": {"schema": {"type": "object"}}}
_EVENTS: Shown = {
    media: {"schema": {"type": "object"} if lone else {"type": "array", "items": {"type": "object"}}}
    for row in INPUT_SCHEMAS.values()
    for media, lone in ((row.lone_type, True), (row.array_type, False))
    if media is not None
}
_MOVE: Shown = {
    "application/json": {
        "schema": {
            "type": "object",
            "properties": {"seconds": {"type": "number"}, "until": {"enum": ["idle"]}},
        }
    }
}


class Description:
    """The description, made once."""

    def __init__(
        self, management: Sequence[ArmRoute], operation: Sequence[Route], described: Sequence[DocumentedRoute]
    ) -> None:
        self._description = describe(management, operation, described)

    def routes(self) -> list[Route]:
        return [Route("/openapi.json", self._show)]

    async def _show(self, request: Request) -> Response:
        await admit_to_status(request)
        return answer(self._description)


def describe(management: Sequence[ArmRoute], operation: Sequence[Route], described: Sequence[DocumentedRoute]) -> Shown:
    bodies = [route.bodies for route in management] + [route.bodies for route in described]
    types = sorted({body for by_method in bodies for body in by_method.values()}, key=lambda body: body.__name__)
    _, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    paths: dict[str, Shown] = {}
    for route in management:
        paths.setdefault(_plain(route.path), {}).update(_describe_arm(route))
    for plain in operation:
        paths.setdefault(_plain(plain.path), {}).update(_describe_plain(plain))
    for own in described:
        paths.setdefault(_plain(own.path), {}).update(_describe_own(own))
    for kind in ("topics", "domains"):
        paths[f"/{kind}/{{topic}}/api/events"] = _describe_publish()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Recapito", "version": __version__, "summary": "Event Grid's push delivery, self-hosted."},
        "paths": paths,
        "components": {"schemas": {**components, "Error": _ERROR}},
    }


def _plain(path: str) -> str:
    return _PARAMETER.sub(r"{\1}", path)


def _describe_arm(route: ArmRoute) -> Shown:
    shown: Shown = {"parameters": [*_path_parameters(route.path), _query("api-version", required=True)]}
    for method in sorted(route.methods or ()):
        operation = _operation()
        if method == "GET" and not route.path.endswith("}"):
            operation["parameters"] = [_query(name) for name in _LISTING]
        body = route.bodies.get(method)
        if body is not None:
            operation["requestBody"] = _body(body)
        shown[method.lower()] = operation
    return shown


def _describe_own(route: DocumentedRoute) -> Shown:
    shown: Shown = {"parameters": _path_parameters(route.path)}
    for method in sorted(route.methods or ()):
        shown[method.lower()] = {**_operation(), "parameters": [_query(name) for name in route.queries]}
        if method in route.bodies:
            shown[method.lower()]["requestBody"] = _body(route.bodies[method])
    return shown


def _body(type: type[msgspec.Struct]) -> Shown:
    schema = {"$ref": _SCHEMAS + type.__name__}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _describe_plain(route: Route) -> Shown:
    shown: Shown = {"parameters": _path_parameters(route.path)} if "{" in route.path else {}
    for method in sorted(route.methods or ()):
        shown[method.lower()] = _operation()
        if method == "POST":
            shown["post"]["requestBody"] = {"required": True, "content": _MOVE}
    return shown


def _describe_publish() -> Shown:
    key = {"name": SAS_KEY, "in": "header", "required": False, "schema": {"type": "string"}}
    publish = {**_operation(), "requestBody": {"required": True, "content": _EVENTS}}
    return {"parameters": [*_path_parameters("{topic}"), key], "post": publish}


def _operation() -> Shown:
    error = {"application/json": {"schema": {"$ref": _SCHEMAS + "Error"}}}
    return {
        "responses": {
            "2XX": {"description": "Done.", "content": _OBJECT},
            "default": {"description": "Refused, and why.", "content": error},
        }
    }


def _path_parameters(path: str) -> list[Shown]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": _PATTERNS.get(name, _NAME)},
        }
        for name in _PARAMETER.findall(path)
    ]


def _query(name: str, required: bool = False) -> dict[str, Any]:
    schema: Shown = {"type": "string"}
    if name == "api-version":
        schema = {"type": "string", "enum": ["2018-01-01", "2021-10-15-preview", "2022-06-15", "2025-02-15"]}
    if name == "$top":
        schema = {"type": "integer", "minimum": 1, "maximum": 100}
    return {"name": name, "in": "query", "required": required, "schema": schema}
