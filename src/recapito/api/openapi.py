"""The OpenAPI description of this server: bodies from openapi.json, paths from the routes, so that none is left out."""

import json
import re
from collections.abc import Iterable
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recapito import __version__
from recapito.api.arm import ArmRoute

# The schema of a body, by the method and the end of the path.
_BODIES = {
    "PUT /domains/{}/topics/{}": None,
    "PUT /eventSubscriptions/{}": "Subscription",
    "PATCH /eventSubscriptions/{}": "SubscriptionProperties",
    "PUT /systemTopics/{}": "SystemTopic",
    "PATCH /systemTopics/{}": "SystemTopicChange",
    "PUT /topics/{}": "Topic",
    "PATCH /topics/{}": "TopicChange",
    "PUT /domains/{}": "Topic",
    "PATCH /domains/{}": "TopicChange",
    "POST /regenerateKey": "KeyName",
    "PUT /storageAccounts/{}": "Account",
    "PUT /resourceGroups/{}": "Group",
    "POST /clock/advance": "Advance",
}
_PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_route(routes: Iterable[Route]) -> Route:
    """The route that shows the description of these routes; anybody may read it."""
    shown = json.dumps(describe(routes)).encode()

    async def show(request: Request) -> Response:
        return Response(shown, media_type="application/json")

    return Route("/openapi.json", show)


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """The description as a JSON object."""
    document: dict[str, Any] = json.loads(resources.files(__package__).joinpath("openapi.json").read_text("utf-8"))
    document["info"]["version"] = __version__
    for route in routes:
        path = _PLACE.sub(r"{\1}", route.path)
        document["paths"].setdefault(path, {}).update(_operations(path, route))
    return document


def _operations(path: str, route: Route) -> dict[str, Any]:
    names = _PLACE.findall(path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    if isinstance(route, ArmRoute):
        parameters.append({"$ref": "#/components/parameters/ApiVersion"})
    methods = sorted((route.methods or set()) - {"HEAD"})
    return {**({"parameters": parameters} if parameters else {}), **{m.lower(): _operation(path, m) for m in methods}}


def _operation(path: str, method: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "responses": {
            "2XX": {"description": "Done."},
            "default": {"$ref": "#/components/responses/Refused"},
        }
    }
    if method == "GET" and not path.endswith("}"):
        operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in ("Top", "Filter")]
    name = _body(path, method)
    if name is not None:
        schema = {"$ref": f"#/components/schemas/{name}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _body(path: str, method: str) -> str | None:
    wanted = f"{method} {_PLACE.sub('{}', path)}"
    for known, name in _BODIES.items():
        known_method, _, end = known.partition(" ")
        if method == known_method and wanted.lower().endswith(end.lower()):
            return name
    return None
