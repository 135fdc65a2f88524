"""Incremental deployments of templates to a resource group, as `az deployment group` asks for them.

A deployment has ended when its PUT is answered. The template and the values of secure parameters are not kept.
"""

import re
from typing import Any
from uuid import UUID, uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recapito.api.arm.routing import ArmRoute, answer, in_group
from recapito.api.body import BodyReader
from recapito.api.estate.expansion import Expander, Expansion
from recapito.api.estate.manager import Action, Estate, Report, Step
from recapito.api.estate.routes import estate_for
from recapito.api.services import Services
from recapito.api.wire.decode import Body, Shown, check_choice, decode, invalid, refuse_unbuilt
from recapito.domain import limits
from recapito.domain.instant import stamp
from recapito.domain.templates.evaluator import Surroundings
from recapito.domain.templates.faults import DocumentFault
from recapito.domain.templates.json_with_comments import to_json
from recapito.errors import CallerError, InvalidInput, NotFound
from recapito.intake.resources.deployments import Deployment, Deployments
from recapito.intake.resources.groups import Group
from recapito.intake.resources.not_found import resource_missing

TYPE = "Microsoft.Resources/deployments"
_PATH = in_group("/providers/Microsoft.Resources/deployments")
_NAME = re.compile(r"[-\w._()]+")
_MODES = ("Incremental", "Complete")
_CHANGE_TYPES = {Action.CREATE: "Create", Action.UPDATE: "Modify", Action.KEEP: "NoChange", Action.DELETE: "Delete"}


class DeploymentProperties(Body):
    """The properties of a deployment as sent."""

    mode: str | None = None
    template: Any = None
    parameters: dict[str, Any] | None = None
    template_link: Any = None
    parameters_link: Any = None
    on_error_deployment: Any = None
    debug_setting: Any = None
    expression_evaluation_options: Any = None
    validation_level: Any = None
    what_if_settings: Any = None
    extension_configs: Any = None
    external_inputs: Any = None
    external_input_definitions: Any = None


class DeploymentBody(Body):
    """A deployment as sent."""

    properties: DeploymentProperties
    location: str | None = None
    tags: dict[str, str] | None = None
    identity: Any = None


class DeploymentManagement:
    def __init__(self, services: Services, bodies: BodyReader) -> None:
        self._groups = services.topics.groups
        self._deployments = Deployments(services.registry, services.clock)
        self._clock = services.clock
        self._bodies = bodies
        self._services = services
        issuer = services.access.issuer
        self._tenant = str(UUID(int=0)) if issuer is None else issuer.tenant

    def routes(self) -> list[ArmRoute]:
        if self._services.estate is None:
            return []
        one = _PATH + "/{name}"
        handlers = {"GET": self._get, "HEAD": self._head, "PUT": self._put, "DELETE": self._delete}
        return [
            ArmRoute(_PATH, {"GET": self._list}),
            ArmRoute(_PATH + "/", {"GET": self._list}),
            ArmRoute(one, handlers, {"PUT": DeploymentBody}),
            ArmRoute(one + "/validate", {"POST": self._validate}, {"POST": DeploymentBody}),
            ArmRoute(one + "/whatIf", {"POST": self._what_if}, {"POST": DeploymentBody}),
            ArmRoute(one + "/operations", {"GET": self._operations}),
        ]

    async def _group(self, request: Request) -> Group:
        estate = estate_for(request, self._services)
        return await estate.group(request.path_params["subscription"], request.path_params["group"])

    def _expander(self, estate: Estate) -> Expander:
        return Expander(estate.state, self._services.public_url)

    async def _read(self, request: Request) -> tuple[Group, DeploymentProperties, Surroundings]:
        name = request.path_params["name"]
        least, most = limits.DEPLOYMENT_NAME_CHARS
        if not least <= len(name) <= most or not _NAME.fullmatch(name):
            raise invalid(f"A deployment's name has {least} to {most} letters, digits and -_.().", "deploymentName")
        headers = dict(request.scope["headers"])
        body = await self._bodies.read(headers, request.receive, limits.ESTATE_BYTES)
        sent = decode(_as_json(body), DeploymentBody).properties
        group = await self._group(request)
        refuse_unbuilt(
            {
                "properties.mode": check_choice(sent.mode or "Incremental", _MODES, "properties.mode") == "Complete",
                "properties.templateLink": sent.template_link,
                "properties.parametersLink": sent.parameters_link,
                "properties.onErrorDeployment": sent.on_error_deployment,
            }
        )
        if not isinstance(sent.template, dict) or "resources" not in sent.template:
            raise invalid("'properties.template' must be a template with resources.", "properties.template")
        place = Surroundings(group.azure_subscription, group.name, group.location, self._tenant, name)
        return group, sent, place

    async def _plan(
        self, estate: Estate, sent: DeploymentProperties, place: Surroundings
    ) -> tuple[Expansion, list[Step]]:
        expansion = await self._expander(estate).expand(sent.template, sent.parameters or {}, place)
        return expansion, await estate.plan(expansion.resources)

    async def _put(self, request: Request) -> Response:
        group, sent, place = await self._read(request)
        estate = estate_for(request, self._services)
        expander = self._expander(estate)
        try:
            expansion = await expander.expand(sent.template, sent.parameters or {}, place)
            report = await estate.apply(expansion.resources)
        except DocumentFault as fault:
            raise _in_template(fault) from None
        error = _failure(report)
        # A group of another partition is kept here too: its deletion then takes the deployment along.
        group = await self._groups.put(
            group.azure_subscription, group.name, group.location, group.tags, group.managed_by
        )
        deployment = Deployment(
            name=place.deployment,
            at=self._clock.now(),
            parameters=_shown_parameters(sent, expansion),
            outputs={} if error else await expander.outputs(sent.template, sent.parameters or {}, place),
            made=tuple((step.action, step.address.type, step.address.id) for step in report.steps),
            error=error,
        )
        old = await self._deployments.find(group, deployment.name)
        await self._deployments.keep(group, deployment)
        if error is not None:
            raise InvalidInput("DeploymentFailed", error)
        return answer(_show(group, deployment), 201 if old is None else 200)

    async def _validate(self, request: Request) -> Response:
        group, sent, place = await self._read(request)
        try:
            expansion, steps = await self._plan(estate_for(request, self._services), sent, place)
        except DocumentFault as fault:
            raise _in_template(fault) from None
        planned = Deployment(
            name=place.deployment,
            at=self._clock.now(),
            parameters=_shown_parameters(sent, expansion),
            made=tuple((step.action, step.address.type, step.address.id) for step in steps),
        )
        shown = _show(group, planned)
        shown["properties"]["validatedResources"] = [{"id": step.address.id} for step in steps]
        return answer(shown)

    async def _what_if(self, request: Request) -> Response:
        _, sent, place = await self._read(request)
        try:
            expansion, steps = await self._plan(estate_for(request, self._services), sent, place)
        except DocumentFault as fault:  # that the template is wrong is an answer to the question
            error = _in_template(fault)
            return answer({"status": "Failed", "error": {"code": error.code, "message": error.message}})
        bodies = {declared.path: declared.body for declared in expansion.resources}
        return answer(
            {
                "status": "Succeeded",
                "properties": {
                    "correlationId": str(uuid4()),
                    "changes": [_show_change(step, bodies) for step in steps],
                },
            }
        )

    async def _list(self, request: Request) -> Response:
        group = await self._group(request)
        return answer({"value": [_show(group, one) for one in await self._deployments.list(group)]})

    async def _find(self, request: Request) -> tuple[Group, Deployment]:
        group, name = await self._group(request), request.path_params["name"]
        deployment = await self._deployments.find(group, name)
        if deployment is None:
            raise NotFound("DeploymentNotFound", resource_missing(TYPE, name, group.name).message)
        return group, deployment

    async def _get(self, request: Request) -> Response:
        return answer(_show(*await self._find(request)))

    async def _head(self, request: Request) -> Response:
        try:
            await self._find(request)
        except NotFound:
            return Response(status_code=404)
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        """Forget a deployment; its resources stay."""
        try:
            group, deployment = await self._find(request)
            await self._deployments.remove(group, deployment.name)
        except NotFound:
            pass
        return Response(status_code=204)

    async def _operations(self, request: Request) -> Response:
        group, deployment = await self._find(request)
        return answer({"value": [_show_operation(group, deployment, n) for n in range(len(deployment.made))]})


def _as_json(body: bytes) -> bytes:
    """The body as JSON: az puts the text of a template file into it as it stands, behind a name without quotes."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return to_json(body.decode("utf-8", "replace")).encode()
    return body


def _in_template(fault: DocumentFault) -> CallerError:
    target = (
        f"properties.{fault.target}" if fault.path.startswith("parameters") else f"properties.template.{fault.path}"
    )
    return InvalidInput("InvalidTemplateDeployment", f"{fault.message} (at {fault.path or 'the template'})", target)


def _failure(report: Report) -> str | None:
    if not report.failed:
        return None
    told = "; ".join(f"{failure.step.address.title}: {failure.message}" for failure in report.failed)
    return f"{len(report.failed)} of {len(report.steps)} resources failed: {told}"


def _shown_parameters(sent: DeploymentProperties, expansion: Expansion) -> Shown:
    """The parameters without the values of secure ones."""
    declared = sent.template.get("parameters") or {}
    types = {name.lower(): str(one.get("type", "object")) for name, one in declared.items() if isinstance(one, dict)}
    secure = {name.lower() for name in expansion.secure}
    shown: Shown = {}
    for name, given in (sent.parameters or {}).items():
        type = types.get(name.lower(), "object")
        shown[name] = {"type": type[:1].upper() + type[1:]}
        if name.lower() not in secure:
            shown[name]["value"] = given.get("value")
    return shown


def _show(group: Group, deployment: Deployment) -> Shown:
    properties: Shown = {
        "provisioningState": "Succeeded" if deployment.error is None else "Failed",
        "mode": "Incremental",
        "correlationId": str(UUID(int=deployment.at)),
        "timestamp": stamp(deployment.at),
        "duration": "PT0S",
        "parameters": deployment.parameters,
        "outputs": deployment.outputs,
        "providers": [],
        "dependencies": [],
        "outputResources": [{"id": id} for _, _, id in deployment.made],
    }
    if deployment.error is not None:
        properties["error"] = {"code": "DeploymentFailed", "message": deployment.error}
    id = f"{group.resource_id}/providers/{TYPE}/{deployment.name}"
    return {"id": id, "name": deployment.name, "type": TYPE, "properties": properties}


def _show_operation(group: Group, deployment: Deployment, n: int) -> Shown:
    action, type, id = deployment.made[n]
    return {
        "id": f"{group.resource_id}/providers/{TYPE}/{deployment.name}/operations/{n}",
        "operationId": str(n),
        "properties": {
            "provisioningOperation": "Create" if action != Action.KEEP else "Read",
            "provisioningState": "Succeeded" if deployment.error is None else "Failed",
            "timestamp": stamp(deployment.at),
            "statusCode": "OK",
            "targetResource": {"id": id, "resourceType": type, "resourceName": id.rpartition("/")[2]},
        },
    }


def _show_change(step: Step, bodies: dict[str, dict[str, Any]]) -> Shown:
    """A step as what-if shows it. Values that change are named, not shown: some are secrets."""
    wish = step.wish
    body = {} if wish is None else bodies.get(wish.declared.path, {})
    address = step.address
    whole = {"id": address.id, "name": address.name, "type": address.type}
    shown: Shown = {"resourceId": address.id, "changeType": _CHANGE_TYPES[step.action]}
    if step.action is Action.CREATE:
        return {**shown, "after": {**whole, **({"location": body["location"]} if "location" in body else {})}}
    delta = [
        {"path": name, "propertyChangeType": "Modify", "before": "(stored)", "after": "(template)"}
        for name in step.changed
    ]
    return {**shown, "before": whole, "after": whole, "delta": delta}
