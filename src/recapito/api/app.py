"""The ASGI application: the publish route in front, Starlette's router behind it; every error has a body of ours."""

from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from recapito.api.arm.catalog import CatalogManagement, unknown_path
from recapito.api.arm.deployments import DeploymentManagement
from recapito.api.arm.domain_topics import DomainTopicManagement
from recapito.api.arm.groups import GroupManagement
from recapito.api.arm.resources import ResourceList
from recapito.api.arm.storage_accounts import StorageManagement
from recapito.api.arm.subscription_lists import SubscriptionLists
from recapito.api.arm.subscriptions import SubscriptionManagement
from recapito.api.arm.topics import TopicManagement
from recapito.api.auth.identity_provider import IdentityProvider
from recapito.api.auth.management import ManagementGate
from recapito.api.body import BodyReader, ClientGone
from recapito.api.docs.openapi import Description
from recapito.api.errors import MethodNotAllowed, arm_body, journal_fault, new_report, refusal
from recapito.api.estate.routes import EstateRoutes, PortionRoutes
from recapito.api.operate.connections import ConnectionManagement
from recapito.api.operate.damaged import DamagedRecords
from recapito.api.operate.dead_letters import DeadLetterRoutes
from recapito.api.operate.deliveries import Deliveries
from recapito.api.operate.handshake_callback import HandshakeCallback
from recapito.api.operate.health import OperatorRoutes
from recapito.api.operate.lane_options import LaneOptions
from recapito.api.operate.lane_totals import LaneTotals
from recapito.api.operate.lanes import LaneRoutes
from recapito.api.operate.partition_calls import PartitionCallRoutes
from recapito.api.operate.series import DeliverySeries
from recapito.api.operate.topic_counts import TopicCounts
from recapito.api.publish.route import PublishRoute, target_of
from recapito.api.services import Services
from recapito.api.wire.decode import full_target, is_flat
from recapito.errors import Busy, CallerError, StoreFailed

# All resources under ARM's paths. The paths of scopes match much, so they come last.
_MANAGEMENT = (
    GroupManagement,
    TopicManagement,
    DomainTopicManagement,
    StorageManagement,
    ResourceList,
    DeploymentManagement,
    SubscriptionLists,
    CatalogManagement,
    SubscriptionManagement,
)


class Surface(NamedTuple):
    """The whole HTTP surface: an ASGI application, and its publish route for a protocol that serves it without ASGI."""

    app: ASGIApp
    publish: PublishRoute


def make_surface(services: Services) -> Surface:
    bodies = BodyReader()
    publish = PublishRoute(services, bodies)
    rest = _rest(services, bodies)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            target = target_of(scope["path"], scope["headers"])
            if target is not None:
                await publish(target, scope, receive, send)
                return
            if scope["path"].startswith("//"):  # some SDKs put a scope that begins with a slash behind a slash
                scope = {**scope, "path": "/" + scope["path"].lstrip("/")}
        await rest(scope, receive, send)

    return Surface(app, publish)


def _rest(services: Services, bodies: BodyReader) -> ASGIApp:
    async def show(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            error = _translate(error, request.url.path)
        return _show(services, error, is_flat(request.method, request.url.path))

    management = [route for part in _MANAGEMENT for route in part(services, bodies).routes()]
    operation = OperatorRoutes(services, bodies).routes()
    described = [
        *DeadLetterRoutes(services, bodies).routes(),
        *DamagedRecords(services, bodies).routes(),
        *Deliveries(services, bodies).routes(),
        *DeliverySeries(services).routes(),
        *LaneRoutes(services).routes(),
        *LaneTotals(services).routes(),
        *LaneOptions(services, bodies).routes(),
        *TopicCounts(services).routes(),
    ]
    called = services.partition_services
    kinds = (CallerError, Busy, StoreFailed, HTTPException, ClientGone, Exception)
    starlette = Starlette(
        routes=[
            *HandshakeCallback(services).routes(),
            *management,
            *operation,
            *described,
            *Description(management, operation, described).routes(),
            *IdentityProvider(services, bodies).routes(),
            *(ConnectionManagement(services, bodies).routes() if services.keyring else ()),
            *(PortionRoutes(services, bodies).routes() if services.spread else ()),
            *(EstateRoutes(services, bodies).routes() if services.estate else ()),
            *(PartitionCallRoutes(called, bodies).routes() if called else ()),
        ],
        exception_handlers=dict.fromkeys(kinds, show),
    )
    starlette.router.redirect_slashes = False
    starlette.state.admission = ManagementGate(services.access, services.wrong_secrets)

    async def rest(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await starlette(scope, receive, send)
        except Exception:
            if scope["type"] != "http":
                raise
            # Starlette raises errors again that `show` has answered and journalled.

    return rest


def _show(services: Services, error: Exception, flat: bool) -> Response:
    """The answer to an error. A client that has hung up does not get it."""
    report = new_report(services.clock.now())
    if not isinstance(error, ClientGone):
        journal_fault(services.journal, error, report)
    refused = refusal(error)
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    headers["x-recapito-report"] = report
    body = arm_body(refused._replace(target=full_target(refused.target, flat)))
    return Response(body, refused.status, headers, "application/json; charset=utf-8")


def _translate(error: HTTPException, path: str) -> CallerError:
    """The router raises two errors: no such path, and no such method on a path."""
    if error.status_code == 405:
        methods = (error.headers or {}).get("Allow", "").split(", ")
        return MethodNotAllowed(", ".join(sorted(methods)))
    return unknown_path(path)
